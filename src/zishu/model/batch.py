"""Collect what decoding knows about a batch: its sentences, a network's outputs for them, constraints on their trees.

Everything is counted in units (`zishu.model.outputs`), which are characters or words. A word is a unit whose neighbours
are other words: all its gaps are BREAK, so trees over words are trees over characters with nothing inside a word.

An arc that the user has fixed (`zishu.arcs`) forbids all inter-word arcs to the dependent's characters except those from
the head's characters. The words at both ends are pinned, so each has one root character and one arc from outside: the
result is the exact distribution over trees given the arc.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from zishu.arcs import ROOT_SPAN, FixedArc
from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, JOIN
from zishu.model.scores import tree_distribution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zishu.chart import TreeDistribution
    from zishu.model.inner import InnerTrees
    from zishu.model.outputs import Outputs
    from zishu.model.settings import Settings
    from zishu.text import RawSentence


class ScoredBatch:
    """Hold sentences, a network's outputs for them, and what is known about their trees."""

    def __init__(
        self,
        outputs: Outputs,
        sentences: Sequence[RawSentence],
        settings: Settings,
        inner: InnerTrees | None = None,  # None: trees inside words are latent
    ) -> None:
        self.outputs, self.sentences, self.settings, self.inner = outputs, sentences, settings, inner
        [width] = {x.shape[1] for x in (outputs.inter, outputs.states, outputs.tags) if x is not None}
        self.arcs: Sequence[Sequence[FixedArc]] = [sentence.arcs for sentence in sentences]
        self.word_lengths: Sequence[Sequence[int]] | None = None  # characters by word, if units are words
        self.favoured: NDArray[np.float64] | None = None  # batch U+1: scores of boundaries
        if settings.can.units == "words":
            self.word_lengths = word_lengths_of(sentences)
            self.lengths = np.array(list(map(len, self.word_lengths)))
            self.gaps = np.full((len(sentences), width), BREAK, dtype=np.int8)
            self.arcs = list(map(over_words, self.arcs, self.word_lengths))
        else:
            self.lengths = lengths_of(sentences)
            self.gaps = _known_gaps(sentences, width)
            self.favoured = _favoured_boundaries(sentences, width)
        self.allowed = allowed_arcs(self.arcs, width)  # batch U+1 U+1: inter-word arcs; None: all
        if self.favoured is not None and settings.beam:
            raise InputError("a transition parser cannot weigh words: it takes a hard lexicon only")

    def pick(self, numbers: NDArray[np.int64]) -> ScoredBatch:
        """Return a batch of some of the sentences."""
        sentences = [self.sentences[b] for b in numbers.tolist()]
        return ScoredBatch(self.outputs.pick(numbers), sentences, self.settings, self.inner)

    def without_lexicon(self) -> ScoredBatch:
        """Return the batch without what a lexicon has found."""
        bare = [
            replace(sentence, gaps=sentence.gaps_without_lexicon, favoured=None)
            for sentence in self.sentences
        ]
        return ScoredBatch(self.outputs, bare, self.settings)

    def trees(self) -> TreeDistribution:
        """Return the distribution behind all answers: at the model's temperature, given all that is known.

        Favoured boundaries count in full: their scores are not divided by the temperature. A temperature does not change
        the order of trees; only sums over trees depend on it.
        """
        trees = tree_distribution(self.outputs, self.lengths, self.settings, self.gaps)
        trees = trees.at(self.settings.temperature).given(inter=self.allowed)
        return trees if self.favoured is None else trees.favouring(self.favoured)


def lengths_of(sentences: Sequence[RawSentence]) -> NDArray[np.int64]:
    """Count the characters of each sentence; raise InputError for an empty one."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    for b in np.flatnonzero(lengths == 0):
        raise InputError(f"sentence {b} is empty")
    return lengths


def word_lengths_of(sentences: Sequence[RawSentence]) -> list[list[int]]:
    """Count the characters of each word of each sentence; all words must be known."""
    lengths = []
    for sentence in sentences:
        known = sentence.word_lengths
        if known is None:
            raise InputError("a model that parses words needs all words of a sentence")
        lengths.append(known)
    return lengths


def word_spans(sentence: RawSentence, lengths: Sequence[int]) -> tuple[list[str], list[int], list[int]]:
    """Return the forms of words with these numbers of characters, and where they start and end in the text."""
    edges = list(accumulate(lengths, initial=0))
    starts = [sentence.starts[first] for first in edges[:-1]]
    ends = [sentence.ends[last - 1] for last in edges[1:]]
    text, offset = sentence.text, sentence.start
    return [text[i - offset : j - offset] for i, j in zip(starts, ends, strict=True)], starts, ends


def no_gaps(batch: int, width: int) -> NDArray[np.int8]:
    """Return gaps that are all unknown."""
    gaps = np.full((batch, width), FREE, dtype=np.int8)
    gaps[:, 0] = BREAK
    return gaps


def _known_gaps(sentences: Sequence[RawSentence], width: int) -> NDArray[np.int8]:
    """Collect the known gaps of sentences in one array `[batch, width]`, as the chart reads it."""
    gaps = no_gaps(len(sentences), width)
    for b, sentence in enumerate(sentences):
        if sentence.gaps is None:
            continue
        n = len(sentence)
        if len(sentence.gaps) < n:
            raise InputError(f"a sentence has {len(sentence.gaps)} gaps for {n} characters")
        gaps[b, 1:n] = sentence.gaps[1:n]
    if ((gaps != FREE) & (gaps != JOIN) & (gaps != BREAK)).any():
        raise InputError("a gap must be FREE, JOIN or BREAK")
    return gaps


def _favoured_boundaries(sentences: Sequence[RawSentence], width: int) -> NDArray[np.float64] | None:
    """Collect the scores of favoured boundaries in one array `[batch, width]`; None if there are none."""
    if all(sentence.favoured is None for sentence in sentences):
        return None
    scores = np.zeros((len(sentences), width))
    for row, sentence in zip(scores, sentences, strict=True):
        if sentence.favoured is not None:
            row[1 : len(sentence)] = sentence.favoured[1 : len(sentence)]
    return scores


def allowed_arcs(arcs: Sequence[Sequence[FixedArc]], width: int) -> NDArray[np.bool_] | None:
    """Mark the inter-word arcs that agree with the fixed ones, `[batch, N+1, N+1]`; None if nothing is fixed."""
    if not any(arcs):
        return None
    allowed = np.ones((len(arcs), width, width), dtype=np.bool_)
    for mask, several in zip(allowed, arcs, strict=True):
        for arc in several:
            mask[slice(*arc.dependent)] = False
            mask[slice(*arc.dependent), slice(*arc.head)] = True
    return allowed


def over_words(arcs: Sequence[FixedArc], sizes: Sequence[int]) -> tuple[FixedArc, ...]:
    """Convert arcs from character numbers to word numbers, given the number of characters of each word."""
    number = {first: k for k, first in enumerate(accumulate(sizes, initial=1), start=1)}

    def span(chars: tuple[int, int]) -> tuple[int, int]:
        return ROOT_SPAN if chars == ROOT_SPAN else (number[chars[0]], number[chars[0]] + 1)

    return tuple(FixedArc(span(arc.dependent), span(arc.head), arc.relation) for arc in arcs)
