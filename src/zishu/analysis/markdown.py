"""Write tables as Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with the first column left-aligned and the others right-aligned."""
    rule = [":---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def escape_markdown(text: str) -> str:
    """Escape a text so that Markdown shows it literally."""
    return re.sub(r"([\\|*_`<\[\]])", r"\\\1", text)
