"""Compute the distribution over trees from a network's scores of arcs, with one or two roles.

A network with two roles scores arcs between words and arcs inside words separately. A network with one role scores
arcs, and its labels tell which arcs lie inside words. We derive two roles from these, so that words are always legal:

    inter(d, h) = s(d, h) + log P(label is not INTRA | d, h)
    intra(d, h) = s(d, h) + log P(label is INTRA     | d, h)

Scoring the labels of an arc costs a hundred times as much as scoring the arc. So labels are scored only if they can
matter: for arcs of up to `REACH` characters that are adjacent, or whose probability in the untyped chart (vanilla
Eisner) is at least `MATTERS`, or that lie in a run of known joins. All other arcs are between words. Adjacent arcs are
enough to build any word, so constraints on words never leave a sentence without a tree. A sentence whose words are all
given needs no labels: the same scores serve both roles (the paper's constrained algorithm).

Cost: with one role, the chart's marginals and the labels of a few arcs per character, in blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from zishu.chart import TreeDistribution
from zishu.gaps import FREE, JOIN
from zishu.model.labels import at_temperature, label_scores, log_sum_exp
from zishu.tree import INTRA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.chart import Floats
    from zishu.model.outputs import Outputs
    from zishu.model.settings import Settings

REACH: Final = 32
MATTERS: Final = 1e-6
# Number of arcs whose labels are scored at once; about ten megabytes.
BLOCK: Final = 8192


def tree_distribution(
    outputs: Outputs, lengths: NDArray[np.int64], settings: Settings, gaps: NDArray[np.int8]
) -> TreeDistribution:
    """Return the distribution over typed trees at temperature 1."""
    assert outputs.inter is not None
    inter, intra = outputs.inter, outputs.intra
    if settings.roles == 1 and settings.can.finds_structures:
        inter, intra = two_roles(outputs, lengths, settings, gaps)
    if settings.chain:
        assert intra is not None
        places = np.arange(intra.shape[1])
        intra = np.where(may_be_inside(places[:, None], places, settings), intra, -np.inf)
    return TreeDistribution(inter, lengths, intra, gaps, root_as_head=settings.root_as_head)


def may_be_inside(
    dependents: NDArray[np.int64], heads: NDArray[np.int64], settings: Settings
) -> NDArray[np.bool_]:
    """Tell which arcs a model allows inside words: all, or only those of a chain."""
    if not settings.chain:
        return np.ones(np.broadcast_shapes(dependents.shape, heads.shape), dtype=np.bool_)
    allowed: NDArray[np.bool_] = heads - dependents == (1 if settings.chain == "leftward" else -1)
    return allowed


def two_roles(
    outputs: Outputs, lengths: NDArray[np.int64], settings: Settings, gaps: NDArray[np.int8]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scores of inter-word and intra-word arcs of a network with one role."""
    assert outputs.inter is not None
    inter = np.array(outputs.inter, dtype=np.float64)
    intra = inter.copy()
    open_words = ~all_known(gaps, lengths)
    intra[open_words] = -np.inf
    sentences, dependents, heads = _arcs_that_matter(
        outputs.inter, max(1.0, settings.temperature), lengths, gaps, open_words
    )
    # The label of an arc that must not lie inside a word is certainly not INTRA: its score stays as it is.
    allowed = may_be_inside(dependents, heads, settings)
    sentences, dependents, heads = sentences[allowed], dependents[allowed], heads[allowed]
    inside = settings.labels.index(INTRA)
    for start in range(0, len(sentences), BLOCK):
        block = slice(start, start + BLOCK)
        arcs = sentences[block], dependents[block], heads[block]
        scores = label_scores(outputs, settings.labels, *arcs, may_be_intra=True)
        probabilities = at_temperature(scores, 1.0)
        intra[arcs] = inter[arcs] + probabilities[:, inside]
        # Not log(1 - P(INTRA)), which loses precision if INTRA is almost certain.
        probabilities[:, inside] = -np.inf
        inter[arcs] += log_sum_exp(probabilities)
    return inter, intra


def _arcs_that_matter(
    arcs: Floats,
    temperature: float,
    lengths: NDArray[np.int64],
    gaps: NDArray[np.int8],
    wanted: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return sentences, dependents and heads of the arcs that may be labelled INTRA, for the wanted sentences."""
    chosen = np.flatnonzero(wanted)
    if not len(chosen):
        return chosen, chosen, chosen
    trees = TreeDistribution(arcs[chosen], lengths[chosen]).at(temperature)
    probable = trees.marginals().inter >= MATTERS
    places = np.arange(arcs.shape[1])
    inside = (places >= 1) & (places <= lengths[chosen, None])
    distance = np.abs(places[:, None] - places)
    # Characters are in one run of joins if the number of other gaps before them is equal.
    run = np.zeros((len(chosen), len(places)), dtype=np.int64)
    run[:, 1:] = np.cumsum(gaps[chosen, :-1] != JOIN, axis=1)
    mask = probable | (distance == 1) | (run[:, :, None] == run[:, None, :])
    mask &= (distance >= 1) & (distance <= REACH) & inside[:, :, None] & inside[:, None, :]
    sentences, dependents, heads = np.nonzero(mask)
    return chosen[sentences], dependents, heads


def inner_gaps(shape: tuple[int, ...], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the gaps `[batch, N+1]` that lie between two characters of a sentence."""
    places = np.arange(shape[1])
    return (places >= 1) & (places < lengths[:, None])


def all_known(gaps: NDArray[np.int8], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each sentence whether none of its gaps is free."""
    some_free: NDArray[np.bool_] = ((gaps == FREE) & inner_gaps(gaps.shape, lengths)).any(axis=1)
    return ~some_free
