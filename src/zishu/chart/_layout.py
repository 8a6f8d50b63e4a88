"""Name what the kernels and their callers share: tasks, roles, the planes of a chart, the arrays of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEG_INF = -np.inf

# Constants that kernels pass to functions are NumPy integers. Numba would compile the functions again for Python integers.

# Tasks of `run`.
PARTITION, MARGINALS, BOUNDARIES, BEST, SAMPLE, CHART = range(6)
OUTSIDE_TASKS = (MARGINALS, BOUNDARIES)

# Roles of arcs, in arrays of scores and probabilities.
INTER, INTRA = np.arange(2)

# Planes of a chart. VALUES holds scores, or weights in the semiring PLAIN, by [role][dependent, head], and VECTORS rows of
# what is known about characters and gaps. ENDS tells by [head, far end] which spans of a sparse chart can have a value. All
# others are by [width, left end]. LIVE tells which blocks of spans can have a value. Complete spans (t and a), links and
# outside values have one plane for each role and side, c has one for each side. A left part is t or a to the right, times
# the score of the gap behind it. A split is the sum over k of a link; only its outside value is kept.
VALUES, VECTORS, ENDS, LIVE = np.array([0, 2, 3, 4])
SPANS, LINKS, C, LEFT_PARTS, OUTSIDE, SPLITS = np.array([5, 9, 13, 15, 17, 21])
PLANES_INSIDE, PLANES = np.array([17, 23])

LANES = 8  # the number of spans that are computed together


class Batch(NamedTuple):
    """Hold the sentences of a batch, as prepared by `prepare`."""

    # batch roles dependents heads: inter-word first, then intra-word if the chart is typed
    scores: NDArray[np.float64]
    gaps: NDArray[np.int8]  # batch N+1; BREAK at 0 and from the length on
    lengths: NDArray[np.int64]  # batch
    # batch 2 N+1, or empty: added if an arc of this role owns the gap; at most 0
    gap_scores: NDArray[np.float64]
    allowed: NDArray[np.int64]  # batch; how many arcs are not forbidden
    root_as_head: bool
    # batch; what is missing in the score of every tree, because scores were shifted
    offset: NDArray[np.float64]


class Answers(NamedTuple):
    """Hold the results of `run`; arrays that a task does not fill may be empty."""

    value: NDArray[np.float64]  # batch; log Z, or the best score
    arcs: NDArray[Any]  # batch roles dependents heads; probabilities
    boundary: NDArray[Any]  # batch N+1; probabilities
    heads: NDArray[np.int64]  # batch trees N+1
    intra: NDArray[np.bool_]  # batch trees N+1
