"""Give the package's metadata a README whose links work outside the repository.

Links in README.md are relative, so they work in a clone and on the host of the repository. A package index shows only the
text, so the links must be full addresses there. The address of the project is in pyproject.toml, under `[project.urls]`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeHook(MetadataHookInterface):
    """Fill in the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the README of the package."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_addresses(text, metadata["urls"]["Source"]),
        }


def with_addresses(text: str, source: str) -> str:
    """Replace the relative links of a text by addresses in the repository."""
    text = re.sub(r"(!\[[^\]]*\]\()(?![a-z]+:|#)", rf"\1{source}/raw/HEAD/", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?![a-z]+:|#)", rf"\1{source}/blob/HEAD/", text)
