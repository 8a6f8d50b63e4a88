"""Claim an output file for one run, and record the options that the run writes it with.

    with claimed("out.conllu", recipe.record(), resume=False, force=False, keep=True) as claim: ...

A run keeps a small file beside its output, `.out.conllu.run`, until it has succeeded. The file is locked while the run is
alive, so a second run is refused. It holds the version and the options, so an interrupted run is resumed with the same
ones or not at all. An existing output is neither overwritten nor extended unless the user says so.

The file's name is no secret, and the folder may be somebody else's. So links are not followed, and only a file that is
empty or such a record is ever written to. Pipes and devices cannot be claimed, and need not be.
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
from zishu.reading import STANDARD
from zishu.writing import NO_FOLLOW, NO_WAIT, lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zishu.reading import FilePath

_LARGEST: Final = 1 << 16  # bytes of a record


@dataclass(slots=True)
class Claim:
    """What is known of an output that this run may write."""

    exists: bool = False
    recorded: bool = False  # an earlier run with the same options did not finish it
    started: bool = False  # this run has written to it


@contextlib.contextmanager
def claimed(
    output: FilePath, options: Mapping[str, Any], *, resume: bool, force: bool, keep: bool
) -> Iterator[Claim]:
    """Claim an output for the time of the block; what stands in the way is an `InputError`.

    With `keep` the record of a run that fails stays for `resume`.
    """
    path = Path(output)
    if os.fspath(output) == STANDARD or path.is_relative_to("/dev") or (path.exists() and not path.is_file()):
        if resume:
            raise InputError(f"{path}: is not a file; only the output of a file can be resumed")
        yield Claim()
        return
    if resume and force:
        raise InputError("an output is either resumed or written anew, not both")
    # A dangling link is no file, but it has an owner, too.
    exists = os.path.lexists(path)
    if exists and not (resume or force):
        raise InputError(f"{path}: exists; continue it with --resume, overwrite it with --force")
    record = record_of(path)
    descriptor = _open(record, path)
    try:
        before = _read(descriptor, record)
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
    """Return where the record of an output is while it is unfinished."""
    place = Path(os.path.realpath(output))
    return place.with_name(f".{place.name}.run")


def check_options(before: Mapping[str, Any], now: Mapping[str, Any], name: str) -> None:
    """Refuse to continue what was written with other options."""
    for key in now:
        if before.get(key) != now[key]:
            raise InputError(
                f"{name}: was written with {key} = {before.get(key)}, not {now[key]}: resume it with the same options, "
                "or use another output"
            )


def _open(record: Path, path: Path) -> int:
    """Open and lock the record, which is made if necessary."""
    while True:
        try:
            descriptor = os.open(record, os.O_CREAT | os.O_RDWR | NO_FOLLOW | NO_WAIT, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise InputError(f"{record}: is a link, where the record of a run belongs") from None
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                error.filename = os.fspath(path)
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise InputError(f"{record}: is not the record of a run")
            if not lock(descriptor):
                raise InputError(f"{path}: another run is writing it")
            # The run that had locked it may have removed it meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(status, os.stat(record, follow_symlinks=False)):  # noqa: PTH116
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _read(descriptor: int, record: Path) -> dict[str, Any] | None:
    """Return what an earlier run recorded; None if there was none."""
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
    """Remove the record, unless it is not the one that was opened."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(descriptor), os.stat(record, follow_symlinks=False)):  # noqa: PTH116
            record.unlink()
