"""Run the networks of a parser: a batch of sentences in, scores out.

A parser has one set of `Networks`, or those of several parsers as an `Ensemble`. The trees of a model have the
probabilities

    P(tree) = exp(score(tree)) / Z

so the mean of several models' scores is, up to 1/Z, the geometric mean of their probabilities. An ensemble is therefore
a model itself, and the chart sums and searches its scores exactly. Its members must have the same task, roles and
labels (`check_members`).

A member's score of a label or tag is its log-probability, so labels and tags are averaged in the same way.

Cost: one run of the networks; for an ensemble, one run of each member.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from zishu.errors import InputError
from zishu.model.features import features, length_batches, pooling
from zishu.model.outputs import Outputs
from zishu.model.windows import plan_windows
from zishu.tags import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zishu.chart import Floats
    from zishu.model.inner import StructureScorer
    from zishu.model.sessions import Session
    from zishu.model.settings import Settings
    from zishu.model.vocabulary import Vocabulary

    Sentences = Sequence[Sequence[str]]

# Fields of `Settings` that the members of an ensemble must share.
COMMON = (
    *("task", "roles", "root_as_head", "chain", "release_recovery", "labels"),
    *(*COLUMNS, "absent_tags", "styles"),
)
# Fields of `Outputs` that the label scorer reads.
LABEL_ENDS = ("label_dep", "label_head")
# Characters that an encoder reads at once, including padding: enough to keep the cores busy, few enough for the caches.
ENCODED_CHARS: Final = 1000
ENCODED_PADDING: Final = 80  # a call of the encoder costs about as much as this many characters
# Arcs whose labels are scored at once, for the same reason.
LABELLED_ARCS: Final = 128


class Scorer(Protocol):
    """Define what a parser needs from its networks."""

    def run(self, sentences: Sentences, word_lengths: Sequence[Sequence[int]] | None = None) -> Outputs:
        """Return the scores of one batch; a word-level parser needs `word_lengths`."""

    def in_style(self, number: int) -> Scorer:
        """Return the same networks for the style with this number."""

    @property
    def structures(self) -> StructureScorer | None:
        """Return the structure scorer, None if there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """Hold the networks of one model, and its vocabulary."""

    settings: Settings
    chars: Vocabulary
    bigrams: Vocabulary | None
    encoder: Session
    scorer: Session
    labels: Session | None  # None for a segmenter
    structures: StructureScorer | None = None  # None: the model has no structure scorer
    style: int | None = None  # number of the style to parse in; None if the model has no styles

    def run(self, sentences: Sentences, word_lengths: Sequence[Sequence[int]] | None = None) -> Outputs:
        """Return the scores of one batch; a word-level parser needs `word_lengths`."""
        encoded = self.encode(features(sentences, self.chars, self.bigrams, self.style))
        outputs = self.score(encoded, word_lengths, without=self.settings.absent(self.style))
        outputs = outputs.with_labels(self.score_labels)
        return outputs if self.structures is None else replace(outputs, encoded=encoded)

    def encode(self, arrays: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        """Encode a batch of sentences in numbers (see `features`), as many at a time as the caches hold."""
        batches = length_batches(arrays["lengths"].tolist(), ENCODED_CHARS, padding=ENCODED_PADDING)
        if len(batches) == 1:
            return self._encode(arrays)
        encoded: NDArray[np.float32] = np.empty(0, dtype=np.float32)
        for rows in batches:
            width = int(arrays["lengths"][rows].max()) + 1
            part = {
                name: array[rows, :width] if array.ndim == 2 else array[rows]
                for name, array in arrays.items()
            }
            found = self._encode(part)
            if not encoded.size:
                encoded = np.zeros((*arrays["chars"].shape, found.shape[2]), dtype=np.float32)
            encoded[rows, :width] = found
        return encoded

    def _encode(self, arrays: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        """Run the encoder, for long sentences on overlapping windows."""
        encoded: NDArray[np.float32]
        size, lengths = self.settings.window, arrays["lengths"]
        if not size or lengths.max() <= size:
            [encoded] = self.encoder.run(["encoded"], arrays)
            return encoded
        plan = plan_windows(lengths, size, self.settings.window_overlap)
        windows = {
            name: array[plan.sentence] if name == "styles" else array[plan.sentence[:, None], plan.position]
            for name, array in arrays.items()
            if name != "lengths"
        }
        [encoded] = self.encoder.run(["encoded"], {**windows, "lengths": plan.lengths})
        return encoded[plan.window, plan.place]

    def score(
        self,
        encoded: NDArray[np.float32],
        word_lengths: Sequence[Sequence[int]] | None = None,
        *,
        without: Sequence[str] = (),
    ) -> Outputs:
        """Return the scores of an encoded batch, except the outputs in `without`."""
        inputs = {"encoded": encoded}
        if word_lengths is not None:
            inputs["pool"] = pooling(word_lengths)
        names = [name for name in self.scorer.outputs if name not in without]
        found = dict(zip(names, self.scorer.run(names, inputs), strict=True))
        for name, array in found.items():
            # The label network passes on what is wrong with its inputs.
            if name not in LABEL_ENDS:
                self._check(array)
        return Outputs.from_mapping(found)

    def _check(self, scores: Floats) -> None:
        """Reject scores that no chart can use; a network may return them for some texts only."""
        # The sum is faster than the maximum, but -inf is allowed. The maximum is NaN if any value is.
        with np.errstate(all="ignore"):
            total = scores.sum()
        if not np.isfinite(total) and not scores.max() < np.inf:
            name = self.settings.name or "without a name"
            raise InputError(f"the model {name!r} returns scores that are not finite numbers")

    def score_labels(self, dependents: Floats, heads: Floats) -> Floats:
        """Return the log-probabilities `[m, labels]` of the labels of m arcs, given what the scorer says of their ends."""
        assert self.labels is not None
        parts = []
        for start in range(0, max(1, len(heads)), LABELLED_ARCS):
            part = slice(start, start + LABELLED_ARCS)
            parts += self.labels.run(["labels"], {"dep": dependents[part], "head": heads[part]})
        scored: Floats = np.concatenate(parts)
        self._check(scored)
        return scored

    def in_style(self, number: int) -> Networks:
        """Return the same networks for the style with this number."""
        return replace(self, style=number)


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Combine several parsers into one by averaging their scores."""

    members: Sequence[Networks]

    def run(self, sentences: Sentences, word_lengths: Sequence[Sequence[int]] | None = None) -> Outputs:
        """Return the mean scores of one batch."""
        outputs = [member.run(sentences, word_lengths) for member in self.members]
        means = {
            name: _mean([getattr(output, name) for output in outputs])
            for name in ("inter", "intra", *COLUMNS)
            if getattr(outputs[0], name) is not None
        }
        scorers = [output.labels for output in outputs if output.labels is not None]
        # The trees inside words are the first member's.
        return Outputs(
            **means,
            encoded=outputs[0].encoded,
            labels=lambda *arcs: _mean([score(*arcs) for score in scorers]),
        )

    @property
    def structures(self) -> StructureScorer | None:
        """Return the structure scorer of the first member."""
        return self.members[0].structures

    def in_style(self, number: int) -> Ensemble:
        """Return the same members for the style with this number."""
        return Ensemble([member.in_style(number) for member in self.members])


def check_members(members: Sequence[Settings]) -> None:
    """Reject models that cannot form an ensemble."""
    if len(members) < 2:
        raise InputError("an ensemble needs at least two members")
    first = members[0]
    if first.beam:
        raise InputError("an ensemble cannot average transition parsers, which have no tree scores")
    if not first.can.parses or first.can.of_models:
        raise InputError(f"an ensemble needs parsers, not models for the task {first.task!r}")
    for number, member in enumerate(members[1:], 2):
        for name in COMMON:
            if getattr(member, name) != getattr(first, name):
                raise InputError(f"members 1 and {number} of an ensemble differ in {name!r}")


def _mean(scores: Sequence[Floats]) -> Floats:
    mean: Floats = sum(scores[1:], start=scores[0]) / np.float32(len(scores))
    return mean
