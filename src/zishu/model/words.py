"""Find the words of a batch of typed trees with NumPy, all at once.

A tree is a row of heads and a row of roles, as returned by `zishu.chart`: characters connected by intra-word arcs form
a word, which is contiguous and has one root. This is assumed, so nothing is repaired; `zishu.tree.recover` does that
for trees whose words come from labels. Trees over words are the special case without intra-word arcs.

All arrays are flat: the characters (and the words) of one tree follow those of the previous one, without padding. Cost:
a few passes over the characters, and one more for each doubling of the longest chain inside a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zishu.gaps import BREAK, JOIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.chart import Floats

    Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """Hold the words of a batch of trees; t counts trees, w words, c characters.

    Usually a sentence has one tree, but k best trees of a sentence are several.
    """

    # One entry per tree: its sentence in the batch.
    sentence: Numbers
    # One entry per character: its tree, its number in the sentence (from 1), its head inside its word (also numbered
    # from 1, 0 for the root of the word), and whether a word begins with it.
    tree_of_char: Numbers
    char: Numbers
    inner_head: Numbers
    begins: NDArray[np.bool_]
    # One entry per word.
    tree: Numbers
    first_char: Numbers  # index of its first character among all characters
    start: Numbers  # half-open span of character numbers
    end: Numbers
    root: Numbers  # number of its root character
    root_head: Numbers  # head of its root character, as a character number, 0 for ROOT
    head: Numbers  # number of its head word in the sentence, from 1, 0 for ROOT
    # t + 1: the words of tree t are bounds[t]:bounds[t + 1]
    bounds: Numbers


def find_words(
    heads: Numbers, intra: NDArray[np.bool_], lengths: Numbers, sentence: Numbers | None = None
) -> Words:
    """Return the words of trees `[t, N+1]`, given the lengths of sentences and the sentence of each tree.

    Without the latter, every sentence has one tree.
    """
    if sentence is None:
        sentence = np.arange(len(lengths))
    lengths = lengths[sentence]
    places = np.arange(heads.shape[1])
    tree_of_char, char = np.nonzero((places >= 1) & (places <= lengths[:, None]))
    head, inner = heads[tree_of_char, char], intra[tree_of_char, char]
    offset = np.cumsum(lengths) - lengths  # index of each tree's first character
    place_of_head = offset[tree_of_char] + head - 1  # meaningless and unused for the child of ROOT

    # Find the top of each character's chain of intra-word arcs. Every round doubles the distance.
    top = np.where(inner, place_of_head, np.arange(len(char)))
    while ((above := top[top]) != top).any():
        top = above
    begins = np.ones(len(char), dtype=np.bool_)
    begins[1:] = (top[1:] != top[:-1]) | (char[1:] == 1)
    word_of_char = np.cumsum(begins) - 1

    first_char = np.flatnonzero(begins)
    tree, start = tree_of_char[first_char], char[first_char]
    end = start + np.diff(first_char, append=len(char))
    bounds = np.searchsorted(tree, np.arange(len(lengths) + 1))
    roots = np.flatnonzero(~inner)  # one per word, so in the order of the words
    head_word = word_of_char[np.where(head[roots] > 0, place_of_head[roots], 0)] - bounds[tree] + 1
    return Words(
        sentence,
        tree_of_char,
        char,
        inner_head=np.where(inner, head - start[word_of_char] + 1, 0),
        begins=begins,
        tree=tree,
        first_char=first_char,
        start=start,
        end=end,
        root=char[roots],
        root_head=head[roots],
        head=np.where(head[roots] > 0, head_word, 0),
        bounds=bounds,
    )


def head_spans(words: Words) -> tuple[Numbers, Numbers]:
    """Return the half-open span of characters of each word's head; for ROOT it is 0 to 1."""
    place = words.bounds[words.tree] + words.head - 1  # index of the head among all words
    below_root = words.head == 0
    return np.where(below_root, 0, words.start[place]), np.where(below_root, 1, words.end[place])


def arcs_of(words: Words, width: int) -> NDArray[np.bool_]:
    """Mark the inter-word arcs that character trees of these word trees may have, `[t, width, width]`.

    A character's head between words is any character of its word's head.
    """
    word_of_char = np.cumsum(words.begins) - 1
    start, end = (span[word_of_char, None] for span in head_spans(words))
    heads = np.arange(width)
    arcs = np.zeros((len(words.sentence), width, width), dtype=np.bool_)
    arcs[words.tree_of_char, words.char] = (start <= heads) & (heads < end)
    return arcs


def gaps_of(words: Words, width: int) -> NDArray[np.int8]:
    """Return the gaps of trees with these words as one array `[t, width]`."""
    gaps = np.full((len(words.sentence), width), BREAK, dtype=np.int8)
    # The gap before a character has the number of the preceding character.
    gaps[words.tree_of_char, words.char - 1] = np.where(words.begins, BREAK, JOIN)
    return gaps


def sum_rows(table: Floats, first: Numbers, counts: Numbers) -> NDArray[np.float64]:
    """Add up rows of a table, in double precision: `counts[k]` rows from `first[k]` on, at least one, for each k.

    Most words are short, so adding up their first rows, their second ones and so on is faster than `np.add.reduceat`.
    """
    sums: NDArray[np.float64] = table[first].astype(np.float64)
    longer = np.flatnonzero(counts > 1)
    place = 1
    while len(longer):
        sums[longer] += table[first[longer] + place]
        place += 1
        longer = longer[counts[longer] > place]
    return sums
