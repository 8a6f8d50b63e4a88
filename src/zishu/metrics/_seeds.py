"""Average scores over the seeds of a system."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Average:
    """Hold the values of one number, one for each seed; at least one."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        """Return the sample standard deviation, or None if there is only one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def as_dict(self) -> dict[str, Any]:
        """Return mean, standard deviation and values as plain objects."""
        return {"mean": self.mean, "std": self.sd, "seeds": list(self.values)}


def average_seeds(scores: Sequence[Mapping[str, float]]) -> dict[str, Average]:
    """Average every score that all seeds have, in the order of the first seed."""
    common = [name for name in (scores[0] if scores else ()) if all(name in one for one in scores)]
    return {name: Average(tuple(one[name] for one in scores)) for name in common}
