"""Ask the chart: the scores of a batch in one or two roles, and what is known of its words.

A network with two roles scores arcs between words and arcs inside words by itself. One with one role scores arcs,
and its labels say which of them lie inside words. For the chart, which always yields legal words, these are two
roles as well:

    inter(d, h) = s(d, h) + log P(label is not INTRA | d, h)
    intra(d, h) = s(d, h) + log P(label is INTRA     | d, h)

Labels are dear (a hundred times an arc's score), so they are looked at only where they can matter: for arcs of
up to `REACH` characters that are adjacent, or whose probability in the untyped chart (vanilla Eisner) is at least
`MATTERS`, or that lie in a run of known joins. All other arcs are between words. Adjacent arcs are enough to
build any word, so no knowledge about words can leave a sentence without a tree. A sentence whose words are all
given needs no labels: the same scores serve both roles (the paper's constrained algorithm).

Cost: with one role that of the chart's marginals, and of the labels of a few arcs a character, in blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from zishu import chart
from zishu.gaps import BREAK, FREE, JOIN
from zishu.model.labels import label_probabilities, log_sum_exp
from zishu.tree import INTRA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.model.labels import LabelScorer
    from zishu.model.outputs import Floats, Outputs
    from zishu.model.settings import Settings

REACH: Final = 32
MATTERS: Final = 1e-6
# Arcs whose labels are scored at once: some ten megabytes.
BLOCK: Final = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """What the chart is asked about a batch of sentences."""

    inter: Floats  # batch N+1 N+1
    lengths: NDArray[np.int64]  # batch
    intra: Floats | None = None  # batch N+1 N+1; None: the chart has one role and knows no words
    gaps: NDArray[np.int8] | None = None  # batch N+1
    root_as_head: bool = True

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Tell for each sentence whether all its gaps are known."""
        if self.gaps is None:
            return np.zeros(len(self.lengths), dtype=np.bool_)
        return all_known(self.gaps, self.lengths)

    def pick(self, sentences: NDArray[np.int64]) -> Scores:
        """Return the scores of some sentences, any of them as often as it is named."""
        if np.array_equal(sentences, np.arange(len(self.lengths))):
            return self
        # Padding that was needed for the others goes.
        width = 1 + int(self.lengths[sentences].max(initial=1))
        return Scores(
            self.inter[sentences, :width, :width],
            self.lengths[sentences],
            None if self.intra is None else self.intra[sentences, :width, :width],
            None if self.gaps is None else self.gaps[sentences, :width],
            self.root_as_head,
        )

    def given(self, gaps: NDArray[np.int8]) -> Scores:
        """Return the same scores with other gaps, all known; one score serves both roles if there is one only."""
        intra = self.inter if self.intra is None else self.intra
        return Scores(self.inter, self.lengths, intra, gaps, self.root_as_head)

    def at(self, temperature: float) -> Scores:
        """Return the scores of the distribution at a temperature: P(tree)^(1 / temperature), made to sum to 1."""
        if temperature == 1.0:
            return self
        divisor = self.inter.dtype.type(temperature)
        intra = None if self.intra is None else self.intra / divisor
        return replace(self, inter=self.inter / divisor, intra=intra)

    def log_partition(self) -> NDArray[np.float64]:
        """Return the logarithm of the sum over all trees of each sentence."""
        return chart.log_partition(
            self.inter, self.lengths, self.intra, self.gaps, root_as_head=self.root_as_head
        )

    def best_tree(self) -> chart.Trees:
        """Return the best tree of each sentence."""
        return chart.best_tree(
            self.inter, self.lengths, self.intra, self.gaps, root_as_head=self.root_as_head
        )

    def marginals(self) -> chart.Marginals:
        """Return the probabilities of arcs and boundaries."""
        return chart.marginals(
            self.inter, self.lengths, self.intra, self.gaps, root_as_head=self.root_as_head
        )

    def k_best(self, k: int) -> list[chart.Trees]:
        """Return the k best trees of each sentence."""
        return chart.k_best(
            self.inter, self.lengths, self.intra, self.gaps, k=k, root_as_head=self.root_as_head
        )


def unit_scores(
    outputs: Outputs,
    lengths: NDArray[np.int64],
    settings: Settings,
    label_scorer: LabelScorer,
    gaps: NDArray[np.int8],
) -> Scores:
    """Return the scores of arcs between words, or between characters in two roles, whichever number the network has."""
    assert outputs.inter is not None
    if settings.task == "parse-words":
        return Scores(outputs.inter, lengths)
    if settings.roles == 2:
        return Scores(outputs.inter, lengths, outputs.intra, gaps, settings.root_as_head)
    inter = np.array(outputs.inter, dtype=np.float64)
    intra = inter.copy()
    open_words = ~all_known(gaps, lengths)
    intra[open_words] = -np.inf
    sentences, dependents, heads = _arcs_that_matter(
        outputs.inter / max(1.0, settings.temperature), lengths, gaps, open_words
    )
    inside = settings.labels.index(INTRA)
    for start in range(0, len(sentences), BLOCK):
        block = slice(start, start + BLOCK)
        arcs = sentences[block], dependents[block], heads[block]
        probabilities = label_probabilities(outputs, settings.labels, label_scorer, *arcs, may_be_intra=True)
        intra[arcs] = inter[arcs] + probabilities[:, inside]
        # Not log(1 - P(INTRA)), which rounding would ruin where INTRA is almost certain.
        probabilities[:, inside] = -np.inf
        inter[arcs] += log_sum_exp(probabilities)
    return Scores(inter, lengths, intra, gaps, settings.root_as_head)


def _arcs_that_matter(
    arcs: Floats, lengths: NDArray[np.int64], gaps: NDArray[np.int8], wanted: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return sentences, dependents and heads of the arcs whose labels may say INTRA, of the wanted sentences."""
    chosen = np.flatnonzero(wanted)
    if not len(chosen):
        return chosen, chosen, chosen
    probable = chart.marginals(arcs[chosen], lengths[chosen]).inter >= MATTERS
    places = np.arange(arcs.shape[1])
    inside = (places >= 1) & (places <= lengths[chosen, None])
    distance = np.abs(places[:, None] - places)
    # Characters are in one run of joins if the number of other gaps before them is the same.
    run = np.zeros((len(chosen), len(places)), dtype=np.int64)
    run[:, 1:] = np.cumsum(gaps[chosen, :-1] != JOIN, axis=1)
    mask = probable | (distance == 1) | (run[:, :, None] == run[:, None, :])
    mask &= (distance >= 1) & (distance <= REACH) & inside[:, :, None] & inside[:, None, :]
    sentences, dependents, heads = np.nonzero(mask)
    return chosen[sentences], dependents, heads


def inner_gaps(shape: tuple[int, ...], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which of the gaps `[batch, N+1]` lie between two characters of a sentence."""
    places = np.arange(shape[1])
    return (places >= 1) & (places < lengths[:, None])


def all_known(gaps: NDArray[np.int8], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each sentence whether none of its gaps is free."""
    some_free: NDArray[np.bool_] = ((gaps == FREE) & inner_gaps(gaps.shape, lengths)).any(axis=1)
    return ~some_free


def no_gaps(batch: int, width: int) -> NDArray[np.int8]:
    """Return gaps of which nothing is known."""
    gaps = np.full((batch, width), FREE, dtype=np.int8)
    gaps[:, 0] = BREAK
    return gaps
