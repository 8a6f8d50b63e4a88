"""Read text: bytes to characters, and characters to lines. All UTF-8 text is read here.

    with Input("news.txt.zst") as text: for block in text.blocks(): ...
    for line in read_lines("words.txt.gz"): ...

- A name ending in `.gz` or `.zst` is decompressed, and `-` is standard input. An open stream is read as it is.
- Text is UTF-8 unless an encoding is given. A byte order mark at the start is dropped; offsets count from after it.
  Line ends are not changed.
- A byte that is invalid in the encoding raises `InputError` with its offset in the decompressed stream, or becomes
  U+FFFD with `errors="replace"`. Readers of lines get a `FormatError` with the line instead. All text before the error
  is delivered first. If the bytes look like another encoding, the error says so.

Memory is constant. This module does not know text formats; `zishu.compression` knows the compressed formats.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import select
import stat
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Self

from zishu.compression import DamagedFile, Decompressed, codec_of
from zishu.errors import FormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD: Final = "-"  # the name of standard input and standard output

Errors = Literal["strict", "replace"]
FilePath = str | os.PathLike[str]
Source = FilePath | IO[bytes] | IO[str]

_BLOCK: Final = 1 << 16  # number of bytes decoded at once
_BYTE_ORDER_MARK: Final = "\ufeff"
_LONGEST_LINE: Final = 1 << 28  # maximum number of characters of a line
_PAUSE: Final = 0.25  # seconds without input after which a pipe counts as interactive

# Encodings of Chinese text, and characters that nearly every such text contains.
_OTHERS: Final = ("gb18030", "big5")
_FREQUENT: Final = frozenset("的一是不了在有人我他中大上个国到说和你也要会这們這個來說，。")


class NotDecodable(InputError):
    """Signal a byte that is invalid in the encoding of a text."""

    def __init__(self, name: str, encoding: str, offset: int, byte: int, head: bytes) -> None:
        self.byte = byte
        self.encoding = _shown(encoding)
        self.hint = _hint(head) if self.encoding == "UTF-8" else ""
        super().__init__(
            f"{name}: not valid {self.encoding}: byte {offset} (counted from 0) is 0x{byte:02x}{self.hint}"
        )


def _shown(encoding: str) -> str:
    return "UTF-8" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding


def _hint(head: bytes) -> str:
    """Say which encoding the beginning of a text looks like, if it is a known one."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "; it looks like UTF-16: convert it to UTF-8, or parse it with --encoding utf-16"
    found = {}
    for encoding in _OTHERS:
        with contextlib.suppress(UnicodeDecodeError):
            # Incremental, because the last character may be incomplete.
            text = codecs.getincrementaldecoder(encoding)().decode(head)
            found[encoding] = sum(char in _FREQUENT for char in text)
    best = max(found, key=found.__getitem__, default="")
    if best and found[best]:
        return f"; it looks like {best.upper()}: convert it to UTF-8, or parse it with --encoding {best}"
    return ""


def check_encoding(encoding: str) -> str:
    """Return the name of a text encoding; raise `InputError` if it is unknown."""
    try:
        codecs.lookup(encoding)
        "".encode(encoding)  # reject codecs from bytes to bytes, such as base64
        codecs.getincrementaldecoder(encoding)
    except (LookupError, ValueError, TypeError):
        raise InputError(
            f"unknown encoding {encoding!r:.40}; use for example UTF-8, GB18030, Big5 or UTF-16"
        ) from None
    return encoding


def open_bytes(path: FilePath) -> IO[bytes]:
    """Open a file for reading and decompress it by its ending; broken data raises `DamagedFile` on reading."""
    name = os.fspath(path)
    codec = codec_of(name)
    file = Path(name).open("rb")  # noqa: SIM115 (the caller closes it)
    return file if codec is None else io.BufferedReader(Decompressed(file, codec, name), _BLOCK)


def standard_input() -> IO[bytes]:
    """Return standard input as a blocking binary stream; raise `InputError` if it is closed."""
    if sys.stdin is None:
        raise InputError("standard input is closed")
    stream = sys.stdin.buffer
    # A stream may be in non-blocking mode, where "nothing yet" looks like the end.
    with contextlib.suppress(OSError, ValueError):  # a stream in memory
        os.set_blocking(stream.fileno(), True)
    return stream


def source_name(source: Source) -> str:
    """Return the name of this input for error messages."""
    if isinstance(source, str | os.PathLike):
        return "<stdin>" if os.fspath(source) == STANDARD else os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<input>"


def read_lines(source: Source, name: str | None = None) -> Iterator[str]:
    """Yield the lines of a text without their ends, LF or CRLF; error messages call the text `name`."""
    with Input(source, name=name) as text:
        for line in text.lines():
            yield line[:-2] if line.endswith("\r\n") else line.removesuffix("\n")


