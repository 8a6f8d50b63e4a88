"""Read arcs between words that the user has fixed, and reject those that no tree can have.

An arc is `(dependent, head)` or `(dependent, head, relation)`. Both ends are offsets where pinned words begin; the head
None is the root. Every contradiction is found here, before a model runs, and reported with its offsets: an end that is
not a pinned word, two heads, two roots, words of different sentences, a cycle, crossing arcs.

These checks are complete: arcs that pass them have a projective tree. A word that is not fixed can always depend on its
neighbour, so only fixed arcs can exclude each other. They do so if they cross (the arc to the root begins before the
first word), or if an arc spans a word that its head descends from.

Cost: a few microseconds per arc.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any, Final

from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# What users write: the offsets of a word and of its head (None for the root), and optionally a relation.
ArcLike = tuple[int, int | None] | tuple[int, int | None, str | None]

ROOT_SPAN: Final = (0, 1)


@dataclass(frozen=True, slots=True)
class FixedArc:
    """Hold an arc that every tree of a sentence must have, by half-open spans of characters, numbered from 1."""

    dependent: tuple[int, int]
    head: tuple[int, int]  # `ROOT_SPAN` for the root
    relation: str | None = None  # None leaves it to the model


@dataclass(frozen=True, slots=True)
class _Offsets:
    """Hold an arc as the user wrote it."""

    dependent: int
    head: int | None
    relation: str | None

    def __str__(self) -> str:
        return f"{self.dependent}:{'root' if self.head is None else self.head}"

    @property
    def span(self) -> tuple[int, int]:
        """Return the stretch that it spans, ends included; the root is before the text."""
        head = -1 if self.head is None else self.head
        return min(self.dependent, head), max(self.dependent, head)


def place_arcs(
    arcs: Iterable[ArcLike], words: Mapping[int, tuple[int, tuple[int, int]]]
) -> dict[int, tuple[FixedArc, ...]]:
    """Return the fixed arcs of a text by the numbers of their sentences; raise `InputError` for contradictions.

    `words` gives, for each pinned word by its offset, the number of its sentence and its span of characters.
    """
    heads: dict[int, _Offsets] = {}
    for arc in dict.fromkeys(map(_read, arcs)):
        for offset in (arc.dependent, arc.head):
            if offset is not None and offset not in words:
                raise InputError(f"the arc {arc} needs a pinned word that begins at {offset}")
        if arc.head == arc.dependent:
            raise InputError(f"the arc {arc} makes a word its own head")
        if other := heads.get(arc.dependent):
            what = "heads" if other.head != arc.head else "relations"
            raise InputError(f"the arcs {other} and {arc} give one word two {what}")
        heads[arc.dependent] = arc

    found: dict[int, list[_Offsets]] = defaultdict(list)
    for arc in heads.values():
        number, _ = words[arc.dependent]
        if arc.head is not None and words[arc.head][0] != number:
            raise InputError(f"the arc {arc} connects words of two sentences")
        found[number].append(arc)
    for several in found.values():
        _check_tree(several)

    def fixed(arc: _Offsets) -> FixedArc:
        head = ROOT_SPAN if arc.head is None else words[arc.head][1]
        return FixedArc(words[arc.dependent][1], head, arc.relation)

    return {number: tuple(map(fixed, several)) for number, several in found.items()}


def check_arcs(arcs: Iterable[ArcLike]) -> None:
    """Refuse arcs of one sentence, by the places of its words, that no projective tree with one root has."""
    _check_tree(list(map(_read, arcs)))


def _read(arc: Sequence[Any]) -> _Offsets:
    try:
        dependent, head, relation = (*arc, None) if len(arc) == 2 else arc
        offsets = index(dependent), None if head is None else index(head)
    except (TypeError, ValueError):
        raise InputError(
            f"an arc is (dependent, head) or (dependent, head, relation) with offsets of words, not {arc!r}"
        ) from None
    if relation is not None and (not isinstance(relation, str) or not relation):
        raise InputError(f"the relation of an arc is a string, not {relation!r}")
    return _Offsets(*offsets, relation)


def _check_tree(arcs: Sequence[_Offsets]) -> None:
    """Reject arcs of one sentence that no projective tree with one root has."""
    heads = {arc.dependent: arc for arc in arcs}
    _check_cycles(heads)
    roots = [arc for arc in arcs if arc.head is None]
    if len(roots) > 1:
        raise InputError(f"the arcs {roots[0]} and {roots[1]} give one sentence two roots")
    # From left to right, longer ones first, so that open arcs are nested.
    opened: list[_Offsets] = []
    for arc in sorted(arcs, key=lambda arc: (arc.span[0], -arc.span[1])):
        left, right = arc.span
        while opened and opened[-1].span[1] <= left:
            opened.pop()
        if opened and opened[-1].span[1] < right:
            raise InputError(f"the arcs {opened[-1]} and {arc} cross")
        opened.append(arc)
    for arc in arcs:
        left, right = arc.span
        # No need to look further up: arcs that do not cross enter this stretch only through its ends.
        above = None if arc.head is None else heads.get(arc.head)
        if above and above.head is not None and left < above.head < right:
            raise InputError(
                f"the arc {arc} spans the word at {above.head}, which is an ancestor of its head"
            )


def _check_cycles(heads: dict[int, _Offsets]) -> None:
    done: set[int] = set()
    for start in heads:
        chain: dict[int, _Offsets] = {}  # from the word at `start` upwards
        word: int | None = start
        while word is not None and word in heads and word not in done:
            if word in chain:
                cycle = list(chain.values())[list(chain).index(word) :]
                raise InputError(f"the arcs {', '.join(map(str, cycle))} form a cycle")
            chain[word] = heads[word]
            word = heads[word].head
        done.update(chain)
