"""Find, read and write files by path or by URL; a new file appears whole or not at all.

A path is a file of this machine, or of a file system that all machines mount. Anything with `://` (`s3://`, `gs://`,
`hdfs://`, `file://` ...) goes through fsspec, whose plug-ins (s3fs, gcsfs ...) the user installs.

All data passes through a local file: a download is complete before its first character is parsed, and an upload
begins when the last one is written. That takes disk space for one input and one output, and every backend needs no
more than get, put and move.

A new file is first written under the folder `_unfinished` of the output, with a unique name because several workers
may write the same file, and moved to its place when it is complete. On a file system the move is a rename. An object
store copies, which is as safe: an object exists with all its bytes or not at all.
"""

from __future__ import annotations

import contextlib
import glob
import os
import posixpath
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zishu.errors import InputError, MissingExtra
from zishu.writing import moving

if TYPE_CHECKING:
    from collections.abc import Iterator

UNFINISHED: Final = "_unfinished"

# Keys that fsspec plug-ins use for a file's version or time of change.
_STAMPS: Final = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """Describe a file: its full name, its name relative to the searched folder, its size, its time or ETag."""

    path: str
    name: str
    size: int
    stamp: str


def storage(path: str) -> _Local | _Remote:
    """Return the storage of a path or URL."""
    return _Remote(path) if "://" in path else _Local()


def join(folder: str, name: str) -> str:
    """Return the full name of a file in a folder."""
    return posixpath.join(folder, name) if "://" in folder else os.path.join(folder, name)  # noqa: PTH118


def inside(path: str, folder: str) -> bool:
    """Tell whether a file is in a folder or its subfolders."""
    path, folder = (name if "://" in name else os.path.abspath(name) for name in (path, folder))  # noqa: PTH100
    return path.startswith(join(folder, ""))


def read(path: str) -> bytes | None:
    """Return the content of a file, or None if it does not exist."""
    try:
        with storage(path).local(path) as file:
            return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def write(path: str, content: bytes, folder: str) -> None:
    """Replace the content of a file below a folder atomically."""
    with storage(path).staged(path, folder) as file:
        file.write_bytes(content)


class _Local:
    """Access files by path. All names are full names, and folders are created as needed."""

    def find(self, pattern: str) -> list[FoundFile]:
        """Return the files of a name, a folder or a pattern."""
        path = Path(pattern)
        if path.is_dir():
            base, found = path, [file for file in path.rglob("*") if _plain(file.relative_to(path).parts)]
        elif path.exists():
            base, found = path.parent, [path]
        else:
            base = Path(_fixed_part(pattern, os.sep))
            found = [Path(name) for name in glob.glob(pattern, recursive=True)]  # noqa: PTH207 (absolute ones, too)
        files = [(file, file.stat()) for file in found if file.is_file()]
        return [
            FoundFile(str(file), file.relative_to(base).as_posix(), status.st_size, str(status.st_mtime_ns))
            for file, status in files
        ]

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the size of every file in a folder and its subfolders, by relative name."""
        files = (file for file in Path(folder).rglob("*") if file.is_file())
        return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}

    @contextlib.contextmanager
    def local(self, path: str) -> Iterator[Path]:
        """Provide a local file with the content of another."""
        yield Path(path)

    @contextlib.contextmanager
    def staged(self, path: str, folder: str) -> Iterator[Path]:
        """Provide a local file to write; if the block succeeds, it becomes `path`, below `folder`."""
        target = Path(path)
        temporary = Path(folder) / UNFINISHED / _unique(target.name)
        temporary.parent.mkdir(parents=True, exist_ok=True)
        with moving({temporary: target}):
            yield temporary

    def clean(self, folder: str) -> None:
        """Remove unfinished files of killed processes."""
        shutil.rmtree(Path(folder) / UNFINISHED, ignore_errors=True)


class _Remote:
    """Access files by URL."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise MissingExtra("fsspec", "ray") from None
        self._resolve = url_to_fs
        try:
            fs, bare = url_to_fs(url)
        except (ImportError, ValueError) as error:  # no plug-in for this protocol, or no such protocol
            raise InputError(f"{url}: {error}") from None
        self._fs: Any = fs
        # The prefix that turns the names of a file system into URLs, such as `hdfs://host:8020` or `s3://`.
        self._prefix = url.rstrip("/").removesuffix(bare)

    def find(self, pattern: str) -> list[FoundFile]:
        bare = self._bare(pattern)
        details: dict[str, Any]
        if self._fs.isdir(bare):
            base = bare
            details = self._fs.find(bare, detail=True)
            details = {
                name: info
                for name, info in details.items()
                if _plain(posixpath.relpath(name, bare).split("/"))
            }
        elif self._fs.exists(bare):
            base, details = posixpath.dirname(bare), {bare: self._fs.info(bare)}
        else:
            base, details = _fixed_part(bare, "/"), self._fs.glob(bare, detail=True)
        return [
            FoundFile(
                self._prefix + name,
                posixpath.relpath(name, base or "."),
                info["size"],
                next((str(info[key]) for key in _STAMPS if info.get(key) is not None), ""),
            )
            for name, info in details.items()
            if info["type"] == "file"
        ]

    def sizes(self, folder: str) -> dict[str, int]:
        bare = self._bare(folder)
        self._fs.invalidate_cache()
        found = self._fs.find(bare, detail=True)
        return {posixpath.relpath(name, bare): int(info["size"]) for name, info in found.items()}

    @contextlib.contextmanager
    def local(self, path: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="zishu-") as folder:
            copy = Path(folder) / posixpath.basename(path)
            self._fs.get_file(self._bare(path), str(copy))
            yield copy

    @contextlib.contextmanager
    def staged(self, path: str, folder: str) -> Iterator[Path]:
        target = self._bare(path)
        with tempfile.TemporaryDirectory(prefix="zishu-") as here:
            file = Path(here) / posixpath.basename(path)
            yield file
            temporary = posixpath.join(self._bare(folder), UNFINISHED, _unique(file.name))
            for name in (temporary, target):
                self._fs.makedirs(posixpath.dirname(name), exist_ok=True)
            try:
                self._fs.put_file(str(file), temporary)
                self._move(temporary, target)
            except BaseException:
                with contextlib.suppress(Exception):
                    self._fs.rm_file(temporary)
                raise
        self._fs.invalidate_cache()

    def _move(self, temporary: str, target: str) -> None:
        try:
            self._fs.mv(temporary, target)
        except FileExistsError:  # HDFS cannot rename onto an existing file
            self._fs.rm_file(target)
            self._fs.mv(temporary, target)

    def clean(self, folder: str) -> None:
        with contextlib.suppress(Exception):
            self._fs.rm(posixpath.join(self._bare(folder), UNFINISHED), recursive=True)

    def _bare(self, path: str) -> str:
        """Return the name of a URL within its file system."""
        return str(self._resolve(path)[1])


def _unique(name: str) -> str:
    # Keep the ending, because it determines the compression.
    return f"{uuid.uuid4().hex}-{name}"


def _plain(parts: Any) -> bool:
    """Tell whether a name in a folder is data: `.name` and `_name` belong to tools."""
    return not any(part.startswith((".", "_")) for part in parts)


def _fixed_part(pattern: str, separator: str) -> str:
    """Return the folder before the first wildcard; names of shards are relative to it."""
    parts = pattern.split(separator)
    wild = next((k for k, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    return separator.join(parts[:wild]) or (separator if pattern.startswith(separator) else "")
