"""Compress and decompress gzip and Zstandard, chosen by the ending of a file's name (`.gz`, `.zst`).

    codec = codec_of("news.txt.zst")                  # None for a plain file
    text = Decompressed(file, codec, "news.txt.zst")  # a binary stream; broken data raises `DamagedFile`
    member = Compressor(codec); file.write(member.block(data) + member.end())

A compressed file may have several members (frames), for example after appending. Zstandard is part of Python from 3.14
on; before that it needs the extra `zstd`. Memory is constant, and the content does not matter.
"""

from __future__ import annotations

import io
import os
import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from zishu.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable

# Small enough that no compressed data can expand without limit: one byte of zstd may stand for 32 kB.
_CHUNK: Final = 1 << 12


class DamagedFile(InputError):
    """Signal compressed data that is truncated or invalid."""

    def __init__(self, name: str, reason: str, *, truncated: bool = False) -> None:
        super().__init__(f"{name}: {reason}")
        self.reason = reason
        self.truncated = truncated  # all of it is valid, but there should be more


@dataclass(frozen=True, slots=True)
class Codec:
    """Define a kind of compression. The objects of zlib and of Zstandard have the same methods."""

    name: str
    errors: tuple[type[Exception], ...]
    decompressor: Callable[[], Any]  # begins to read a member
    compressor: Callable[[], Any]  # begins to write a member
    block_mode: int  # what flushes a block that can be read immediately
    end_mode: int  # what ends a member


class Compressor:
    """Compress one member of a file: blocks that can be read immediately, and an end."""

    def __init__(self, codec: Codec) -> None:
        self._member, self._codec = codec.compressor(), codec

    def block(self, data: bytes) -> bytes:
        """Return data as a separate block."""
        packed: bytes = self._member.compress(data) + self._member.flush(self._codec.block_mode)
        return packed

    def end(self) -> bytes:
        """Return what ends the member."""
        packed: bytes = self._member.flush(self._codec.end_mode)
        return packed


_WBITS: Final = 16 + zlib.MAX_WBITS  # zlib's code for a window with gzip's header and trailer
_GZIP: Final = Codec(
    "gzip",
    (zlib.error,),
    partial(zlib.decompressobj, _WBITS),
    partial(zlib.compressobj, wbits=_WBITS),
    zlib.Z_SYNC_FLUSH,
    zlib.Z_FINISH,
)


def _zstd() -> Codec:
    """Use Zstandard from Python 3.14 or from the package `zstandard`."""
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]

        mode = zstd.ZstdCompressor
        return Codec(
            "zstd", (zstd.ZstdError,), zstd.ZstdDecompressor, mode, mode.FLUSH_BLOCK, mode.FLUSH_FRAME
        )
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("zstandard", "zstd") from None
    return Codec(
        "zstd",
        (zstandard.ZstdError,),
        lambda: zstandard.ZstdDecompressor().decompressobj(),
        lambda: zstandard.ZstdCompressor(write_checksum=True).compressobj(),
        zstandard.COMPRESSOBJ_FLUSH_BLOCK,
        zstandard.COMPRESSOBJ_FLUSH_FINISH,
    )


def codec_of(name: str) -> Codec | None:
    """Return the compression that a file's ending indicates, None for a plain file."""
    ending = _ending(name).lower()
    if ending == ".zst":
        return _zstd()
    return _GZIP if ending == ".gz" else None


def plain_name(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without the ending for compression."""
    name = os.fspath(path)
    ending = _ending(name)
    return name.removesuffix(ending) if ending.lower() in (".gz", ".zst") else name


def _ending(name: str) -> str:
    return name[max(0, name.rfind(".")) :]


class Decompressed(io.RawIOBase):
    """Read the content of a compressed file, all members of it; `consumed` counts the bytes of the file itself."""

    def __init__(self, file: BinaryIO, codec: Codec, name: str) -> None:
        self.file, self._codec, self._name = file, codec, name
        self._member: Any = None  # None between two members
        self._packed = self._ready = b""
        self.consumed = 0

    def readable(self) -> bool:
        """Return True: this stream can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill a part of a buffer; return the number of bytes, 0 at the end."""
        while not self._ready:
            if not self._packed:
                self._packed = self.file.read(_CHUNK)
                self.consumed += len(self._packed)
                if not self._packed:
                    if self._member is not None:
                        raise self._damaged("it ends too early", truncated=True)
                    return 0
            self._ready = self._decompress()
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _decompress(self) -> bytes:
        if self._member is None:
            # Some writers pad the last block of a gzip file with zeros.
            self._packed = self._packed.lstrip(b"\0")
            if not self._packed:
                return b""
            self._member = self._codec.decompressor()
        try:
            data: bytes = self._member.decompress(self._packed)
        except self._codec.errors as error:
            raise self._damaged(str(error)) from None
        self._packed = b""
        if self._member.eof:
            self._packed = self._member.unused_data
            self._member = None
        return data

    def _damaged(self, reason: str, *, truncated: bool = False) -> DamagedFile:
        reason = f"not a complete {self._codec.name} file: {reason}"
        return DamagedFile(self._name, reason, truncated=truncated)

    def close(self) -> None:
        """Close the file as well."""
        self.file.close()
        super().close()
