"""Find the words of a batch of typed trees with NumPy, all at once.

A tree here is a row of heads and a row of roles, as `zishu.chart` returns them: the characters that intra-word
arcs connect are a word, contiguous and with one root. That is taken for granted, so nothing is repaired;
`zishu.tree.recover` does that for trees whose words come from labels. Trees of words are the special case
without intra-word arcs.

Everything is flat: the characters (and the words) of one tree follow those of the one before, without padding.
Cost: a few passes over the characters, and one more for each doubling of the longest chain inside a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zishu.gaps import BREAK, JOIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of a batch of trees; t counts trees, w words, c characters."""

    # One for each character: its tree, its number in the sentence (from 1), its head inside its word, also
    # numbered from 1, 0 for the root of the word; and whether a word begins with it.
    tree_of_char: Numbers
    char: Numbers
    inner_head: Numbers
    begins: NDArray[np.bool_]
    # One for each word.
    tree: Numbers
    first_char: Numbers  # its first character's place among all characters
    start: Numbers  # half-open span of character numbers
    end: Numbers
    root: Numbers  # the number of its root character
    root_head: Numbers  # the head of its root character, a character of the sentence, 0 for ROOT
    head: Numbers  # the number of its head in the sentence, from 1, 0 for ROOT
    # t + 1: the words of tree t are bounds[t]:bounds[t + 1]
    bounds: Numbers


def find_words(heads: Numbers, intra: NDArray[np.bool_], lengths: Numbers) -> Words:
    """Return the words of trees `[t, N+1]`."""
    places = np.arange(heads.shape[1])
    tree_of_char, char = np.nonzero((places >= 1) & (places <= lengths[:, None]))
    head, inner = heads[tree_of_char, char], intra[tree_of_char, char]
    offset = np.cumsum(lengths) - lengths  # the place of each tree's first character
    place_of_head = offset[tree_of_char] + head - 1  # of no use for the child of ROOT, and not used

    # Who is at the top of a character's chain of intra-word arcs? Every round doubles how far one looks.
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
    roots = np.flatnonzero(~inner)  # one in each word, hence in the order of the words
    head_word = word_of_char[np.where(head[roots] > 0, place_of_head[roots], 0)] - bounds[tree] + 1
    return Words(
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
    """Return the half-open span of characters of each word's head; that of ROOT is 0 to 1."""
    place = words.bounds[words.tree] + words.head - 1  # of the head among all words
    below_root = words.head == 0
    return np.where(below_root, 0, words.start[place]), np.where(below_root, 1, words.end[place])


def arcs_of(words: Words, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Mark the arcs between words that character trees of these word trees may have, `[t, N+1, N+1]`.

    A character's head between words is one of the characters of its word's head.
    """
    word_of_char = np.cumsum(words.begins) - 1
    start, end = (span[word_of_char, None] for span in head_spans(words))
    heads = np.arange(shape[2])
    arcs = np.zeros(shape, dtype=np.bool_)
    arcs[words.tree_of_char, words.char] = (start <= heads) & (heads < end)
    return arcs


def gaps_of(words: Words, shape: tuple[int, ...]) -> NDArray[np.int8]:
    """Return the gaps of trees with these words as one array `[t, N+1]`."""
    gaps = np.full(shape, BREAK, dtype=np.int8)
    # The gap before a character has the number of the character before it.
    gaps[words.tree_of_char, words.char - 1] = np.where(words.begins, BREAK, JOIN)
    return gaps
