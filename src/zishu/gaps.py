"""Define the constraints on the gap between two characters.

Take characters 1..n with ROOT at 0; gap k lies between k and k+1. In Eisner's algorithm every arc has one split point,
and in a projective tree every gap is the split point of exactly one arc. With two kinds of arc, intra-word and
inter-word, a gap lies inside a word exactly if the arc that owns it is intra-word. So one value per gap is enough to
describe a segmentation: an intra-word arc may split at any gap that is not BREAK, an inter-word arc at any gap that is
not JOIN.

Gap 0, between ROOT and the first character, is always BREAK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

FREE: Final = 0  # unknown: the gap may lie inside a word or between two
JOIN: Final = 1  # both sides belong to one word
BREAK: Final = 2  # a word ends here


def word_gaps(lengths: Sequence[int]) -> NDArray[np.int8]:
    """Return the gaps of a sentence whose words have these numbers of characters."""
    import numpy as np  # imported here, because documents need only the values

    gaps = np.full(sum(lengths) + 1, JOIN, dtype=np.int8)
    gaps[[0, *np.cumsum(lengths)]] = BREAK
    return gaps
