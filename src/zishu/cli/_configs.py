"""Find a training configuration: a TOML file, or the name of a bundled one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import zishu
from zishu.errors import InputError

_PACKAGE: Final = Path(zishu.__file__).parent
# In an installed package, and in the source tree.
_FOLDERS: Final = (_PACKAGE / "configs", _PACKAGE.parent.parent / "configs")


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
    """Return the bundled configurations by name."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    return {} if folder is None else {path.stem: path for path in sorted(folder.glob("*.toml"))}
