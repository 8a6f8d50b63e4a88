"""Name, draw and count the structures inside words.

A structure is a projective tree over the characters of a word, written as a tuple of heads. In (2, 3, 0) the second
character is the head of the first, the third is the head of the second, and the third is the root. Words of 1, 2, 3, 4,
5 characters have 1, 2, 7, 30, 143 structures.

As text, a structure is a row of dots with one arrow between neighbours, from head to dependent. The filled dot is the
root:

    ○←●        (2, 0)       ○←○←●      (2, 3, 0)      ●→(○←○)           (0, 3, 1)
    ●→○        (0, 1)       (○→○)←●    (3, 1, 0)      ○←●→(○←○)         (2, 0, 4, 2)

One arrow per gap is enough, because in a projective tree every gap is owned by exactly one arc (docs/algorithm.md). An
arrow connects a dot or a bracketed group on each side. The head of a group is the dot that no arrow inside the group
points at.

Distributions follow Tables 4 and 6 of the paper: the share of each structure among the words of one length. Counting is
linear in the number of words.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from zishu.errors import InputError
from zishu.tree import ROOT, check_heads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Heads = tuple[int, ...]

ROOT_DOT: Final = "●"
DOT: Final = "○"
TO_RIGHT: Final = "→"  # the head is on the left
TO_LEFT: Final = "←"


def draw_structure(heads: Heads) -> str:
    """Draw a structure in one line of text; raise InputError if it is not a projective tree."""
    check_heads(heads, kind="character", projective=True)
    return _draw(heads, 1, len(heads))


def _draw(heads: Heads, first: int, last: int) -> str:
    """Draw the connected part of a tree between two characters, both included.

    Its outermost arcs form a chain from `first` to `last`. The gap that such an arc (p, q) owns is where the part
    connected to p ends.
    """
    if first == last:
        return ROOT_DOT if heads[first - 1] == ROOT else DOT
    drawn = ""
    start = p = first
    while p < last:
        q = _farthest(heads, p, last)
        end = _reach(heads, p, q - 1)
        drawn += _group(heads, start, end) + (TO_RIGHT if heads[q - 1] == p else TO_LEFT)
        start, p = end + 1, q
    return drawn + _group(heads, start, last)


def _group(heads: Heads, first: int, last: int) -> str:
    drawn = _draw(heads, first, last)
    return drawn if first == last else f"({drawn})"


def _farthest(heads: Heads, p: int, limit: int) -> int:
    """Return the last character up to `limit` that has an arc with p, or p if there is none."""
    partners = (q for q in range(p + 1, limit + 1) if heads[q - 1] == p or heads[p - 1] == q)
    return max(partners, default=p)


def _reach(heads: Heads, p: int, limit: int) -> int:
    """Return the last character up to `limit` that is connected with p."""
    q = _farthest(heads, p, limit)
    return p if q == p else _reach(heads, q, limit)


def read_drawing(text: str) -> Heads:
    """Parse a drawing made by `draw_structure`; raise InputError if the text is not one."""
    heads: list[int | None] = []
    head, rest = _read_level(text, heads)
    dots = [c for c in text if c in (ROOT_DOT, DOT)]
    if rest or dots.count(ROOT_DOT) != 1 or dots[head - 1] != ROOT_DOT:
        raise InputError(f"{text!r} is not a drawing of a structure")
    # The root is the only character without a head.
    return tuple(h or ROOT for h in heads)


def _read_level(text: str, heads: list[int | None]) -> tuple[int, str]:
    """Read items joined by arrows and add their heads; return the head of all items and the remaining text."""
    wrong = InputError(f"{text!r} is not a drawing of a structure")
    items: list[int] = []
    arrow = ""
    while True:
        if text[:1] in (ROOT_DOT, DOT):
            heads.append(None)
            item, text = len(heads), text[1:]
        elif text[:1] == "(":
            item, text = _read_level(text[1:], heads)
            if text[:1] != ")":
                raise wrong
            text = text[1:]
        else:
            raise wrong
        if arrow:
            d, h = (item, items[-1]) if arrow == TO_RIGHT else (items[-1], item)
            if heads[d - 1] is not None:
                raise wrong
            heads[d - 1] = h
        items.append(item)
        if text[:1] not in (TO_RIGHT, TO_LEFT):
            break
        arrow, text = text[0], text[1:]
    tops = [item for item in items if heads[item - 1] is None]
    if len(tops) != 1:
        raise wrong
    return tops[0], text


def shares(counts: Mapping[Heads, int], length: int) -> dict[Heads, float]:
    """Return the share of each structure among the words of one length, in per cent, largest first."""
    chosen = {heads: count for heads, count in counts.items() if len(heads) == length and count}
    whole = sum(chosen.values())
    order = sorted(chosen, key=lambda heads: (-chosen[heads], heads))
    return {heads: 100 * chosen[heads] / whole for heads in order}


def commonest(words: Sequence[str], structures: Sequence[Heads]) -> dict[str, Heads]:
    """Return the most frequent structure of each distinct word; the first one seen wins a tie."""
    seen: dict[str, Counter[Heads]] = {}
    for form, heads in zip(words, structures, strict=True):
        seen.setdefault(form, Counter())[heads] += 1
    return {form: counts.most_common(1)[0][0] for form, counts in seen.items()}


def leftward_share(counts: Mapping[Heads, int]) -> float | None:
    """Return the share of arcs whose dependent precedes its head, in per cent; None if there are no arcs."""
    leftward = arcs = 0
    for heads, count in counts.items():
        leftward += count * sum(h > d for d, h in enumerate(heads, start=1))
        arcs += count * (len(heads) - 1)
    return 100 * leftward / arcs if arcs else None
