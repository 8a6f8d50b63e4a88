"""Claim an output file for one run, and find where an interrupted run ended.

    with claimed("out.conllu", "conllu", recipe.record(), resume=True, force=False) as claim: ...

A run keeps a small file beside its output, `.out.conllu.run`, until it has succeeded. The file is locked while the run
is alive, so a second run is rejected. It records the version and the options, so an interrupted run can only be resumed
with the same ones. An existing output is neither overwritten nor extended unless the user asks for it.

Where an interrupted run ended is found in its output alone. Every sentence ends with a separator that occurs nowhere
else in it: a blank line in CoNLL-U, a line break in JSON. So complete sentences are counted without parsing them, in
one pass over the output.

The file's name is predictable, and the folder may belong to someone else. So links are not followed, and only an empty
file or an existing record is ever written to. Pipes and devices cannot be claimed and need no claim.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zishu import __version__
from zishu.compression import DamagedFile
from zishu.errors import InputError
from zishu.reading import STANDARD, FilePath, open_bytes
from zishu.writing import NO_FOLLOW, NO_WAIT, lock, truncate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# How a file begins and what ends a sentence, by the formats that can be resumed.
_SHAPES: Final = {"conllu": (b"# ", b"\n\n"), "chars": (b"# ", b"\n\n"), "json": (b'{"sent_id": ', b"\n")}
RESUMABLE: Final = tuple(_SHAPES)

_LARGEST: Final = 1 << 16  # maximum size of a record in bytes
_BLOCK: Final = 1 << 20


@dataclass(slots=True)
class Claim:
    """Hold what a claimed output contains already: the complete sentences of an interrupted run."""

    path: Path
    kind: str = ""  # its format if it can be resumed
    sentences: int = 0
    size: int = 0  # bytes of the sentences, decompressed
    last: str = ""  # the last one
    torn: bool = False  # an incomplete sentence follows
    finished: bool = False  # there is no record of its options: it can be checked, but not extended
    started: bool = False  # this run has written to it

    def take_up(self, again: str) -> None:
        """Prepare to append; raise InputError unless the last sentence equals this run's sentence of the same number.

        An incomplete sentence after it is removed.
        """
        # A lone surrogate cannot be encoded in UTF-8 and is written as an escape.
        as_written = again.encode("utf-8", "backslashreplace").decode()
        if _identity(self.last, self.kind) != _identity(as_written, self.kind):
            raise InputError(
                f"{self.path}: sentence {self.sentences} does not match: was the input or were the options different?"
            )
        if self.torn:
            truncate(self.path, self.size)


@contextlib.contextmanager
def claimed(
    output: FilePath, kind: str, options: Mapping[str, Any], *, resume: bool, force: bool
) -> Iterator[Claim]:
    """Claim an output for the duration of the block; raise `InputError` if that is impossible.

    `kind` is its format if it can be resumed, else empty. If it can, the record of a failed run stays.
    """
    path = Path(output)
    if os.fspath(output).endswith(os.sep) or path.is_dir():
        raise InputError(f"{os.fspath(output)}: is a folder; give the name of a file in it")
    if os.fspath(output) == STANDARD or path.is_relative_to("/dev") or (path.exists() and not path.is_file()):
        if resume:
            raise InputError(f"{path}: is not a regular file and cannot be resumed")
        yield Claim(path)
        return
    if resume and force:
        raise InputError("resume and force exclude each other")
    record = record_of(path)
    descriptor = _open(record, path)
    try:
        before = _read(descriptor, record)
        # Look only now: until the lock was free, another run could write the output and finish it. A dangling link is
        # not a file, but it may belong to someone.
        exists = os.path.lexists(path)
        if exists and not (resume or force):
            if before is None:
                _give_up(descriptor, record)
            resumable = "continue it with --resume, " if kind else ""
            raise InputError(f"{path}: exists; {resumable}overwrite it with --force")
        now = json.loads(json.dumps({"zishu": __version__, **options}))
        if resume and before is not None:
            check_options(before, now, str(path))
        if resume and exists and before is None:
            _give_up(descriptor, record)
            claim = _look_at(path, kind)
            claim.finished = path.stat().st_size > 0
            if claim.finished and (claim.torn or not claim.sentences):
                raise cannot_extend(path)
            yield claim
            return
        claim = _look_at(path, kind) if resume and exists else Claim(path)
        if before != now:
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, json.dumps(now, indent=1).encode())
        try:
            yield claim
        except BaseException:
            if not (kind and (claim.started or (resume and before is not None))):
                _give_up(descriptor, record)
            raise
        _give_up(descriptor, record)
    finally:
        os.close(descriptor)


def record_of(output: FilePath) -> Path:
    """Return the path of the record of an unfinished output."""
    place = Path(os.path.realpath(output))
    return place.with_name(f".{place.name}.run")


def check_options(before: Mapping[str, Any], now: Mapping[str, Any], name: str) -> None:
    """Raise InputError if the output was written with other options."""
    for key in now:
        if before.get(key) != now[key]:
            raise InputError(
                f"{name}: was written with {key} = {before.get(key)}, not {now[key]}: resume it with the same options, "
                "or use another output"
            )


def _open(record: Path, path: Path) -> int:
    """Open and lock the record; create it if necessary."""
    while True:
        try:
            descriptor = os.open(record, os.O_CREAT | os.O_RDWR | NO_FOLLOW | NO_WAIT, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise InputError(f"{record}: is a link instead of the record of a run") from None
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                error.filename = os.fspath(path)
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise InputError(f"{record}: is not the record of a run")
            if not lock(descriptor):
                raise InputError(f"{path}: another run is writing it")
            # The run that held the lock may have removed the file meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(status, os.stat(record, follow_symlinks=False)):  # noqa: PTH116
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _read(descriptor: int, record: Path) -> dict[str, Any] | None:
    """Return what an earlier run recorded, or None if there was none."""
    content = os.read(descriptor, _LARGEST)
    if not content:
        return None
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or "zishu" not in found:
        raise InputError(f"{record}: is not the record of a run")
    return found


def _give_up(descriptor: int, record: Path) -> None:
    """Remove the record, unless another one has replaced it."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(descriptor), os.stat(record, follow_symlinks=False)):  # noqa: PTH116
            record.unlink()


