"""Print the oldest versions of all dependencies that pyproject.toml allows, as constraints for pip.

python tools/oldest.py [EXTRA...] > oldest.txt
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def oldest(project: dict[str, object], extras: list[str]) -> list[str]:
    """Return a line `name==version.*` for every requirement of the package and of some extras."""
    optional = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]  # type: ignore[index,misc]
    found = (re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\w.]+)", line) for line in wanted)
    return sorted({f"{match[1]}=={match[2]}.*" for match in found if match and match[1] != "zishu"})


if __name__ == "__main__":
    table = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    sys.stdout.write("\n".join(oldest(table, sys.argv[1:])) + "\n")
