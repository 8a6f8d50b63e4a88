"""Open text by the ending of its name (plain, `.gz`, `.zst`; `-` is standard input or output), and write files safely.

    with Input("news.txt.zst") as text: for block in text.blocks(): ...
    with Output("news.conllu.gz") as out: out.write(sentence)
    with replacing(path) as file: file.write(data)

- Text is UTF-8. A byte order mark at the start is no text: it is dropped, and offsets count from behind it. Bytes
  that are not UTF-8 are an `InputError` with the offset of the first one in the (decompressed) stream, or U+FFFD if
  `errors` is "replace". Line ends stay as they are.
- An `Output` hands every piece over to the system before `write` returns, compressed ones as a block of their own:
  a process that is killed has lost nothing that it wrote. Lone surrogates, which UTF-8 cannot hold, become `\\ud800`.
- `replacing` writes beside the final name, and renames when the new file is safe on the disk: other files appear
  whole, or not at all. Links stay, and so do devices and pipes, which are written into.

Constant memory. `zishu.compression` knows the compressed formats; nothing here knows a format of text.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import stat
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Final, Literal

from zishu.compression import DamagedFile, Decompressed, codec_of
from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import Self

    from zishu.compression import Codec, Compressor

STANDARD: Final = "-"  # the name of standard input and standard output

Errors = Literal["strict", "replace"]
FilePath = str | os.PathLike[str]

_BLOCK: Final = 1 << 16  # bytes of text decoded at once
_BYTE_ORDER_MARK: Final = "\ufeff"


def open_bytes(path: FilePath) -> IO[bytes]:
    """Open a file for reading, decompressed as its ending tells; a broken one is `DamagedFile` while it is read."""
    name = os.fspath(path)
    codec = codec_of(name)
    file = Path(name).open("rb")  # noqa: SIM115 (the caller closes it)
    return file if codec is None else io.BufferedReader(Decompressed(file, codec, name), _BLOCK)


def standard_input() -> IO[bytes]:
    """Return standard input as a stream of bytes that waits for more; a closed one is an `InputError`."""
    if sys.stdin is None:
        raise InputError("standard input is closed")
    stream = sys.stdin.buffer
    # A stream may come to us not blocking: "nothing yet" would be taken for its end.
    with contextlib.suppress(OSError, ValueError):  # a stream in memory
        os.set_blocking(stream.fileno(), True)
    return stream


def check_not_input(source: FilePath | IO[bytes], target: FilePath) -> None:
    """Refuse to write a file that is read, under whatever name or as standard input."""
    try:
        read = Path(source).stat() if isinstance(source, str | os.PathLike) else os.fstat(source.fileno())
        same = stat.S_ISREG(read.st_mode) and os.path.samestat(read, Path(target).stat())
    except (OSError, ValueError):  # one of them is not there, or in memory
        return
    if same:
        raise InputError(f"{os.fspath(target)}: is the input, too")


class Input:
    """A text to be read, from a file or from standard input, and how much of it has been read."""

    def __init__(self, path: FilePath = STANDARD, *, errors: Errors = "strict") -> None:
        self.standard = os.fspath(path) == STANDARD
        self.name = "<stdin>" if self.standard else os.fspath(path)
        self.characters = 0  # read so far
        self._bytes = 0
        self._errors = errors
        self._stream = standard_input() if self.standard else open_bytes(path)
        self._raw = getattr(self._stream, "raw", None)
        file = self._raw.file if isinstance(self._raw, Decompressed) else self._stream
        # The size of the file, None for a pipe and the like.
        self.size = _size(file)

    @property
    def bytes(self) -> int:
        """Return how many bytes of the file have been read."""
        return self._raw.consumed if isinstance(self._raw, Decompressed) else self._bytes

    def blocks(self) -> Iterator[str]:
        """Yield the text in blocks of any size, as it comes; all that is good comes before an error."""
        decoder = codecs.getincrementaldecoder("utf-8")(self._errors)
        read: Callable[[int], bytes] = getattr(self._stream, "read1", self._stream.read)
        held = 0  # bytes of a character whose rest is in the next block
        start = True
        fault: InputError | None = None
        while fault is None:
            block = read(_BLOCK)
            try:
                text = decoder.decode(block, not block)
            except UnicodeDecodeError as error:
                text, byte = error.object[: error.start].decode(), error.object[error.start]
                place = f"byte {self._bytes - held + error.start} (counted from 0) is 0x{byte:02x}"
                fault = InputError(f"{self.name}: not valid UTF-8: {place}")
            held = len(decoder.getstate()[0])
            self._bytes += len(block)
            if start and text:
                text, start = text.removeprefix(_BYTE_ORDER_MARK), False
            if text:
                self.characters += len(text)
                yield text
            if not block:
                break
        if fault is not None:
            raise fault

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.standard:
            self._stream.close()


def _size(file: IO[bytes]) -> int | None:
    try:
        status = os.fstat(file.fileno())
    except (OSError, ValueError):  # a stream in memory
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


class Output:
    """A text to be written, to a file or to standard output; what `write` was given is out when it returns."""

    def __init__(self, path: FilePath = STANDARD, *, append: bool = False) -> None:
        self.standard = os.fspath(path) == STANDARD
        self._path = os.fspath(path)
        self._codec: Codec | None = None
        self._member: Compressor | None = None
        if self.standard:
            if sys.stdout is None:
                raise InputError("standard output is closed")
            return
        self._codec = codec_of(self._path)
        self._file = Path(path).open("ab" if append else "wb", buffering=0)  # noqa: SIM115 (`close` does)
        if self._codec is not None and not append:
            # At once, because a file of no text is a compressed file, too.
            self._member = self._codec.compressor()

    def write(self, text: str) -> None:
        """Write a piece of text."""
        if self.standard:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            self.write_bytes(text.encode("utf-8", "backslashreplace"))

    def write_bytes(self, data: bytes) -> None:
        """Write a piece of text that is UTF-8 already; only for files."""
        if self._codec is not None:
            self._member = self._member or self._codec.compressor()
            data = self._member.block(data)
        self._put(data)

    def _put(self, data: bytes) -> None:
        with _naming(self._path):
            while data:
                data = data[self._file.write(data) :]

    def close(self) -> None:
        """End the file; standard output stays open."""
        if self.standard or self._file.closed:
            return
        with _naming(self._path):
            try:
                if self._member is not None:
                    self._put(self._member.end())
            finally:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if value is None:
            self.close()
        else:
            # What went wrong first is what matters; a full disk would only fail again.
            with contextlib.suppress(OSError):
                self.close()


def truncate(path: FilePath, size: int) -> None:
    """Cut a file off behind so many bytes of its (decompressed) text, which must be there.

    A plain file is cut in place; of a compressed one a new copy is made, because a member cannot be cut.
    """
    codec = codec_of(os.fspath(path))
    if codec is None:
        os.truncate(path, size)
        return
    member = codec.compressor()
    with open_bytes(path) as old, replacing(path) as new:
        while size:
            block = old.read(min(size, _BLOCK))
            if not block:
                raise DamagedFile(os.fspath(path), f"there are {size} bytes less than expected")
            new.write(member.block(block))
            size -= len(block)
        new.write(member.end())


@contextlib.contextmanager
def replacing(path: FilePath) -> Iterator[BinaryIO]:
    """Give a file to write into; when the block ends well, move it, safe on the disk, to its place."""
    with replacing_all([path]) as [file]:
        yield file


@contextlib.contextmanager
def replacing_all(paths: Iterable[FilePath]) -> Iterator[list[BinaryIO]]:
    """Do as `replacing` for several files: all are safe on the disk before the first one takes its place."""
    names = list(paths)
    unfinished = [_unfinished(name) for name in names]
    moves = {
        temporary: Path(os.path.realpath(name))
        for name, temporary in zip(names, unfinished, strict=True)
        if temporary != Path(name)
    }
    try:
        with contextlib.ExitStack() as stack:
            files: list[BinaryIO] = []
            for name, temporary in zip(names, unfinished, strict=True):
                with _naming(name):
                    files.append(stack.enter_context(temporary.open("wb")))
            with _naming(names[0]):
                yield files
            for name, temporary, file in zip(names, unfinished, files, strict=True):
                with _naming(name):
                    file.flush()
                    if temporary in moves:
                        os.fsync(file.fileno())
        for temporary, target in moves.items():
            with _naming(target):
                os.replace(temporary, target)  # noqa: PTH105 (beside the other calls of the operating system)
    finally:
        for temporary in moves:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    # Too late to fail: the new files are in place, and some file systems know no flushing of folders.
    for folder in {target.parent for target in moves.values()}:
        with contextlib.suppress(OSError):
            _flush_folder(folder)


def _unfinished(path: FilePath) -> Path:
    """Return where a file grows until it takes its place: beside the one that a link leads to.

    A device or a pipe is written into as it is, because no file could do its work.
    """
    place = Path(path)
    if place.exists() and not place.is_file():
        return place
    place = Path(os.path.realpath(place))
    return place.with_name(f".{place.name}.unfinished")


# Errors that only writing can cause.
_WRITING: Final = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextlib.contextmanager
def _naming(path: FilePath) -> Iterator[None]:
    """Let errors of the system name this file, not the unfinished one, and not nothing when a disk is full."""
    try:
        yield
    except OSError as error:
        name = os.fspath(path)
        # Python tells no name when writing fails, and the unfinished file is none of the user's business.
        if error.filename is None and error.errno in _WRITING:
            error.filename = name
        elif error.filename is not None and Path(error.filename) == _unfinished(path):
            error.filename, error.filename2 = name, None
        raise


def _flush_folder(folder: Path) -> None:
    """Wait until the names in a folder would survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