def _look_at(path: Path, kind: str) -> Claim:
    """Read an output to its end; raise `InputError` if it does not begin like the format."""
    begin, separator = _SHAPES[kind]
    sentences = size = 0
    rest = last = b""
    torn = False
    with open_bytes(path) as stream:
        while True:
            try:
                block = stream.read1(_BLOCK)  # type: ignore[attr-defined]
            except DamagedFile as error:
                if not error.truncated:
                    raise
                torn, block = True, b""
            if not block:
                break
            rest += block
            if not sentences and not begin.startswith(rest[: len(begin)]):
                raise InputError(f"{path}: exists but is not {kind}; cannot resume")
            end = rest.rfind(separator) + len(separator)
            if end >= len(separator):
                sentences += rest.count(separator, 0, end)
                size += end
                last = rest[:end].removesuffix(separator).rpartition(separator)[2]
                rest = rest[end:]
    return Claim(path, kind, sentences, size, last.decode("utf-8", "replace"), torn or bool(rest))


def cannot_extend(path: Path) -> InputError:
    """Return the error for an output that lacks sentences and has no record."""
    return InputError(
        f"{path}: is finished, or was not written by this version; --resume adds nothing to it, --force overwrites it"
    )


def _identity(block: str, kind: str) -> list[str]:
    """Return the number, text and kind of rows of a sentence. Its analysis may differ, for example by rounding."""
    if kind == "json":
        try:
            record = json.loads(block)
        except ValueError:
            return [block]
        return [str(record.get(key)) for key in ("sent_id", "start", "text")]
    misc = block.rpartition("\t")[2]
    rows = "characters" if "Place=" in misc else "words"
    return [rows, *(line for line in block.splitlines() if line.startswith(("# sent_id = ", "# text = ")))]
