"""Write files: sentence by sentence, so that nothing written is ever lost, or atomically.

    with Output("news.conllu.gz") as out: out.write(sentence)
    with replacing(path) as file: file.write(data)

- An `Output` passes every piece to the operating system before `write` returns. Compressed pieces are separate blocks,
  which an interrupt (Ctrl-C) does not damage. So a process that ends early loses nothing that it wrote. Lone
  surrogates, which UTF-8 cannot encode, become `\\ud800`.
- `replacing` writes under a temporary name, and renames the file when it is safely on disk. Devices and pipes are
  written directly. `moving` is the same for files that were written elsewhere on the file system.
- Unfinished files have random names and are always new, so nobody can replace them by a link. The next process that
  writes the same file removes what a killed process left behind.
- `exclusive` keeps other processes out of a folder, and `lock` out of a file.

Memory is constant. `zishu.compression` knows the compressed formats; `zishu.reading` reads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, Self

from zishu.compression import Codec, Compressor, DamagedFile, codec_of
from zishu.errors import InputError, ZishuError
from zishu.reading import STANDARD, FilePath, open_bytes, standard_input

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_BLOCK: Final = 1 << 16  # number of bytes copied at once
_ENDING: Final = ".unfinished"
# An opened name is the file itself, not the target of a link. Opening a pipe does not wait for its other end.
NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)


def check_not_input(target: FilePath, *sources: FilePath | IO[bytes]) -> None:
    """Refuse to write a file that is being read, under any name or as standard input."""
    for source in sources if os.fspath(target) != STANDARD else ():
        if isinstance(source, str | os.PathLike) and os.fspath(source) == STANDARD:
            source = standard_input()
        try:
            read = Path(source).stat() if isinstance(source, str | os.PathLike) else os.fstat(source.fileno())
            same = stat.S_ISREG(read.st_mode) and os.path.samestat(read, Path(target).stat())
        except (OSError, ValueError):  # one of them does not exist, or is in memory
            continue
        if same:
            raise InputError(f"{os.fspath(target)}: is also the input")


class Output:
    """Write a text to a file or to standard output."""

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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="output")
        self._file = Path(path).open("ab" if append else "wb", buffering=0)  # noqa: SIM115 (`close` does)
        if self._codec is not None and not append:
            # Now, because an empty text needs a valid compressed file, too.
            self._member = Compressor(self._codec)

    def write(self, text: str) -> None:
        """Write a piece of text."""
        if self.standard:
            with _naming("standard output"):
                sys.stdout.write(text)
                sys.stdout.flush()
            return
        data = text.encode("utf-8", "backslashreplace")
        if self._codec is None:
            self._put(data)
        else:
            # In a thread that Ctrl-C does not reach: a lost block would damage its whole member.
            self._thread.submit(self._put_block, data, self._codec).result()

    def _put_block(self, data: bytes, codec: Codec) -> None:
        self._member = self._member or Compressor(codec)
        self._put(self._member.block(data))

    def _put(self, data: bytes) -> None:
        with _naming(self._path):
            while data:
                data = data[self._file.write(data) :]

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self.standard or self._file.closed:
            return
        self._thread.shutdown()
        with _naming(self._path):
            try:
                if self._member is not None:
                    self._put(self._member.end())
                self._check_present()
            finally:
                self._file.close()

    def _check_present(self) -> None:
        """Fail if the file was removed or replaced by another one: what was written would be lost."""
        written = os.fstat(self._file.fileno())
        if not stat.S_ISREG(written.st_mode):
            return
        try:
            present = os.path.samestat(written, Path(self._path).stat())
        except OSError:
            present = False
        if not present:
            raise ZishuError(f"{self._path}: was removed or replaced while it was being written")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        if error[1] is None:
            self.close()
        else:
            # Report the first error; a full disk would only fail again.
            with contextlib.suppress(OSError, ZishuError):
                self.close()


def truncate(path: FilePath, size: int) -> None:
    """Keep the first `size` bytes of a file's (decompressed) text, which must have that many.

    A plain file is truncated in place. A compressed one is copied, because a member cannot be cut.
    """
    codec = codec_of(os.fspath(path))
    if codec is None:
        os.truncate(path, size)
        return
    member = Compressor(codec)
    with open_bytes(path) as old, replacing(path) as new:
        while size:
            block = old.read(min(size, _BLOCK))
            if not block:
                raise DamagedFile(os.fspath(path), f"it is {size} bytes shorter than expected")
            new.write(member.block(block))
            size -= len(block)
        new.write(member.end())


@contextlib.contextmanager
def replacing(path: FilePath, *, follow: bool = True) -> Iterator[BinaryIO]:
    """Open a file to write; if the block succeeds, it replaces `path`.

    If `path` is a link, the link stays, and its target is replaced. Without `follow` the link is replaced: right for a
    name that the user has not typed, in a folder that may belong to someone else.
    """
    with replacing_all([path], follow=follow) as [file]:
        yield file


@contextlib.contextmanager
def replacing_all(paths: Iterable[FilePath], *, follow: bool = True) -> Iterator[list[BinaryIO]]:
    """Replace several files: all are safely on disk before the first one is renamed."""
    names = list(paths)
    moves: dict[Path, Path] = {}
    # The files stay open, and so locked, until they are in place.
    with contextlib.ExitStack() as stack, moving(moves, follow=follow):
        files: list[BinaryIO] = []
        for name in names:
            with _naming(name):
                file, temporary = _open_unfinished(name, follow=follow)
            files.append(stack.enter_context(file))
            if temporary is not None:
                moves[temporary] = Path(name)
        with _naming(names[0]):
            yield files
        for name, file in zip(names, files, strict=True):
            with _naming(name):
                file.flush()


@contextlib.contextmanager
def moving(moves: Mapping[Path, Path], *, follow: bool = True) -> Iterator[None]:
    """Write files in the block; if it succeeds, move each to its place, otherwise remove them.

    `moves` gives the destination of each file; it is read at the end of the block. All files are safely on disk before
    the first one is moved.
    """
    try:
        yield
        places = {temporary: _place(path, follow=follow) for temporary, path in moves.items()}
        for temporary, path in moves.items():
            with _naming(path, temporary):
                _flush(temporary)
        for temporary, place in places.items():
            with _naming(place, temporary):
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(temporary, place)  # noqa: PTH105 (beside the other calls of the operating system)
    finally:
        for temporary in moves:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    # Too late to fail: the new files are in place, and some file systems cannot flush folders.
    for folder in {place.parent for place in places.values()}:
        with contextlib.suppress(OSError):
            _flush(folder)


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _place(path: FilePath, *, follow: bool) -> Path:
    """Return where a file will be: the target of a link, or the name itself."""
    return Path(os.path.realpath(path)) if follow else Path(path)


def _open_unfinished(path: FilePath, *, follow: bool) -> tuple[BinaryIO, Path | None]:
    """Open the file that will replace `path`, and return it and its name.

    The name is None if `path` is a device or a pipe: these are written directly.
    """
    place = Path(path)
    if follow and place.exists() and not place.is_file():
        return place.open("wb"), None
    place = _place(place, follow=follow)
    _remove_leftovers(place)
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(8)}{_ENDING}")
    try:
        # `O_EXCL`: the name is new, and not that of a link.
        descriptor = os.open(
            temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666
        )
    except OSError as error:
        error.filename = os.fspath(path)
        raise
    lock(descriptor)  # shows that the file is in use
    return os.fdopen(descriptor, "wb"), temporary


def _remove_leftovers(place: Path) -> None:
    """Remove the unfinished files of killed processes: our own ones that no process has locked."""
    if fcntl is None:
        return
    unfinished = re.compile(rf"\.{re.escape(place.name)}\.[0-9a-f]{{16}}{re.escape(_ENDING)}")
    with contextlib.suppress(OSError):
        for path in place.parent.iterdir():
            if unfinished.fullmatch(path.name):
                with (
                    contextlib.suppress(OSError),
                    os.fdopen(os.open(path, os.O_RDWR | NO_FOLLOW | NO_WAIT), "rb") as file,
                ):
                    status = os.fstat(file.fileno())
                    ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
                    if ours and lock(file.fileno()):
                        path.unlink()


@contextlib.contextmanager
def exclusive(folder: FilePath) -> Iterator[None]:
    """Create a folder and keep other processes that use this function out; the lock ends when the process dies."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not lock(descriptor):
            raise InputError(f"{os.fspath(folder)}: another process is at work in this folder")
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed; return whether no other process has locked it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # some network file systems have no locks; then the user must be careful
    return True


# Errors that only writing can cause.
_WRITING: Final = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextlib.contextmanager
def _naming(path: FilePath, temporary: Path | None = None) -> Iterator[None]:
    """Make system errors name this file, not the unfinished one; a full disk would name none."""
    try:
        yield
    except OSError as error:
        name = os.fspath(path)
        # Python gives no name if writing fails, and the unfinished file does not concern the user.
        if error.filename is None and error.errno in _WRITING:
            error.filename = name
        elif error.filename is not None and temporary is not None and Path(error.filename) == temporary:
            error.filename, error.filename2 = name, None
        raise
