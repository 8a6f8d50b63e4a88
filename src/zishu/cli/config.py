"""`zishu config`: print a training configuration, or list the bundled ones. `zishu train` finds them here, too."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Final

import typer

import zishu
from zishu.errors import InputError

_PACKAGE: Final = Path(zishu.__file__).parent
# In an installed package, and in the source tree.
_FOLDERS: Final = (_PACKAGE / "configs", _PACKAGE.parent.parent / "configs")


def config_command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of a configuration, or a TOML file; default: list all."),
    ] = None,
) -> None:
    """Print a training configuration.

    `zishu train NAME` trains it. To change it, use `--set KEY=VALUE`, or save it to a file and edit that.
    """
    if name is not None:
        typer.echo(find_config(name).read_text(encoding="utf-8"), nl=False)
        return
    for known, path in bundled_configs().items():
        typer.echo(f"{known:28} {_title(path)}".rstrip())


def _title(path: Path) -> str:
    """Return the first sentence of the comment at the beginning of a file."""
    lines = takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
    comment = " ".join(line.removeprefix("#").strip() for line in lines)
    return re.split(r"(?<=\.)\s", comment, maxsplit=1)[0]


def find_config(name: str) -> Path:
    """Return the file of a configuration, given by its path or, if there is no such file, by its name."""
    path = Path(name)
    if path.is_file():
        return path
    found = bundled_configs()
    if name not in found:
        raise InputError(f"{name}: neither a file nor one of {', '.join(found)}")
    return found[name]


def bundled_configs() -> dict[str, Path]:
    """Return the bundled configurations by name, such as `latent-c2f` or `paper/latent-c2f`."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    if folder is None:
        return {}
    found = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.toml")}
    return dict(sorted(found.items(), key=lambda item: ("/" in item[0], item[0])))
