"""Distribute work of unequal size over the threads of a chart or the processes of a training run."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def deal(costs: Sequence[float], parts: int) -> list[list[int]]:
    """Distribute items so that all parts have about the same cost: most expensive first, each to the cheapest part.

    Returns the items of each part, in order.
    """
    dealt: list[list[int]] = [[] for _ in range(parts)]
    loads = [(0.0, part) for part in range(parts)]
    for item in sorted(range(len(costs)), key=lambda item: -costs[item]):
        load, part = loads[0]
        dealt[part].append(item)
        heapq.heapreplace(loads, (load + costs[item], part))
    return [sorted(items) for items in dealt]
