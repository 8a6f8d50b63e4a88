"""Define what a network returns for a batch: the contract between torch, ONNX Runtime and decoding.

A *unit* is what the chart parses: a character (tasks "parse" and "segment") or a word (task "parse-words", where a word
is the mean of its characters' encodings). A network reads

    chars    int64 [b, N+1]           position 0 is ROOT; padding beyond the length
    bigrams  int64 [b, N+1]           only if the encoder reads bigrams
    lengths  int64 [b]                number of characters without ROOT
    pool     float32 [b, W+1, N+1]    only for "parse-words": row w averages the characters of word w

and returns the arrays of `Outputs`. A second network scores labels, only for the arcs that somebody asks for
(`Outputs.labels`); `zishu.model.labels` defines which labels are legal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zishu.chart import Floats

    Numbers = NDArray[np.int64]

# The sentences, dependents and heads of m arcs -> the log-probabilities [m, labels] of their labels.
LabelScorer = Callable[["Numbers", "Numbers", "Numbers"], "Floats"]


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """Hold a network's outputs for a batch; None for those its task does not have. U counts units, ROOT is 0."""

    inter: Floats | None = None  # batch U+1 U+1, dependent first
    intra: Floats | None = None  # batch U+1 U+1; only with two roles
    # What the label network reads about the two ends of an arc: batch U+1 width
    label_dep: Floats | None = None
    label_head: Floats | None = None
    # The tag columns (`zishu.tags`): batch U+1 tags, log-probabilities
    upos: Floats | None = None
    xpos: Floats | None = None
    feats: Floats | None = None
    lemma: Floats | None = None
    tags: Floats | None = None  # batch N+1 4; only for a segmenter
    # batch N+1 width, from the encoder; only if the model has a structure scorer
    encoded: Floats | None = None
    states: Floats | None = None  # batch U+1 (positions x width); only for a transition parser
    labels: LabelScorer | None = None

    @classmethod
    def from_mapping(cls, arrays: Mapping[str, Any]) -> Outputs:
        """Build from a network's outputs by name."""
        found: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
        return cls(**found)

    def with_labels(self, score_ends: Callable[[Floats, Floats], Floats]) -> Outputs:
        """Return outputs with labels from a network that reads the dependents' ends and the heads' ends of arcs."""

        def labels(sentences: Numbers, dependents: Numbers, heads: Numbers) -> Floats:
            assert self.label_dep is not None
            assert self.label_head is not None
            return score_ends(self.label_dep[sentences, dependents], self.label_head[sentences, heads])

        return replace(self, labels=labels)

    def pick(self, sentences: Numbers) -> Outputs:
        """Return the outputs of some sentences."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "labels"}
        picked = {name: None if array is None else array[sentences] for name, array in arrays.items()}
        score = self.labels
        return Outputs(**picked, labels=score and (lambda b, *arc: score(sentences[b], *arc)))
