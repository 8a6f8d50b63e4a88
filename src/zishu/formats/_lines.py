"""Read the lines of a UTF-8 file, whatever it is: plain or compressed, a path or a stream, of bytes or of text.

Every reader of a line-based format starts here, so that all of them treat line ends, byte order marks and
broken bytes alike. Constant memory; it knows nothing of any format.
"""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING

from zishu.compression import DamagedFile
from zishu.errors import FormatError
from zishu.files import open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Source = str | os.PathLike[str] | IO[bytes] | IO[str]


def source_name(source: Source) -> str:
    """Return what error messages call this input."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<input>"


def read_lines(source: Source, name: str) -> Iterator[str]:
    """Yield the lines of a path (`.gz` and `.zst` included) or of an open stream, without their ends.

    Only LF and CRLF end a line: a word may hold U+2028 and its like, at which `str.splitlines` would cut.
    """
    if isinstance(source, str | os.PathLike):
        with open_bytes(source) as stream:
            yield from _decoded(stream, name)
    else:
        yield from _decoded(source, name)


def _decoded(stream: Iterable[bytes | str], name: str) -> Iterator[str]:
    number = 0
    try:
        for number, raw in enumerate(stream, 1):
            line = _decode(raw, name, number) if isinstance(raw, bytes) else raw
            if number == 1:
                line = line.removeprefix("\ufeff")
            yield line[:-2] if line.endswith("\r\n") else line.removesuffix("\n")
    except UnicodeDecodeError as error:
        # A text stream decodes many lines at once: the fault lies ahead of the last line it gave.
        ahead = 1 + error.object.count(b"\n", 0, error.start)
        message = f"not valid {error.encoding}: 0x{error.object[error.start]:02x}"
        raise FormatError(message, path=name, line=number + ahead) from None
    except DamagedFile as error:
        raise FormatError(error.reason, path=name, line=number + 1) from None


def _decode(raw: bytes, name: str, number: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"not valid UTF-8: byte {error.start + 1} of the line is 0x{raw[error.start]:02x}"
        raise FormatError(message, path=name, line=number) from None
