"""Write model directories: a fresh one in the place of the old, and several put together to one.

A directory appears complete or not at all: it is written under another name beside its place, loaded by the runtime,
and then renamed.

Cost: that of copying files, and of loading the result.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from zishu import __version__
from zishu.errors import InputError, ZishuError
from zishu.model.model import Model, Pipeline
from zishu.model.runtime import load_model
from zishu.model.settings import (
    CONFIG,
    FILES,
    LARGEST_NETWORK,
    MEMBER,
    SEGMENTER,
    TREECRF,
    Settings,
    TaskName,
    check_file,
    part_names,
    read_settings,
    write_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def write_pipeline(segmenter: Path, treecrf: Path, directory: Path, *, name: str = "") -> Pipeline:
    """Put the model directories of a segmenter and of a parser of words together to one, and return it as loaded."""
    model = _write_parts("pipeline", {SEGMENTER: segmenter, TREECRF: treecrf}, directory, name)
    assert isinstance(model, Pipeline)
    return model


def write_ensemble(members: Sequence[Path], directory: Path, *, name: str = "") -> Model:
    """Put the model directories of several parsers together to one, and return it as loaded."""
    parts = {f"{MEMBER}{number}": member for number, member in enumerate(members, 1)}
    model = _write_parts("ensemble", parts, directory, name)
    assert isinstance(model, Model)
    return model


def _write_parts(task: TaskName, parts: Mapping[str, Path], directory: Path, name: str) -> Model | Pipeline:
    for source in parts.values():
        if not (source / CONFIG).is_file():
            raise InputError(f"{source}: no {CONFIG} in it, so this is not a model")
    with fresh_directory(directory) as folder:
        for part, source in parts.items():
            copy_model(source, folder / part)
        write_json(folder / CONFIG, Settings(task=task, name=name, version=__version__).to_json())
        try:
            return load_model(folder)
        except InputError as error:
            # The folder has not got its name yet, and never will.
            raise InputError(str(error).replace(str(folder), str(directory))) from error


def copy_model(source: Path, target: Path) -> None:
    """Copy the files of a model, and nothing else that lies in its directory.

    A file that is a link is refused: it may lead anywhere, and a copy is often handed on to others.
    """
    settings = read_settings(source)
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        file = source / name
        if file.is_symlink():
            raise InputError(f"{file}: is a link, which is not copied")
        if file.exists():
            check_file(file, LARGEST_NETWORK)
            shutil.copyfile(file, target / name, follow_symlinks=False)
    for part in part_names(source, settings.task):
        if (source / part).is_symlink():
            raise InputError(f"{source / part}: is a link, which is not copied")
        read_settings(source / part, part=True)
        copy_model(source / part, target / part)


@contextmanager
def fresh_directory(directory: Path) -> Iterator[Path]:
    """Give a new directory to write to, which takes the place of the old one when all went well."""
    is_model = (directory / CONFIG).is_file()
    if directory.exists() and not is_model and not (directory.is_dir() and not any(directory.iterdir())):
        raise InputError(f"{directory}: this is not a model, so it is not replaced by one")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        # mkdtemp makes a place that only its owner may read, which is not what a model is.
        hidden = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        folder = hidden / "new"
        try:
            folder.mkdir()
            yield folder
            if directory.exists():
                # A full directory cannot be replaced in one step; the old one stays at hand till the new is
                # there.
                directory.rename(hidden / "old")
            try:
                folder.rename(directory)
            except BaseException:
                if (hidden / "old").exists():
                    (hidden / "old").rename(directory)
                raise
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
    except OSError as error:
        raise ZishuError(f"{directory}: the model cannot be written: {error.strerror or error}") from error
