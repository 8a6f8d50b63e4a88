"""Write model directories: replace one atomically, and combine several into one.

A directory appears complete or not at all: it is written under a temporary name next to its destination, loaded by the
runtime as a test, and then renamed.

Cost: copying the files and loading the result.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from zishu import __version__
from zishu.errors import InputError, ZishuError
from zishu.model.files import (
    CONFIG,
    FILES,
    LARGEST_NETWORK,
    MEMBER,
    SEGMENTER,
    TREECRF,
    check_file,
    write_json,
)
from zishu.model.model import Model, Pipeline
from zishu.model.runtime import load_model
from zishu.model.settings import Settings, TaskName, part_names, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def write_pipeline(segmenter: Path, treecrf: Path, directory: Path, *, name: str = "") -> Pipeline:
    """Combine the model directories of a segmenter and a word-level parser, and return the loaded pipeline."""
    model = _write_parts("pipeline", {SEGMENTER: segmenter, TREECRF: treecrf}, directory, name)
    assert isinstance(model, Pipeline)
    return model


def write_ensemble(members: Sequence[Path], directory: Path, *, name: str = "") -> Model:
    """Combine the model directories of several parsers into one, and return it loaded."""
    parts = {f"{MEMBER}{number}": member for number, member in enumerate(members, 1)}
    model = _write_parts("ensemble", parts, directory, name)
    assert isinstance(model, Model)
    return model


def _write_parts(task: TaskName, parts: Mapping[str, Path], directory: Path, name: str) -> Model | Pipeline:
    for source in parts.values():
        if not (source / CONFIG).is_file():
            raise InputError(f"{source}: not a model (it has no {CONFIG})")
        if source.resolve() == directory.resolve():
            raise InputError(f"{directory}: is one of the models to combine, so it is not overwritten")
    with fresh_directory(directory) as folder:
        for part, source in parts.items():
            copy_model(source, folder / part)
        write_json(folder / CONFIG, Settings(task=task, name=name, version=__version__).to_json())
        try:
            return load_model(folder)
        except InputError as error:
            # The folder does not have its final name yet, and never will.
            raise InputError(str(error).replace(str(folder), str(directory))) from error


def copy_model(source: Path, target: Path) -> None:
    """Copy the files of a model, and nothing else in its directory.

    Links are rejected: they may point anywhere, and copies are often passed on to others.
    """
    settings = read_settings(source)
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        file = source / name
        if file.is_symlink():
            raise InputError(f"{file}: is a link and cannot be copied")
        if file.exists():
            check_file(file, LARGEST_NETWORK)
            shutil.copyfile(file, target / name, follow_symlinks=False)
    for part in part_names(source, settings.task):
        if (source / part).is_symlink():
            raise InputError(f"{source / part}: is a link and cannot be copied")
        read_settings(source / part, part=True)
        copy_model(source / part, target / part)


@contextmanager
def fresh_directory(directory: Path) -> Iterator[Path]:
    """Provide a new directory to write to; it replaces the old one if everything succeeds."""
    is_model = (directory / CONFIG).is_file()
    if directory.exists() and not is_model and not (directory.is_dir() and not any(directory.iterdir())):
        raise InputError(f"{directory}: not a model, so it is not overwritten")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        # mkdtemp creates a folder that only its owner can read, which is wrong for a model.
        hidden = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        folder = hidden / "new"
        try:
            folder.mkdir()
            yield folder
            if directory.exists():
                # A non-empty directory cannot be replaced in one step; the old one is kept until the new one is in
                # place.
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
