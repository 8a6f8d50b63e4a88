"""`zishu config`: print a training configuration, or list the bundled ones. `zishu train` finds them here, too."""

from __future__ import annotations

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
        title = path.read_text(encoding="utf-8").partition("\n")[0]
        typer.echo(f"{known:28} {title.removeprefix('#').strip() if title.startswith('#') else ''}".rstrip())


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
    found = [*sorted(folder.glob("*.toml")), *sorted(folder.glob("*/*.toml"))]
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}
