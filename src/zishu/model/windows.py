"""Split long sentences into overlapping windows, and choose the window that encodes each character.

This is for encoders with a limited input length. All windows are full (a shorter sentence is one window), and they
overlap by at least the given amount. Each character is taken from the window in which it is farthest from the edges.
Nothing is cut off.

A plan is a set of integer arrays, computed from the lengths alone, so that torch and ONNX Runtime follow the same one:

    plan = plan_windows(lengths, size, overlap)
    inside = encode(chars[plan.sentence[:, None], plan.position], plan.lengths)  # windows m+1 width
    encoded = inside[plan.window, plan.place]                                    # batch n+1 width

As everywhere, position 0 is the beginning of the sentence (ROOT), and characters count from 1. Every window begins with
its own position 0; the sentence uses that of the first window. Cost: linear in the characters of all windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Windows:
    """Hold the windows of a batch; w counts windows, m is the length of the longest."""

    sentence: NDArray[np.int64]  # w: the sentence of each window
    lengths: NDArray[np.int64]  # w: number of characters
    # w m+1: the position in the sentence of each position of a window; 0 after its end
    position: NDArray[np.int64]
    window: NDArray[np.int64]  # batch n+1: the window that encodes each position of a sentence
    place: NDArray[np.int64]  # batch n+1: the position inside that window; 0 after the sentence's end


def spans(length: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Return the windows of one sentence as half-open spans of characters, counted from 1."""
    if not 0 <= overlap < size:
        raise InputError(f"windows of {size} characters cannot overlap by {overlap}")
    if length <= size:
        return [(1, length + 1)]
    # The smallest number of windows, spread evenly: extra overlap is shared by all of them.
    count = -(-(length - overlap) // (size - overlap))
    starts = [1 + i * (length - size) // (count - 1) for i in range(count)]
    return [(start, start + size) for start in starts]


def plan_windows(lengths: Sequence[int] | NDArray[np.int64], size: int, overlap: int) -> Windows:
    """Split a batch of sentences into windows of at most `size` characters."""
    lengths = np.asarray(lengths, dtype=np.int64)
    cuts = [spans(int(length), size, overlap) for length in lengths]
    sentence = np.repeat(np.arange(len(lengths)), [len(cut) for cut in cuts])
    flat = np.array([span for cut in cuts for span in cut], dtype=np.int64).reshape(-1, 2)
    window_lengths = flat[:, 1] - flat[:, 0]

    step = np.arange(1 + window_lengths.max(initial=0))
    inside = (step >= 1) & (step <= window_lengths[:, None])
    position = np.where(inside, flat[:, :1] + step - 1, 0)

    window = np.zeros((len(lengths), 1 + int(lengths.max(initial=0))), dtype=np.int64)
    place = np.zeros_like(window)
    first = 0
    for b, cut in enumerate(cuts):
        window[b] = first
        # Windows have equal size, so the nearer centre means the farther edge: the border between two neighbours lies
        # in the middle of their overlap.
        borders = [(stop + start) // 2 for (_, stop), (start, _) in pairwise(cut)]
        positions = np.arange(1, lengths[b] + 1)
        chosen = np.searchsorted(borders, positions, side="right")
        window[b, positions] = first + chosen
        place[b, positions] = positions - np.array([start for start, _ in cut])[chosen] + 1
        first += len(cut)
    return Windows(sentence, window_lengths, position, window, place)
