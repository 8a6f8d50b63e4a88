"""Hold what is known about a sentence's tree: all of it, or some words, boundaries, arcs, relations and tags.

A partial tree stands for every tree that agrees with it. `zishu.forest` turns it into the arcs that a chart may use, and
training raises the total probability of these trees. Nothing is guessed: what is unknown stays open.

    gaps    one value of `zishu.gaps` for each gap between two characters
    words   head, relation and tags of words whose boundaries are known

A head is a word with known boundaries, or the root. If no tree agrees with a partial tree, creating it raises an
`InputError` that names the words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from zishu.arcs import ROOT_SPAN, check_arcs
from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, JOIN, word_gaps
from zishu.tags import COLUMNS, tags_of
from zishu.tree import ROOT, WordTree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zishu.text import RawSentence

Span = tuple[int, int]  # half-open, characters numbered from 1


@dataclass(frozen=True, slots=True)
class KnownWord:
    """Hold what is known about a word whose boundaries are known."""

    span: Span
    head: Span | None = None  # the head word; `ROOT_SPAN` for the root; None: unknown
    deprel: str | None = None  # None: unknown
    tags: Mapping[str, str] = field(default_factory=dict)  # by column, as `zishu.tags` has them


@dataclass(frozen=True, slots=True, eq=False)
class PartialTree:
    """Hold what is known about the tree of one sentence."""

    chars: tuple[str, ...]
    gaps: NDArray[np.int8]  # n + 1 values for n characters; [k] lies between k and k + 1, [0] is BREAK
    words: tuple[KnownWord, ...] = ()
    source: str = ""  # file and line, for messages

    def __post_init__(self) -> None:
        spans = {word.span for word in self.words}
        if len(spans) < len(self.words):
            raise InputError("a word is given twice")
        if len(self.gaps) != len(self.chars) + 1:
            raise InputError(f"{len(self.gaps)} gaps for {len(self.chars)} characters")
        for word in self.words:
            for span in (word.span, word.head):
                if span not in (None, ROOT_SPAN) and not self.is_word(*span):
                    raise InputError(f"the boundaries of the word {self._name(span)} are not known")
        check_arcs(
            [
                (word.span[0], None if word.head == ROOT_SPAN else word.head[0], word.deprel)
                for word in self.words
                if word.head is not None
            ]
        )

    def is_word(self, start: int, end: int) -> bool:
        """Tell whether a span of characters is known to be one word."""
        if not 1 <= start < end <= len(self.gaps):
            return False
        ends = end == len(self.gaps) or self.gaps[end - 1] == BREAK
        begins = start == 1 or self.gaps[start - 1] == BREAK
        return bool(begins and ends and (self.gaps[start : end - 1] == JOIN).all())

    def stretches(self) -> list[Span]:
        """Cut the sentence at all known boundaries."""
        n = len(self.chars)
        cuts = [1, *(k + 1 for k in range(1, n) if self.gaps[k] == BREAK), n + 1]
        return list(pairwise(cuts))

    @property
    def is_known(self) -> bool:
        """Tell whether anything is known besides the two ends of the sentence."""
        return bool(self.words) or bool((self.gaps[1 : len(self.chars)] != FREE).any())

    @property
    def is_full(self) -> bool:
        """Tell whether all words, heads and relations are known."""
        return len(self.words) == len(self.stretches()) and all(
            word.head is not None and word.deprel is not None and self.is_word(*word.span)
            for word in self.words
        )

    def form(self, span: Span) -> str:
        """Return the characters of a span as a string."""
        return "".join(self.chars[span[0] - 1 : span[1] - 1])

    def _name(self, span: Span) -> str:
        return f"{self.form(span)!r} (characters {span[0]} to {span[1] - 1})"


def known_words(tree: WordTree | PartialTree) -> tuple[KnownWord, ...]:
    """Return the words whose boundaries are known; of a complete word tree these are all of them."""
    if isinstance(tree, PartialTree):
        return tree.words
    spans = dict(enumerate(tree.spans, start=1)) | {ROOT: ROOT_SPAN}
    columns = {column: tags_of(tree, column) for column in COLUMNS}
    return tuple(
        KnownWord(
            spans[number],
            spans[head],
            deprel,
            {column: tag for column, tags in columns.items() if (tag := tags[number - 1]) is not None},
        )
        for number, (head, deprel) in enumerate(zip(tree.heads, tree.deprels, strict=True), start=1)
    )


def partial_tree(tree: WordTree, *, source: str = "") -> PartialTree:
    """Return a complete word tree as a partial tree."""
    return PartialTree(tuple(tree.chars), word_gaps(tree.lengths), known_words(tree), source)


def partial_of_raw(sentence: RawSentence, *, source: str = "") -> PartialTree:
    """Return what is known before parsing: white space, pins, breaks, words of the lexicon, arcs."""
    gaps = np.full(len(sentence) + 1, FREE, dtype=np.int8)
    if sentence.gaps is not None:
        gaps[:] = sentence.gaps
    gaps[[0, *sentence.breaks]] = BREAK
    words = tuple(KnownWord(arc.dependent, arc.head, arc.relation) for arc in sentence.arcs)
    return PartialTree(sentence.chars, gaps, words, source)
