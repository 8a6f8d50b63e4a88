"""Define the input of decoding: a network's scores, and the known gaps of a batch.

This is the contract between torch, ONNX Runtime and decoding. A *unit* is what the chart parses: a character (tasks
"parse" and "segment") or a word (task "parse-words", where a word is the mean of its characters' encodings). A network
reads

    chars    int64 [b, N+1]           position 0 is ROOT; padding beyond the length
    bigrams  int64 [b, N+1]           only if the encoder reads bigrams
    lengths  int64 [b]                number of characters without ROOT
    pool     float32 [b, W+1, N+1]    only for "parse-words": row w averages the characters of word w

and returns the fields of `Outputs`. A second network scores labels, only for the arcs of the predicted tree;
`zishu.model.labels` defines which labels are legal.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, JOIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zishu.chart import Floats
    from zishu.text import RawSentence


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """Hold a network's outputs for a batch; None for those its task does not have. U counts units, ROOT is 0."""

    inter: Floats | None = None  # batch U+1 U+1, dependent first
    intra: Floats | None = None  # batch U+1 U+1; only with two roles
    label_dep: Floats | None = None  # batch U+1 100
    label_head: Floats | None = None  # batch U+1 100
    # The tag columns (`zishu.tags`): batch U+1 tags, log-probabilities
    upos: Floats | None = None
    xpos: Floats | None = None
    feats: Floats | None = None
    lemma: Floats | None = None
    tags: Floats | None = None  # batch N+1 4; only for a segmenter
    # batch N+1 width, from the encoder; only if the model has a structure scorer
    encoded: Floats | None = None
    states: Floats | None = None  # batch U+1 (positions x width); only for a transition parser

    @classmethod
    def from_mapping(cls, arrays: Mapping[str, Any]) -> Outputs:
        """Build from a network's outputs by name."""
        return cls(**{name: np.asarray(array) for name, array in arrays.items()})

    def pick(self, sentences: NDArray[np.int64]) -> Outputs:
        """Return the outputs of some sentences."""
        arrays = (getattr(self, field.name) for field in fields(self))
        return Outputs(*(None if array is None else array[sentences] for array in arrays))


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


def known_gaps(sentences: Sequence[RawSentence], width: int) -> NDArray[np.int8]:
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


def favoured_boundaries(sentences: Sequence[RawSentence], width: int) -> NDArray[np.float64] | None:
    """Collect the scores of favoured boundaries in one array `[batch, width]`; None if there are none."""
    if all(sentence.favoured is None for sentence in sentences):
        return None
    scores = np.zeros((len(sentences), width))
    for row, sentence in zip(scores, sentences, strict=True):
        if sentence.favoured is not None:
            row[1 : len(sentence)] = sentence.favoured[1 : len(sentence)]
    return scores


def no_gaps(batch: int, width: int) -> NDArray[np.int8]:
    """Return gaps that are all unknown."""
    gaps = np.full((batch, width), FREE, dtype=np.int8)
    gaps[:, 0] = BREAK
    return gaps
