"""Average a number over the seeds of a system."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Average:
    """The values of one number, one for each seed, at least one."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Return the standard deviation of the sample; None of a single seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def as_dict(self) -> dict[str, Any]:
        """Return mean, standard deviation and values as plain objects."""
        return {"mean": self.mean, "std": self.std, "seeds": list(self.values)}
