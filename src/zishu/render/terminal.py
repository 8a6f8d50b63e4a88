"""Draw a parsed sentence for a terminal: one row per word, with the tree in a gutter on the left.

      ┌───► 1 上海    [上]海      PROPN  nsubj  ← 2 计划    0.97
    ──┼───► 2 计划    [计]划      VERB   root               0.99
      └─┬─► 3 发展    发[展]      VERB   ccomp  ← 2 计划    0.96
        └─► 4 金融业  [金[融]]业  NOUN   obj    ← 3 发展    0.98

Each word with dependents has one vertical line that spans all of them; an arrow points from that line to each
dependent. The line of a word is to the right of its head's line. In a projective tree nothing crosses, because subtrees
are contiguous, and the gutter is as deep as the tree. In other trees, lines that would touch get separate columns, and
a horizontal line passes behind a vertical one.

The structure inside a word keeps the order of its characters: a bracket encloses a character with everything that
depends on it, and the character outside all brackets is the root. In [金[融]]业, 业 is the root, 金 depends on it, and 融
depends on 金. Words of one character have no structure. Part of speech, relation, head and the word's probability
follow.

If the drawing is wider than `width`, parts are dropped until it fits: the form of the head, the space between the
lines, the head, the inner structure, the probability, and finally the gutter (the number of the head then comes back).
Long words are truncated. Colours are optional. There are three layers: `stems` (data), `gutter` and `_table` (layout),
`_paint`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from zishu.render._cells import cells, drawn_heads, visible
from zishu.text import characters
from zishu.tree import ROOT, is_projective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zishu.document import Sentence, Word


# --- data: the lines ---


@dataclass(frozen=True, slots=True)
class Stem:
    """Hold the vertical line of a word with dependents: its column and the rows it spans, counted from 0."""

    column: int
    top: int
    bottom: int


def stems(heads: Sequence[int]) -> dict[int, Stem]:
    """Give every word that has dependents a vertical line, by the word's number."""
    dependents: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for d, h in enumerate(heads, start=1):
        dependents[h].append(d)
    placed: dict[int, Stem] = {}
    columns: list[list[Stem]] = []
    waiting = [(d, 0) for d in dependents[ROOT]]
    for word, column in waiting:  # grows during the loop: heads come before their dependents
        if not dependents[word]:
            continue
        top = min(word, dependents[word][0]) - 1
        bottom = max(word, dependents[word][-1]) - 1
        while column < len(columns) and any(
            other.top <= bottom and top <= other.bottom for other in columns[column]
        ):
            column += 1
        placed[word] = Stem(column, top, bottom)
        columns += [[] for _ in range(column + 1 - len(columns))]
        columns[column].append(placed[word])
        waiting += [(d, column + 1) for d in dependents[word]]
    return placed


# --- layout: characters in rows ---

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_BOX = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"  # indexed by the sum of the directions in which a cell has a line
_ARROW = "►"
_MARGIN = 2  # the line of the root starts in the margin


def gutter(heads: Sequence[int], *, step: int = 2) -> list[str]:
    """Return the lines of the tree, one string per word, all of the same width; `step` is the column width."""
    lines = stems(heads)
    width = _MARGIN + step * (1 + max((stem.column for stem in lines.values()), default=-1))
    grid = [[0] * width for _ in heads]
    for stem in lines.values():
        x = _MARGIN + step * stem.column
        for y in range(stem.top, stem.bottom + 1):
            grid[y][x] |= _UP * (y > stem.top) | _DOWN * (y < stem.bottom)
    for d, h in enumerate(heads, start=1):
        row = grid[d - 1]
        own = _MARGIN + step * lines[d].column if d in lines else -1
        first = _MARGIN + step * lines[h].column if h != ROOT else 0
        row[first] |= _RIGHT | (_LEFT if h == ROOT else 0)
        for x in range(first + 1, width):
            if x == own or not row[x]:
                row[x] |= _LEFT | _RIGHT
    return ["".join(_BOX[cell] for cell in row) + _ARROW for row in grid]


class Span(NamedTuple):
    """Hold a piece of text in one style; a cell of the table is a list of these."""

    text: str
    style: str = ""


def structure(word: Word, *, relations: bool = False) -> list[Span]:
    """Return the tree inside a word, with a bracket around each character but the root and its dependents.

    With `relations`, a bracket ends with its relation if it is known: [火:att]车.

    The result is empty for words of one character, words without a Chinese character, and words without an inner tree.
    A tree with crossing arcs, which brackets cannot show, is given as a list of heads.
    """
    heads = drawn_heads(word)
    if heads is None or len(heads) == 1:
        return []
    if not is_projective(heads):
        return [Span(",".join(map(str, heads)), "inner")]
    first, last, depth = list(range(len(heads))), list(range(len(heads))), [0] * len(heads)
    for d in range(len(heads)):
        above = heads[d]
        while above != ROOT:
            depth[d] += 1
            first[above - 1] = min(first[above - 1], d)
            last[above - 1] = max(last[above - 1], d)
            above = heads[above - 1]
    opened, closed = [0] * len(heads), [""] * len(heads)
    # Inner brackets close first: those of characters far from the root.
    for d in sorted(range(len(heads)), key=lambda d: -depth[d]):
        if heads[d] != ROOT:
            opened[first[d]] += 1
            name = f":{word.char_rels[d]}" if relations and word.char_rels is not None else ""
            closed[last[d]] += f"{name}]"
    spans = []
    for d, char in enumerate(map(visible, word.chars)):
        style = "inner" if heads[d] else "root"
        spans.append(Span(f"{'[' * opened[d]}{char}{closed[d]}", style))
    return spans


