"""Claim an output file for one run, and record the options that the run writes it with.

    with claimed("out.conllu", recipe.record(), resume=False, force=False, keep=True) as claim: ...

A run keeps a small file beside its output, `.out.conllu.run`, until it has succeeded. The file is locked while the run
is alive, so a second run is rejected. It records the version and the options, so an interrupted run can only be resumed
with the same ones. An existing output is neither overwritten nor extended unless the user asks for it.

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
from zishu.errors import InputError
from zishu.reading import STANDARD, FilePath
from zishu.writing import NO_FOLLOW, NO_WAIT, lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_LARGEST: Final = 1 << 16  # maximum size of a record in bytes


@dataclass(slots=True)
class Claim:
    """Hold the state of an output that this run may write."""

    exists: bool = False
    recorded: bool = False  # an earlier run with the same options did not finish it
    started: bool = False  # this run has written to it


@contextlib.contextmanager
def claimed(
    output: FilePath, options: Mapping[str, Any], *, resume: bool, force: bool, keep: bool
) -> Iterator[Claim]:
    """Claim an output for the duration of the block; raise `InputError` if that is impossible.

    With `keep`, the record of a failed run stays for `resume`.
    """
    path = Path(output)
    if os.fspath(output) == STANDARD or path.is_relative_to("/dev") or (path.exists() and not path.is_file()):
        if resume:
            raise InputError(f"{path}: is not a regular file and cannot be resumed")
        yield Claim()
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
            resumable = "continue it with --resume, " if keep else ""
            raise InputError(f"{path}: exists; {resumable}overwrite it with --force")
        now = json.loads(json.dumps({"zishu": __version__, **options}))
        if resume and before is not None:
            check_options(before, now, str(path))
        if resume and exists and before is None:
            _give_up(descriptor, record)
            yield Claim(exists=True)
            return
        claim = Claim(exists=exists, recorded=resume and before is not None)
        if before != now:
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, json.dumps(now, indent=1).encode())
        try:
            yield claim
        except BaseException:
            if not (keep and (claim.started or claim.recorded)):
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
