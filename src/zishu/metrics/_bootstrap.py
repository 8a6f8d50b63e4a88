"""Compare systems with the paired bootstrap: resample sentences, and optionally seeds.

A system is one evaluation, or one evaluation per seed; its score is then the mean over seeds. Each sample draws as many
sentences as there are, with replacement, and scores all seeds of all systems on the same draw. The test therefore
generalises to other sentences of the same kind, parsed by the same trained models. It does not generalise to other
seeds; the standard deviation over seeds shows how much those differ.

With `draw_seeds` the test also generalises to models trained with other seeds. Each sample then also draws seeds with
replacement, independently for each system, and one fewer than the system has. The reason: the mean of k values drawn
from n has the variance sample variance times (n - 1) / (n k). With k = n - 1 this is the variance of a mean over n
seeds; k = n would underestimate it, by half for two seeds.

The p-value is two-sided. Under the null hypothesis "no difference", the observed difference d would vary as the
resampled differences D vary around d:

    p = (1 + #{|D - d| >= |d|}) / (1 + samples)

Identical systems have p = 1; the smallest p is 1 / (1 + samples). Swapping the systems flips the sign of the
difference; p changes only if seeds are drawn, by chance. Cost: samples * sentences, shared by all comparisons of one
call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from zishu.errors import InputError
from zishu.metrics._counts import Count
from zishu.metrics._scores import Evaluation, columns, f1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Seeds = Evaluation | Sequence[Evaluation]

# Maximum number of entries in a matrix of draws (16 MB).
_DRAWS = 2**21


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Hold a comparison of two systems in per cent: `difference = b - a` and its confidence interval."""

    metric: str
    a: float
    b: float
    difference: float
    low: float
    high: float
    p_value: float
    p_corrected: float  # for the number of comparisons that were made together, by `holm`
    samples: int


def bootstrap(
    a: Seeds,
    b: Seeds,
    metric: str,
    *,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
    draw_seeds: bool = False,
) -> Bootstrap:
    """Compare two systems on the same gold sentences; the interval is made of percentiles of the differences."""
    (result,) = bootstrap_all(
        [(a, b, metric)], samples=samples, seed=seed, confidence=confidence, draw_seeds=draw_seeds
    )
    return result


def bootstrap_all(
    comparisons: Sequence[tuple[Seeds, Seeds, str]],
    *,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
    draw_seeds: bool = False,
) -> list[Bootstrap]:
    """Run several comparisons (a, b, metric) on the same draws of the same gold sentences.

    Each result equals that of a separate call of `bootstrap`, except for the corrected p-value.
    """
    if samples < 1 or not 0 < confidence < 1:
        raise InputError("bootstrap needs at least one sample and a confidence between 0 and 1")
    pairs = [(_seeds(a), _seeds(b), metric) for a, b, metric in comparisons]
    check_comparable([evaluation for a, b, _ in pairs for evaluation in (*a, *b)])
    if draw_seeds and any(len(side) == 1 for a, b, _ in pairs for side in (a, b)):
        raise InputError("drawing seeds needs at least two seeds per system")

    # An evaluation may occur in many comparisons; its counts are resampled once per metric.
    needed: dict[tuple[int, str], NDArray[np.int64]] = {}
    for a, b, metric in pairs:
        needed |= {(id(run), metric): columns(run, metric) for run in (*a, *b)}
    if not needed:
        return []
    resampled = _resample(np.stack(list(needed.values()), axis=1), samples, seed)  # samples key
    scores = dict(zip(needed, resampled.T, strict=True))
    observed = {key: float(f1(table.sum(axis=0))) for key, table in needed.items()}

    results = []
    for a, b, metric in pairs:
        value_a, value_b = (float(np.mean([observed[id(run), metric] for run in side])) for side in (a, b))
        rng = np.random.default_rng([seed, 1])  # sentences are drawn with `seed` alone
        means = []
        for side in (a, b):
            drawn = np.stack([scores[id(run), metric] for run in side])  # seed sample
            if draw_seeds:
                chosen = rng.integers(len(side), size=(len(side) - 1, samples))
                drawn = np.take_along_axis(drawn, chosen, axis=0)
            means.append(drawn.mean(axis=0))
        differences, difference = means[1] - means[0], value_b - value_a
        # The margin allows for rounding: a difference equal to the observed one in exact arithmetic must count.
        extreme = np.abs(differences - difference) >= abs(difference) - 1e-9
        low, high = np.quantile(differences, [(1 - confidence) / 2, (1 + confidence) / 2])
        results.append(
            Bootstrap(
                metric=metric,
                a=value_a,
                b=value_b,
                difference=difference,
                low=float(low),
                high=float(high),
                p_value=float((1 + extreme.sum()) / (1 + samples)),
                p_corrected=1.0,
                samples=samples,
            )
        )
    corrected = holm([result.p_value for result in results])
    return [replace(result, p_corrected=p) for result, p in zip(results, corrected, strict=True)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of several tests, so that any of them is below x by chance with a probability of at most x.

    Holm's step-down method multiplies the smallest of n p-values by n, the next one by n - 1 and so on; the results
    keep the order of the p-values. It assumes nothing about how the tests depend on each other.
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for done, k in enumerate(sorted(range(len(p_values)), key=lambda k: p_values[k])):
        highest = max(highest, min(1.0, (len(p_values) - done) * p_values[k]))
        corrected[k] = highest
    return corrected


def check_comparable(evaluations: Sequence[Evaluation]) -> None:
    """Raise InputError unless all evaluations have the same gold sentences and the same options."""
    for other in evaluations[1:]:
        first = evaluations[0]
        if (first.punct, first.subtypes) != (other.punct, other.subtypes):
            raise InputError(
                f"the evaluations differ in their options: {first.signature()} and {other.signature()}"
            )
        # Without a fingerprint, equal numbers of words and arcs of every length in every sentence are strong evidence.
        rows = [Count.GOLD_WORDS, Count.GOLD_ARCS]
        same_counts = np.array_equal(first.counts[:, rows], other.counts[:, rows])
        if not same_counts or (first.gold and other.gold and first.gold != other.gold):
            raise InputError("the evaluations have different gold sentences")


def _seeds(system: Seeds) -> tuple[Evaluation, ...]:
    seeds = (system,) if isinstance(system, Evaluation) else tuple(system)
    if not seeds:
        raise InputError("a system needs at least one evaluation")
    return seeds


def _resample(tables: NDArray[np.int64], samples: int, seed: int) -> NDArray[np.float64]:
    """Return the scores [samples, key] of resampled tables [sentence, key, (correct, predicted, gold)].

    A sample draws n sentences with replacement. Its counts are the product of the table and how often each was drawn.
    """
    n, keys, _ = tables.shape
    # Floating-point matrix products are fast, and sums of counts are exact.
    flat = tables.reshape(n, keys * 3).astype(np.float64)
    rng = np.random.default_rng(seed)
    scores = []
    rows = max(1, _DRAWS // n)  # in blocks that fit into memory
    for done in range(0, samples, rows):
        size = min(rows, samples - done)
        drawn = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, np.newaxis]
        times = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)
        scores.append(f1((times @ flat).reshape(-1, keys, 3)))
    return np.concatenate(scores)
