"""Turn a word tree, or what is known of one, into the forest of its character trees.

A word tree represents every character tree that satisfies the paper's two constraints (section 2.2): each word is a
single-root subtree, and only roots take part in arcs between words. The forest is never enumerated. It is given by what
a chart needs: the gaps that the gold words fix, and the allowed heads of every character with their labels. The structure
policy defines which trees are allowed inside a word (section 2.1, Figure 1):

    latent      every tree over the word's characters
    leftward    the last character is the root, the head of every other one is its right neighbour
    rightward   the mirror image: the first character is the root, the head of the others is the left neighbour
    annotated   the tree from a lexicon; a word without an entry stays latent

Root-as-head is a rule of the chart, not of the forest: the arcs are the same with and without it. The chart is
projective, so the forest of a non-projective word tree is empty; the caller must skip such sentences or make them
projective first.

In a partial tree (`zishu.partial`) some words, heads or relations are unknown. Its forest has the arcs of all trees that
agree with what is known; an arc whose relation is unknown has the label ANY.

The cost is the number of allowed arcs: for each word, the square of its length plus its length times that of its head;
for a sentence of which nothing is known, twice the square of its length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from zishu.arcs import ROOT_SPAN
from zishu.errors import InputError, InvalidTree
from zishu.gaps import FREE, JOIN, word_gaps
from zishu.partial import KnownWord, PartialTree, known_words
from zishu.tree import INTRA, ROOT, ROOT_LABEL, WordTree, check_heads

if TYPE_CHECKING:
    from numpy.typing import NDArray


ANY: Final = -1  # instead of a label: any label that an arc between two words may have

POLICIES: Final = ("latent", "leftward", "rightward", "annotated")

_Arc = tuple[int, int, int, bool]  # dependent, head, label, whether it lies inside a word
Structures = Mapping[str, tuple[int, ...]]  # word form -> heads inside the word, from 1; 0 = root of the word


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Represent the character trees of one word tree: those made of the allowed arcs that respect the gaps.

    Row d of the tables has one place for each allowed arc to character d. Unused places have the head -1. Row 0 is ROOT,
    which has no head.
    """

    gaps: NDArray[np.int8]  # n+1 values of zishu.gaps; [k] lies between k and k+1, the last is unused
    heads: NDArray[np.int64]  # n+1 k
    labels: NDArray[np.int64]  # n+1 k: indices into the label vocabulary, or ANY
    intra: NDArray[np.bool_]  # n+1 k: whether the arc lies inside a word

    @property
    def length(self) -> int:
        """Count the characters."""
        return len(self.gaps) - 1

    def arcs(self, *, intra: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the dependents, heads and labels of the arcs inside words, or of those between words."""
        dependents, places = np.nonzero((self.heads >= 0) & (self.intra == intra))
        return dependents, self.heads[dependents, places], self.labels[dependents, places]


def build_forest(
    tree: WordTree | PartialTree,
    label_index: Mapping[str, int],
    *,
    policy: str = "latent",
    structures: Structures | None = None,
    single_root: bool = True,
    one_tree: bool = False,
    by_words: bool = False,
) -> Forest:
    """Return the gaps and the allowed arcs of all character trees that agree with a word tree or a partial tree.

    Arcs between two words carry the modifier's relation, arcs inside a word INTRA, both as indices from `label_index`.
    The structure policy is for words whose boundaries are known. Without `single_root` (the paper's ablation), a gold
    word may break into several pieces: the gaps inside it become FREE. Arcs between words still follow the gold tree,
    so every piece attaches to the head word.

    With `one_tree`, the forest of a word tree is a single tree with its arcs only, for learners that need every
    character's head. Words without a structure in the policy `annotated` are then leftward. With `by_words`, every word
    of a word tree counts as one character: the forest is the word tree itself.
    """
    if by_words and not isinstance(tree, PartialTree):
        tree = replace(tree, forms=("字",) * len(tree.forms))
    if policy not in POLICIES:
        raise InputError(f"unknown structure policy {policy!r}, choose one of {', '.join(POLICIES)}")
    if one_tree and policy == "latent":
        raise InputError("the structure policy 'latent' allows many trees per word: choose another policy")
    if policy == "annotated" and structures is None:
        raise InputError("the structure policy 'annotated' needs structures")
    chars = tree.chars
    known = {word.span: word for word in known_words(tree)}
    if isinstance(tree, PartialTree):
        gaps, spans = tree.gaps, tree.stretches()
        words = {span for span in spans if tree.is_word(*span)}
    else:
        gaps, spans, words = word_gaps(tree.lengths), list(known), set(known)
    if not single_root:
        gaps = np.where(gaps == JOIN, np.int8(FREE), gaps)

    intra: list[_Arc] = []
    intra_label = _number(INTRA, label_index)
    roots = {span: range(*span) for span in (*spans, ROOT_SPAN)}  # characters with arcs to other words
    for start, end in spans:
        inner = None
        if (start, end) in words:
            form = "".join(chars[start - 1 : end - 1])
            inner = _structure(form, end - start, policy, structures or {}, one_tree=one_tree)
        if inner is None:
            inside = [(d, h) for d in range(start, end) for h in range(start, end) if d != h]
        else:
            inside = [(start + d, start + h - 1) for d, h in enumerate(inner) if h != ROOT]
            if one_tree:
                root = start + inner.index(ROOT)
                roots[start, end] = range(root, root + 1)
        intra += [(d, h, intra_label, True) for d, h in inside]

    inter: list[_Arc] = []
    has_root_label = any(label.lower() == ROOT_LABEL for label in label_index)
    for span in spans:
        word = known.get(span, KnownWord(span))
        head, deprel = word.head, word.deprel
        if deprel == INTRA:
            raise InputError(f"the label {INTRA} is reserved for arcs inside words")
        label = ANY if deprel is None else _number(deprel, label_index)
        if head is not None:
            outside: Sequence[int] = roots[head]
        else:
            outside = [h for h in range(ROOT, len(gaps)) if span not in words or h not in range(*span)]
            if deprel is not None and has_root_label:
                # A relation decides whether the head is the root, and the other way round.
                is_root = deprel.lower() == ROOT_LABEL
                outside = [h for h in outside if (h == ROOT) == is_root]
        inter += [(d, h, label, False) for d in roots[span] for h in outside if d != h]
    return _tabulate(gaps, inter + intra)


def _structure(
    form: str, length: int, policy: str, structures: Structures, *, one_tree: bool
) -> tuple[int, ...] | None:
    """Return the heads inside a word, from 1 and 0 for its root; None if the policy allows every tree."""
    if policy == "annotated" and form in structures:
        heads = structures[form]
        if len(heads) != length:
            raise InputError(f"structure of {form}: {len(heads)} heads for {length} characters")
        try:
            # No chart could use a structure that is not a projective tree.
            check_heads(heads, kind="character", projective=True)
        except InvalidTree as error:
            raise InputError(f"structure of {form}: {error}") from error
        return heads
    if policy == "leftward" or (one_tree and policy == "annotated"):
        return (*range(2, length + 1), ROOT)
    return tuple(range(length)) if policy == "rightward" else None


def _number(label: str, label_index: Mapping[str, int]) -> int:
    """Look up a label in the vocabulary."""
    try:
        return label_index[label]
    except KeyError:
        raise InputError(f"label {label!r} is not in the label vocabulary") from None


def _tabulate(gaps: NDArray[np.int8], arcs: list[_Arc]) -> Forest:
    """Arrange arcs in rows, one for each dependent."""
    arcs.sort(key=lambda arc: arc[0])
    dependents, heads, labels, intra = np.array(arcs, dtype=np.int64).reshape(-1, 4).T
    counts = np.bincount(dependents, minlength=len(gaps))
    places = np.arange(len(arcs)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = len(gaps), counts.max()
    forest = Forest(
        gaps, np.full(shape, -1), np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
    )
    for table, values in ((forest.heads, heads), (forest.labels, labels), (forest.intra, intra)):
        table[dependents, places] = values
    return forest