class Cell(NamedTuple):
    """Hold what a column shows of a word, and its width."""

    spans: list[Span]
    width: int


# What a drawing shows, from most to least: the width of a column of tree lines (0: no lines), and the columns of the
# table.
_PLANS: Final = (
    (2, ("number", "form", "inner", "upos", "relation", "head", "prob")),
    (2, ("number", "form", "inner", "upos", "relation", "head number", "prob")),
    (1, ("number", "form", "inner", "upos", "relation", "head number", "prob")),
    (1, ("number", "form", "inner", "upos", "relation", "prob")),
    (1, ("number", "form", "upos", "relation", "prob")),
    (1, ("number", "form", "upos", "relation")),
    (0, ("number", "form", "upos", "relation", "head number")),
)


def _table(words: Sequence[Word], longest: int | None, relations: bool) -> dict[str, list[Cell]]:
    """Return the cells of every column by name; `longest` limits the width of a word."""
    digits = len(str(len(words)))
    forms = [visible(word.form) for word in words]
    table: dict[str, list[list[Span]]] = {
        "number": [[Span(f"{word.id:>{digits}}", "number")] for word in words],
        "form": [[Span(form, "form")] for form in forms],
        "inner": [structure(word, relations=relations) for word in words],
        "upos": [[Span(visible(word.upos or ""), "upos")] for word in words],
        "relation": [[Span(visible(word.deprel), "relation")] for word in words],
        "head": [
            [Span(f"← {word.head:>{digits}} {forms[word.head - 1]}", "head")] if word.head != ROOT else []
            for word in words
        ],
        "head number": [
            [Span(f"← {word.head:>{digits}}", "head")] if word.head != ROOT else [] for word in words
        ],
        "prob": [[] if word.prob is None else [_chance(word.prob)] for word in words],
    }
    return {name: [_cell(spans, longest) for spans in column] for name, column in table.items()}


def _chance(prob: float) -> Span:
    return Span(f"{prob:.2f}", "sure" if prob >= 0.9 else "unsure" if prob >= 0.5 else "doubtful")


def _cell(spans: list[Span], limit: int | None) -> Cell:
    """Measure a cell; truncate it with an ellipsis if it is longer than the limit."""
    width = sum(cells(text) for text, _ in spans)
    if limit is None or width <= limit:
        return Cell(spans, width)
    kept: list[Span] = []
    room = limit - 1
    for text, style in spans:
        for char in characters(text):
            if cells(char) > room:
                return Cell([*kept, Span("…", style)], limit - room)
            room -= cells(char)
            kept.append(Span(char, style))
    raise AssertionError("a cell wider than the limit reaches it")


# --- markup ---

_CODES: Final = {
    "line": "36", "number": "2", "form": "1", "root": "1;35", "inner": "2", "upos": "33", "relation": "32", "head": "2",
    "sure": "2", "unsure": "33", "doubtful": "31",
}  # fmt: skip


def draw(
    sentence: Sentence, *, colour: bool = False, width: int | None = None, relations: bool = False
) -> str:
    """Return the drawing as lines joined by line breaks, as narrow as `width` if possible.

    With `relations`, trees inside words show their relations.
    """
    heads = [word.head for word in sentence.words]
    depth = 1 + max((stem.column for stem in stems(heads).values()), default=-1)
    table = _table(sentence.words, None if width is None else max(8, width // 3), relations)
    widths = {name: max(cell.width for cell in column) for name, column in table.items()}
    for step, names in _PLANS:
        shown = [name for name in names if widths[name]]
        lines = _MARGIN + step * depth + 2 if step else 0
        gaps = 2 * len(shown) - 3  # two cells between columns, but one between number and form
        if width is None or lines + sum(widths[name] for name in shown) + gaps <= width:
            break
    columns = [table[name] for name in shown]
    gutters = gutter(heads, step=step) if step else [""] * len(heads)
    return "\n".join(
        _paint(line, row, [widths[name] for name in shown], colour)
        for line, row in zip(gutters, zip(*columns, strict=True), strict=True)
    )


def _paint(line: str, row: Sequence[Cell], widths: Sequence[int], colour: bool) -> str:
    """Join the cells of a row, each padded to the width of its column."""
    pieces: list[str] = []
    if line:
        pieces += [_styled(line, "line", colour), " "]
    for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
        pieces += [_styled(text, style, colour) for text, style in cell.spans]
        # Number and form are one space apart.
        pieces.append(" " * (width - cell.width + (2 if number else 1)))
    return "".join(pieces).rstrip(" ")


def _styled(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour and text else text
