"""Lay out tables as aligned columns, as Markdown, or as LaTeX (booktabs). Cells are text, and nothing is escaped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

ABSENT: Final = "-"


class Table(NamedTuple):
    """Hold a table as text; the first cell of a row is its name, the others are numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_text(self) -> str:
        """Return plain lines: names left-aligned, numbers right-aligned."""
        from rich.cells import cell_len  # a Chinese character is two columns wide

        lines = [self.header, *self.rows]
        widths = [max(cell_len(line[k]) for line in lines) for k in range(len(self.header))]
        padded = []
        for line in lines:
            blanks = [" " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)]
            cells = [line[0] + blanks[0], *map(str.__add__, blanks[1:], line[1:])]
            padded.append("  ".join(cells).rstrip())
        return "\n".join(padded)

    def to_markdown(self) -> str:
        """Return a table with the first column left-aligned and the others right-aligned."""
        rule = [":---", *["---:"] * (len(self.header) - 1)]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (self.header, rule, *self.rows))

    def to_latex(self) -> str:
        """Return a tabular environment; it needs the package booktabs."""
        lines = [rf"  \begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}", r"  \toprule"]
        lines += [rf"  {' & '.join(self.header)} \\", r"  \midrule"]
        lines += [rf"  {' & '.join(cells)} \\" for cells in self.rows]
        return "\n".join([*lines, r"  \bottomrule", r"  \end{tabular}"])


def percent(value: float | None) -> str:
    """Format a number with two decimals, or as absent."""
    return ABSENT if value is None else f"{value:.2f}"


def escape_markdown(text: str) -> str:
    """Escape a text so that Markdown shows it literally."""
    return re.sub(r"([\\|*_`<\[\]])", r"\\\1", text)
