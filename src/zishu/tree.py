"""Represent word trees and character trees, and recover words from characters.

Both kinds of tree are small immutable objects that are always valid: one root, no cycle, heads in range. `recover`
follows Appendix A.1 of the paper: characters connected by INTRA arcs collapse into words, and the other arcs become
arcs between words. `zishu.forest` goes the other way, from a word tree to its many character trees.

Words and characters are numbered from 1; head 0 is ROOT. Trees need not be projective; `is_projective` tests that.
Every check costs O(n) up to a sort; `recover` costs O(n) for a legal tree and O(n) for every round of repairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from zishu.errors import InvalidTree
from zishu.text import characters

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

ROOT: Final = 0
INTRA: Final = "INTRA"

# Labels that `recover` has to invent, because INTRA says nothing about the relation between two words. They are spelled
# as in the label set (`own_spelling`).
ROOT_LABEL: Final = "root"
CUT_LABEL: Final = "dep"


@dataclass(frozen=True, slots=True)
class WordTree:
    """Hold a dependency tree over words."""

    forms: tuple[str, ...]
    heads: tuple[int, ...]
    deprels: tuple[str, ...]
    # The tag columns (`zishu.tags`); None if unknown.
    upos: tuple[str, ...] | None = None
    xpos: tuple[str, ...] | None = None
    feats: tuple[str, ...] | None = None  # "_" for a word without features
    lemma: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        columns = {"heads": self.heads, "deprels": self.deprels, "upos": self.upos}
        columns |= {"xpos": self.xpos, "feats": self.feats, "lemma": self.lemma}
        _check_lengths("word", len(self.forms), columns)
        _check_forms("word", self.forms)
        check_heads(self.heads, kind="word")

    @property
    def is_projective(self) -> bool:
        """Tell whether no two arcs cross."""
        return is_projective(self.heads)

    @property
    def chars(self) -> list[str]:
        """Return the characters of all words."""
        return [char for form in self.forms for char in characters(form)]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Count the characters of every word."""
        return tuple(len(characters(form)) for form in self.forms)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Return every word's half-open span of character numbers, which start at 1."""
        return tuple(pairwise(accumulate(self.lengths, initial=1)))


