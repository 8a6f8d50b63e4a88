"""Condition on arcs that the user has fixed (`zishu.arcs`).

The words at both ends are pinned, so each has one root character and one arc from outside. An arc is fixed by
forbidding all inter-word arcs to the dependent's characters except those from the head's characters. The result is the
exact distribution over trees given the arc. A fixed relation has probability 1 and does not influence the tree.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from zishu.arcs import ROOT_SPAN, FixedArc
from zishu.errors import InputError
from zishu.model.labels import legal_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zishu.model.words import Words


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


def fix_relations(
    scores: NDArray[np.float64],
    arcs: Sequence[Sequence[FixedArc]],
    labels: Sequence[str],
    sentences: NDArray[np.int64],
    words: Words,
) -> None:
    """Make fixed relations certain in the log-probabilities `[w, labels]` of the words' relations, in place.

    Tree t of `words` belongs to sentence `sentences[t]`.
    """
    number = {label: k for k, label in enumerate(labels)}
    for t, b in enumerate(sentences.tolist()):
        for arc in arcs[b]:
            if arc.relation is not None:
                mine = words.start[words.bounds[t] : words.bounds[t + 1]]
                row = words.bounds[t] + np.searchsorted(mine, arc.dependent[0])
                scores[row] = -np.inf
                scores[row, number[arc.relation]] = 0.0


def check_relations(arcs: Sequence[Sequence[FixedArc]], labels: Sequence[str]) -> None:
    """Reject fixed relations that the model does not know or that are not legal there."""
    below_root, between_words, _ = legal_labels(tuple(labels))
    for arc in (arc for several in arcs for arc in several if arc.relation is not None):
        below = arc.head == ROOT_SPAN
        legal = [
            name for name, fits in zip(labels, below_root if below else between_words, strict=True) if fits
        ]
        if arc.relation not in legal:
            place = "the root" if below else "a word"
            raise InputError(
                f"unknown relation {arc.relation!r} to {place}: this model has {', '.join(legal)}"
            )


def over_words(arcs: Sequence[FixedArc], sizes: Sequence[int]) -> tuple[FixedArc, ...]:
    """Convert arcs from character numbers to word numbers, given the number of characters of each word."""
    number = {first: k for k, first in enumerate(accumulate(sizes, initial=1), start=1)}

    def span(chars: tuple[int, int]) -> tuple[int, int]:
        return ROOT_SPAN if chars == ROOT_SPAN else (number[chars[0]], number[chars[0]] + 1)

    return tuple(FixedArc(span(arc.dependent), span(arc.head), arc.relation) for arc in arcs)
