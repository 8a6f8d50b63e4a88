"""Hold what goes into decoding and what comes out: a network's scores, gaps, analyses.

The contract between torch, ONNX Runtime and decoding. A *unit* is what the chart parses: a character (task
"parse" and "segment") or a word (task "parse-words", where a word is the mean of its characters'
encodings). A network reads

    chars    int64 [b, N+1]           position 0 stands for ROOT; padding beyond the length
    bigrams  int64 [b, N+1]           only if the encoder reads pairs of characters
    lengths  int64 [b]                characters, ROOT not counted
    pool     float32 [b, W+1, N+1]    only for "parse-words": row w averages the characters of word w

and returns the fields of `Outputs`. Labels are scored by a second network, for the arcs of the predicted tree
only; what they may be is said in `zishu.model.labels`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, JOIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zishu.model.confidence import Confidence
    from zishu.tree import WordTree

Floats = NDArray[np.float32] | NDArray[np.float64]
# n + 1 values of zishu.gaps for n characters; [k] lies between k and k+1; the first and last are unread.
Gaps = NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """What a network returns for a batch; None is what its task does not have. U counts units, ROOT is 0."""

    inter: Floats | None = None  # batch U+1 U+1, dependent first
    intra: Floats | None = None  # batch U+1 U+1; only with two roles
    label_dep: Floats | None = None  # batch U+1 100
    label_head: Floats | None = None  # batch U+1 100
    # The tag columns (`zishu.tags`): batch U+1 tags, log-probabilities
    upos: Floats | None = None
    xpos: Floats | None = None
    feats: Floats | None = None
    lemma: Floats | None = None
    tags: Floats | None = None  # batch N+1 4; only of a segmenter

    @classmethod
    def from_mapping(cls, arrays: Mapping[str, Any]) -> Outputs:
        """Take the outputs that a network returned by name."""
        return cls(**{name: np.asarray(array) for name, array in arrays.items()})

    def pick(self, sentences: NDArray[np.int64]) -> Outputs:
        """Return the outputs of some sentences."""
        arrays = (getattr(self, field.name) for field in fields(self))
        return Outputs(*(None if array is None else array[sentences] for array in arrays))


@dataclass(frozen=True, slots=True)
class Analysis:
    """The tree of one sentence."""

    tree: WordTree
    # Each word's inner tree, numbered from 1 in the word, 0 = root; None if the parser sees words only.
    char_heads: tuple[tuple[int, ...], ...] | None
    repairs: int = 0  # arcs whose label had to change to make the tree legal
    confidence: Confidence | None = None  # None if it was not asked for


def word_gaps(lengths: Sequence[int]) -> Gaps:
    """Return the gaps of a sentence whose words have these numbers of characters."""
    gaps = np.full(sum(lengths) + 1, JOIN, dtype=np.int8)
    gaps[0] = BREAK
    gaps[np.cumsum(lengths)] = BREAK
    return gaps


def join(chars: Sequence[str], lengths: Sequence[int]) -> tuple[str, ...]:
    """Join characters to words of the given numbers of characters."""
    ends = np.cumsum(lengths).tolist()
    return tuple("".join(chars[end - size : end]) for end, size in zip(ends, lengths, strict=True))


def check_gaps(lengths: Sequence[int], gaps: Sequence[Gaps | None] | None) -> None:
    """Refuse gaps that do not fit their sentences, or say what no gap can be."""
    if gaps is None:
        return
    if len(gaps) != len(lengths):
        raise InputError(f"gaps for {len(gaps)} sentences, but there are {len(lengths)}")
    for b, (known, n) in enumerate(zip(gaps, lengths, strict=True)):
        if known is None:
            continue
        if len(known) < n:
            raise InputError(f"sentence {b}: {len(known)} gaps for {n} characters")
        if not np.isin(known[1:n], (FREE, JOIN, BREAK)).all():
            raise InputError(f"sentence {b}: a gap is none of FREE, JOIN and BREAK")


def lengths_of(units: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Count the units of each sentence; an empty one is refused."""
    lengths = np.array([len(sentence) for sentence in units], dtype=np.int64)
    for b in np.flatnonzero(lengths == 0):
        raise InputError(f"sentence {b} is empty")
    return lengths