@dataclass(frozen=True, slots=True)
class CharTree:
    """Hold a dependency tree over characters; arcs inside words have the label INTRA."""

    chars: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_lengths("character", len(self.chars), {"heads": self.heads, "labels": self.labels})
        _check_forms("character", self.chars)
        check_heads(self.heads, kind="character")

    @property
    def is_projective(self) -> bool:
        """Tell whether no two arcs cross."""
        return is_projective(self.heads)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Hold the word tree of a character tree, and how its words map to characters."""

    tree: WordTree
    repairs: int  # arcs whose label had to change; 0 for a legal character tree
    spans: tuple[tuple[int, int], ...]  # half-open spans of character numbers, one per word
    roots: tuple[int, ...]  # each word's root character, numbered in the sentence
    char_heads: tuple[tuple[int, ...], ...]  # each word's inner tree, numbered from 1 in the word, 0 = root


def check_heads(heads: Sequence[int], *, kind: str = "item", projective: bool = False) -> None:
    """Raise InvalidTree if a head is out of range, there is not exactly one root, or there is a cycle.

    With `projective`, crossing arcs are not allowed either.
    """
    for d, h in enumerate(heads, start=1):
        if not 0 <= h <= len(heads):
            raise InvalidTree(f"{kind} {d} has head {h}, which is outside 0..{len(heads)}")
    roots = [d for d, h in enumerate(heads, start=1) if h == ROOT]
    if not roots:
        raise InvalidTree(f"no {kind} is the root")
    if len(roots) > 1:
        raise InvalidTree(f"{kind}s {', '.join(map(str, roots))} are all roots, but only one is allowed")

    # Walk up from every item. An item met twice in one walk lies on a cycle; one met in an earlier walk is safe.
    walk_of = [0] * (len(heads) + 1)
    for start in range(1, len(heads) + 1):
        d = start
        while d != ROOT and not walk_of[d]:
            walk_of[d] = start
            d = heads[d - 1]
        if d != ROOT and walk_of[d] == start:
            raise InvalidTree(f"{kind} {d} is its own ancestor")
    if projective and not is_projective(heads):
        raise InvalidTree("the tree is not projective")


def flat_tree(words: Sequence[str]) -> WordTree:
    """Return a tree that carries only the segmentation: all words depend on the first."""
    others = len(words) - 1
    return WordTree(tuple(words), (ROOT, *(1,) * others), (ROOT_LABEL, *(CUT_LABEL,) * others))


def is_projective(heads: Sequence[int]) -> bool:
    """Tell whether no two arcs of a tree cross, including the arc from ROOT; heads[0] belongs to item 1."""
    starts: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for d, h in enumerate(heads, start=1):
        starts[min(d, h)].append(max(d, h))
    # The right ends of the arcs that are open at the current item. Nested arcs close in the reverse order of opening,
    # so an arc that would end beyond the innermost open one crosses it.
    open_ends: list[int] = []
    for item, ends in enumerate(starts):
        while open_ends and open_ends[-1] == item:
            open_ends.pop()
        for end in sorted(ends, reverse=True):
            if open_ends and end > open_ends[-1]:
                return False
            open_ends.append(end)
    return True


@cache
def projective_trees(length: int) -> tuple[tuple[int, ...], ...]:
    """Return the heads of every projective tree over so many items, sorted: 1, 2, 7, 30, 143 trees for 1 to 5 items."""
    if length < 1:
        raise InvalidTree("a tree has at least one item")
    return tuple(
        sorted(
            (*(h or root for h in left), ROOT, *(h + root if h else root for h in right))
            for root in range(1, length + 1)
            for left in _adjacent_trees(root - 1)
            for right in _adjacent_trees(length - root)
        )
    )


@cache
def _adjacent_trees(length: int) -> tuple[tuple[int, ...], ...]:
    """Return all ways to cover items with adjacent trees; the root of each tree has the head 0."""
    if length == 0:
        return ((),)
    return tuple(
        (*first, *(h + size if h else 0 for h in rest))
        for size in range(1, length + 1)
        for first in projective_trees(size)
        for rest in _adjacent_trees(length - size)
    )


def own_spelling(label: str, labels: Iterable[str]) -> str:
    """Return a label as a label set spells it (`DEP` for `dep` with Malt labels), unchanged if it is missing."""
    known = {name.casefold(): name for name in labels}
    return label if label in known.values() else known.get(label.casefold(), label)


def recover(tree: CharTree, label_set: Collection[str] = ()) -> Recovery:
    """Collapse the characters of every word and restore the arcs between words (paper, Appendix A.1).

    A character tree is legal if the characters connected by INTRA arcs always form a contiguous block. The result is
    then exact, whether or not arcs between words start at root characters. The label of the arc that enters a word's
    root character becomes the word's relation.

    An illegal tree is repaired by changing labels only, never heads, so the result is always a tree:

    1. An INTRA arc from ROOT becomes a `root` arc between words.
    2. Every INTRA arc that spans a character of another word becomes a `dep` arc between words, which splits its word.
       This is repeated until all words are contiguous; once is enough if the tree is projective.

    Every split is forced: words only get smaller, so an arc over another word's character can never become legal again.
    The repair therefore changes the smallest possible set of INTRA arcs, and does not depend on the order. `root` and
    `dep` are spelled as in `label_set`.
    """
    root_label, cut_label = (own_spelling(label, label_set) for label in (ROOT_LABEL, CUT_LABEL))
    labels = list(tree.labels)
    repairs = 0
    root = tree.heads.index(ROOT)
    if labels[root] == INTRA:
        labels[root] = root_label
        repairs += 1

    runs = _runs(_tops(tree.heads, labels))
    while over_foreign := [
        d for d, h in enumerate(tree.heads) if labels[d] == INTRA and runs[d] != runs[h - 1]
    ]:
        for d in over_foreign:
            labels[d] = cut_label
        repairs += len(over_foreign)
        runs = _runs(_tops(tree.heads, labels))
    return _collapse(tree, labels, runs, repairs)


def keep_pieces(tree: CharTree, label_set: Collection[str] = ()) -> CharTree:
    """Return a legal tree in which every piece of an interrupted word is a word, as in the paper's release.

    All pieces take the head and the relation of the interrupted word. Where the release gives a sentence several roots
    that way, the piece with the root character is the root, and the others depend on it by `dep`. A piece without its
    word's root character needs a root: the first character whose head is outside the piece. Others like it depend on
    the first. `recover` then finds exactly these words. A legal tree stays as it is.
    """
    root_label, cut_label = (own_spelling(label, label_set) for label in (ROOT_LABEL, CUT_LABEL))
    heads, labels = list(tree.heads), list(tree.labels)
    if labels[heads.index(ROOT)] == INTRA:
        labels[heads.index(ROOT)] = root_label
    tops = _tops(heads, labels)
    runs = _runs(tops)
    root_of_run = {runs[top - 1]: top for top in tops}
    for d, (h, top) in enumerate(zip(tree.heads, tops, strict=True), start=1):
        if d == top or runs[h - 1] == runs[d - 1]:
            continue
        root = root_of_run.setdefault(runs[d - 1], d)
        if root != d:
            heads[d - 1] = root
        elif tree.heads[top - 1] == ROOT:
            heads[d - 1], labels[d - 1] = top, cut_label
        else:
            heads[d - 1], labels[d - 1] = tree.heads[top - 1], labels[top - 1]
    return CharTree(tree.chars, tuple(heads), tuple(labels))


def _tops(heads: Sequence[int], labels: Sequence[str]) -> list[int]:
    """Return for every character where its chain of INTRA arcs ends."""
    # Chains share their ends, so each walk stops at the first character whose top is known.
    tops = [0] * len(heads)
    for start in range(len(heads)):
        path = []
        d = start
        while not tops[d] and labels[d] == INTRA:
            path.append(d)
            d = heads[d] - 1
        top = tops[d] = tops[d] or d + 1
        for below in path:
            tops[below] = top
    return tops


def _runs(tops: Sequence[int]) -> list[int]:
    """Number the maximal runs of adjacent characters with the same top, from 1."""
    return list(accumulate((a != b for a, b in pairwise(tops)), initial=1))


def _collapse(tree: CharTree, labels: Sequence[str], runs: Sequence[int], repairs: int) -> Recovery:
    """Build the words of a legal tree, whose runs are its words."""
    starts = [d for d in range(1, len(runs) + 1) if d == 1 or runs[d - 1] != runs[d - 2]]
    spans = tuple(pairwise([*starts, len(runs) + 1]))
    # Exactly one character of a word has an arc that is not INTRA, because the others depend on it inside the word.
    roots = tuple(d for d, label in enumerate(labels, start=1) if label != INTRA)
    words = WordTree(
        forms=tuple("".join(tree.chars[start - 1 : end - 1]) for start, end in spans),
        heads=tuple(runs[h - 1] if (h := tree.heads[d - 1]) else ROOT for d in roots),
        deprels=tuple(labels[d - 1] for d in roots),
    )
    char_heads = tuple(
        tuple(0 if d == r else tree.heads[d - 1] - start + 1 for d in range(start, end))
        for (start, end), r in zip(spans, roots, strict=True)
    )
    return Recovery(words, repairs, spans, roots, char_heads)


def _check_lengths(kind: str, count: int, columns: Mapping[str, tuple[object, ...] | None]) -> None:
    """Reject an empty tree and columns of different lengths."""
    if not count:
        raise InvalidTree(f"a tree needs at least one {kind}")
    for name, column in columns.items():
        if column is not None and len(column) != count:
            raise InvalidTree(f"{count} {kind}s but {len(column)} {name}")


def _check_forms(kind: str, forms: Sequence[str]) -> None:
    """Reject empty forms."""
    for number, form in enumerate(forms, start=1):
        if not form or form.isspace():
            raise InvalidTree(f"{kind} {number} is empty")
