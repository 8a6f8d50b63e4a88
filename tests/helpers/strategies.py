"""Draw trees, gaps and scores for property tests."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import strategies as st

import oracle
from oracle import BREAK, FREE, JOIN
from zishu.arcs import ROOT_SPAN, FixedArc
from zishu.tree import INTRA, CharTree, WordTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

# One code point is one character here, so that the oracle can count without the package's help.
HAN = "上海计划发展金融业我们在看书"
LABELS = ("root", "nsubj", "obj", "dep", "punct")


@st.composite
def projective_heads(draw: DrawFn, n: int) -> tuple[int, ...]:
    """Draw any projective tree over n items with one child of ROOT."""
    heads = [0] * (n + 1)

    def attach(first: int, last: int, head: int, *, blocks: bool = True) -> None:
        """Split first..last into blocks, or take it as one, and attach each block's root to the head."""
        while first <= last:
            end = draw(st.integers(first, last)) if blocks else last
            root = draw(st.integers(first, end))
            heads[root] = head
            attach(first, root - 1, root)
            attach(root + 1, end, root)
            first = end + 1

    attach(1, n, 0, blocks=False)
    return tuple(heads[1:])


@st.composite
def any_heads(draw: DrawFn, n: int) -> tuple[int, ...]:
    """Draw any tree over n items with one child of ROOT; most of the larger ones are not projective."""
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * (n + 1)
    for position, item in enumerate(order[1:], start=1):
        heads[item] = draw(st.sampled_from(order[:position]))
    return tuple(heads[1:])


def tree_heads(n: int, *, projective: bool | None = None) -> SearchStrategy[tuple[int, ...]]:
    """Draw heads that are projective (True), arbitrary (False), or either (None)."""
    if projective is None:
        return projective_heads(n) | any_heads(n)
    return projective_heads(n) if projective else any_heads(n)


@st.composite
def word_trees(
    draw: DrawFn,
    *,
    max_words: int = 6,
    max_length: int = 4,
    max_chars: int = 24,
    projective: bool | None = True,
) -> WordTree:
    """Draw a word tree over Chinese characters, with at most `max_chars` of them."""
    forms = draw(
        st.lists(st.text(HAN, min_size=1, max_size=max_length), min_size=1, max_size=max_words).filter(
            lambda forms: sum(map(len, forms)) <= max_chars
        )
    )
    n = len(forms)
    deprels = draw(st.lists(st.sampled_from(LABELS), min_size=n, max_size=n))
    return WordTree(tuple(forms), draw(tree_heads(n, projective=projective)), tuple(deprels))


@st.composite
def structures_for(draw: DrawFn, tree: WordTree) -> dict[str, tuple[int, ...]]:
    """Draw a lexicon of projective structures for some of a tree's words."""
    known = draw(st.sets(st.sampled_from(sorted(set(tree.forms)))))
    return {form: draw(projective_heads(len(form))) for form in sorted(known)}


@st.composite
def legal_char_trees(draw: DrawFn) -> tuple[CharTree, WordTree, tuple[tuple[int, ...], ...]]:
    """Draw a legal character tree together with its word tree and the trees inside the words.

    Neither the sentence nor the words need be projective, and arcs between words may start at any character
    of the head: all of this is legal, and recovery has to be exact on it.
    """
    words = draw(word_trees(projective=None))
    inner = tuple(draw(tree_heads(len(form))) for form in words.forms)
    starts = [1 + sum(map(len, words.forms[:w])) for w in range(len(words.forms))]
    heads: list[int] = []
    labels: list[str] = []
    for start, inside, head, deprel in zip(starts, inner, words.heads, words.deprels, strict=True):
        for h in inside:
            if h:
                heads.append(start + h - 1)
                labels.append(INTRA)
            else:
                heads.append(head and starts[head - 1] + draw(st.integers(0, len(words.forms[head - 1]) - 1)))
                labels.append(deprel)
    return CharTree(tuple("".join(words.forms)), tuple(heads), tuple(labels)), words, inner


@st.composite
def char_trees(draw: DrawFn, *, max_chars: int = 12, projective: bool | None = None) -> CharTree:
    """Draw an arbitrary labelled character tree, most often an illegal one; even ROOT's arc may say INTRA."""
    n = draw(st.integers(1, max_chars))
    chars = draw(st.text(HAN, min_size=n, max_size=n))
    labels = draw(st.lists(st.sampled_from((INTRA, INTRA, *LABELS)), min_size=n, max_size=n))
    return CharTree(tuple(chars), draw(tree_heads(n, projective=projective)), tuple(labels))


@st.composite
def gap_vectors(draw: DrawFn, n: int, *, full: bool = False) -> list[int]:
    """Draw n + 1 gap values: gap 0 is a break and the last entry is unused; `full` leaves no gap free."""
    kinds = (JOIN, BREAK) if full else (FREE, JOIN, BREAK)
    return [BREAK, *draw(st.lists(st.sampled_from(kinds), min_size=n - 1, max_size=n - 1)), BREAK]


@st.composite
def score_matrices(
    draw: DrawFn, n: int, *, forbid: bool = False, bound: float = 8.0, integral: bool = False
) -> list[list[float]]:
    """Draw scores[d][h] over 0..n; `forbid` mixes in minus infinity, `integral` provokes ties.

    The entries that stand for no arc (row 0 and the diagonal) are drawn as well: no code may read them.
    """
    value: SearchStrategy[float] = (
        st.integers(-2, 2).map(float) if integral else st.floats(-bound, bound, allow_nan=False, width=32)
    )
    if forbid:
        value = st.one_of(value, value, value, st.just(-math.inf))
    row = st.lists(value, min_size=n + 1, max_size=n + 1)
    return draw(st.lists(row, min_size=n + 1, max_size=n + 1))


@st.composite
def fixed_arcs(draw: DrawFn, n: int, gaps: Sequence[int]) -> list[FixedArc]:
    """Draw arcs of a legal tree between the words that the gaps define."""
    tree = draw(st.sampled_from(oracle.typed_trees(n, gaps)))
    edges = [k for k in range(n + 1) if k in (0, n) or gaps[k] == BREAK]
    known = {
        d: (i + 1, j + 1)
        for i, j in pairwise(edges)
        if all(gaps[k] == JOIN for k in range(i + 1, j))
        for d in range(i + 1, j + 1)
    }
    known[0] = ROOT_SPAN
    arcs = [
        FixedArc(known[d], known[h])
        for d, (h, inside) in enumerate(zip(*tree, strict=True), start=1)
        if not inside and d in known and h in known
    ]
    return draw(st.lists(st.sampled_from(arcs), unique=True)) if arcs else []