class Input:
    """Read a text, and count how much of it has been read."""

    def __init__(
        self,
        source: Source = STANDARD,
        *,
        name: str | None = None,
        errors: Errors = "strict",
        encoding: str = "utf-8",
    ) -> None:
        self.name = name or source_name(source)
        self._encoding = check_encoding(encoding)
        self.characters = 0  # number read so far
        self._bytes = 0
        self._errors = errors
        self._owned = False
        self._stream: Any = source
        if isinstance(source, str | os.PathLike):
            self._owned = os.fspath(source) != STANDARD
            self._stream = open_bytes(source) if self._owned else standard_input()
        raw = getattr(self._stream, "raw", None)
        self._packed = raw if isinstance(raw, Decompressed) else None
        file = self._packed.file if self._packed else self._stream
        self.size = _size(file)  # bytes; None for a pipe, for example

    @property
    def bytes(self) -> int:
        """Return how many bytes of the file have been read."""
        return self._packed.consumed if self._packed else self._bytes

    def is_conversation(self) -> bool:
        """Wait for the beginning of the text; tell whether the writer is interactive.

        That means a user at a terminal, or a program that writes something into a pipe and then pauses.
        """
        if self._owned:
            return False
        if self._stream.isatty():
            return True
        with contextlib.suppress(AttributeError, OSError, ValueError):  # a stream in memory
            descriptor = self._stream.fileno()
            mode = os.fstat(descriptor).st_mode
            if (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and self._stream.peek(1):
                # A pipe also counts as readable at its end.
                return not select.select([descriptor], [], [], _PAUSE)[0]
        return False

    def blocks(self) -> Iterator[str]:
        """Yield the text in blocks of any size, as it arrives."""
        start = True
        for block in self._decoded():
            text = block.removeprefix(_BYTE_ORDER_MARK) if start else block
            start = False
            if text:
                self.characters += len(text)
                yield text

    def _decoded(self) -> Iterator[str]:
        stream: Any = self._stream
        if not isinstance(stream, io.TextIOBase) and hasattr(stream, "read"):
            stream = iter(partial(getattr(stream, "read1", stream.read), _BLOCK), b"")
        decoder = codecs.getincrementaldecoder(self._encoding)(self._errors)
        held = 0  # bytes of a character that continues in the next block
        head = b""
        for block in chain(stream, (b"",)):  # blocks of bytes, or lines of a stream of text
            if isinstance(block, str):
                yield block
                continue
            head = head or block
            state = decoder.getstate()
            try:
                text = decoder.decode(block, not block)
            except UnicodeDecodeError as error:
                decoder.setstate(state)
                if error.start > held and (good := decoder.decode(block[: error.start - held])):
                    yield good
                place = self._bytes - held + error.start
                raise NotDecodable(
                    self.name, self._encoding, place, error.object[error.start], head
                ) from None
            except UnicodeError as error:  # an error without a position: UTF-16 needs a byte order mark
                name = _shown(self._encoding)
                hint = f"; try {name}-le or {name}-be" if "BOM" in str(error) else ""
                raise InputError(f"{self.name}: not valid {name}: {error}{hint}") from None
            held = len(decoder.getstate()[0])
            self._bytes += len(block)
            if text:
                yield text

    def lines(self, longest: int = _LONGEST_LINE) -> Iterator[str]:
        """Yield the lines with their ends. Only LF ends a line: a text may contain U+2028 and the like.

        A line of more than `longest` characters raises `FormatError`, because it must fit into memory.
        """
        number = 1
        held: list[str] = []  # the beginning of a line whose end has not arrived
        size = 0
        try:
            for block in self.blocks():
                first, *rest = block.split("\n")
                held.append(first)
                size += len(first)
                for part in [*rest, None]:
                    if size > longest:
                        raise FormatError(
                            f"a line of more than {longest:,} characters", path=self.name, line=number
                        )
                    if part is not None:
                        yield "".join(held) + "\n"
                        number += 1
                        held = [part]
                        size = len(part)
            if last := "".join(held):
                yield last
        except DamagedFile as error:
            raise FormatError(error.reason, path=self.name, line=number) from None
        except NotDecodable as error:
            place = 1 + len("".join(held).encode(self._encoding, "replace"))
            message = (
                f"not valid {error.encoding}: byte {place} of the line is 0x{error.byte:02x}{error.hint}"
            )
            raise FormatError(message, path=self.name, line=number) from None
        except UnicodeDecodeError as error:
            # A text stream decodes ahead: the error lies after the last line that it returned.
            number += error.object.count(b"\n", 0, error.start)
            message = f"not valid {error.encoding}: 0x{error.object[error.start]:02x}"
            raise FormatError(message, path=self.name, line=number) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._owned:
            self._stream.close()


def _size(file: Any) -> int | None:
    try:
        status = os.fstat(file.fileno())
    except (AttributeError, OSError, ValueError):  # a stream in memory
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
