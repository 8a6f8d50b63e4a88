"""Compare systems: the paper's Tables 1 and 2 for any runs.

A system has a name and one run per seed. For every metric, a system gets the mean and the sample standard deviation (n
- 1) over its seeds. It also gets the difference of its mean from the baseline's, with a confidence interval and a
p-value from a paired bootstrap over sentences, and optionally over seeds (`zishu.metrics`), which is corrected for the
number of tests in the table. All runs must be scored on the same gold sentences with the same options; other runs raise
InputError. `compare_tables` formats the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zishu.analysis.runs import Run, read_runs
from zishu.errors import InputError
from zishu.metrics import (
    Average,
    Bootstrap,
    Evaluation,
    average_seeds,
    bootstrap_all,
    check_comparable,
    signature,
)
from zishu.tags import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

# Metric names in the tables. With gold words, precision equals recall, and UF and LF are attachment scores.
_OTHERS = {name: name.upper() for name in ("ucm", "lcm", *COLUMNS)}
TITLES = {"seg": "F1seg", "uf": "UF", "lf": "LF", **_OTHERS}
TITLES_GIVEN_WORDS = {"uf": "UAS", "lf": "LAS", **_OTHERS}

DECIMALS = 2


@dataclass(frozen=True, slots=True, eq=False)
class ComparedSystem:
    """Hold one row of the table.

    `scores` omits metrics that any seed lacks; `differences` omits metrics that were not tested.
    """

    name: str
    runs: tuple[Run, ...]
    scores: Mapping[str, Average]
    differences: Mapping[str, Bootstrap]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Hold the whole table and the facts its notes state."""

    part: str
    given_words: bool
    titles: Mapping[str, str]  # of the chosen metrics
    systems: tuple[ComparedSystem, ...]
    baseline: str | None  # None if nothing was tested
    samples: int
    draw_seeds: bool
    sentences: int | None  # None, like the signature, if no run kept its evaluation
    signature: str | None
    unchecked: tuple[str, ...]  # systems with a run that did not keep its evaluation

    def best(self, metric: str) -> set[str]:
        """Return the systems with the highest printed mean; the set is empty if there is only one system."""
        means = {s.name: round(s.scores[metric].mean, DECIMALS) for s in self.systems if metric in s.scores}
        highest = max(means.values(), default=0.0)
        return {name for name, mean in means.items() if mean == highest and len(means) > 1}


def choose_metrics(names: Sequence[str] | None, *, given_words: bool) -> dict[str, str]:
    """Return the metrics of a table with their titles, by default the paper's. UAS and LAS are aliases of uf and lf."""
    titles = TITLES_GIVEN_WORDS if given_words else TITLES
    aliases = {"uas": "uf", "las": "lf"} if given_words else {}
    if names is None:
        names = ["uf", "lf"] if given_words else ["seg", "uf", "lf"]
    chosen = [aliases.get(name.lower(), name.lower()) for name in names]
    for metric in chosen:
        if metric not in titles:
            raise InputError(
                f"unknown metric {metric!r} {'with given words' if given_words else 'from raw text'}: "
                f"choose from {', '.join([*titles, *aliases])}"
            )
    return {metric: titles[metric] for metric in chosen}


def compare(
    arguments: Sequence[str],
    part: str,
    *,
    given_words: bool = False,
    metrics: Sequence[str] | None = None,
    baseline: str | None = None,
    samples: int = 10_000,
    draw_seeds: bool = False,
    warn: Callable[[str], None],
) -> Comparison:
    """Read runs (see `read_runs`), and test every system against the baseline (default: the first system)."""
    titles = choose_metrics(metrics, given_words=given_words)  # report a wrong name before any warning
    runs = read_runs(arguments, part, given_words=given_words, warn=warn)
    groups = _group(runs)
    if baseline is not None and baseline not in groups:
        raise InputError(f"--baseline {baseline}: no such system: choose from {', '.join(groups)}")
    single = [name for name, group in groups.items() if len(group) == 1]
    if draw_seeds and single:
        raise InputError(f"--draw-seeds: needs at least two runs of {', '.join(single)}")
    kept: dict[Path, Evaluation] = {}
    for run in runs:
        if run.evaluation is not None:
            kept[run.path] = run.evaluation
            first, *_ = kept.items()
            try:
                check_comparable([first[1], run.evaluation])
            except InputError as error:
                raise InputError(f"{first[0]} and {run.path} cannot be compared: {error}") from error
    without = [run for run in runs if run.evaluation is None]
    if without:
        places = ", ".join(str(run.path) for run in without)
        warn(f"no evaluation file, so no test of significance: {places}")

    reference = baseline if baseline is not None else next(iter(groups))
    scores = {}
    for name, group in groups.items():
        averages = average_seeds([run.scores for run in group])
        scores[name] = {metric: averages[metric] for metric in titles if metric in averages}
    tested = _test(groups, scores, reference, samples=samples, draw_seeds=draw_seeds)
    systems = tuple(
        ComparedSystem(name, group, scores[name], tested.get(name, {})) for name, group in groups.items()
    )
    return Comparison(
        part=part,
        given_words=given_words,
        titles=titles,
        systems=systems,
        baseline=reference if tested else None,
        samples=samples,
        draw_seeds=draw_seeds,
        sentences=len(next(iter(kept.values())).counts) if kept else None,
        signature=_signature([*kept.values()], warn) if kept else None,
        unchecked=tuple(dict.fromkeys(run.system for run in without)),
    )


def _group(runs: Sequence[Run]) -> dict[str, tuple[Run, ...]]:
    """Group the runs by system, in the order of each system's first run."""
    groups: dict[str, dict[int | None, Run]] = {}
    for run in runs:
        seeds = groups.setdefault(run.system, {})
        if run.seed in seeds:
            which = "" if run.seed is None else f" with seed {run.seed}"
            raise InputError(
                f"two runs of {run.system}{which}: {seeds[run.seed].path} and {run.path}; "
                "give one of them another name: NAME=RUN"
            )
        seeds[run.seed] = run
    return {name: tuple(seeds.values()) for name, seeds in groups.items()}


def _signature(evaluations: Sequence[Evaluation], warn: Callable[[str], None]) -> str:
    """Return the signature of the table; it lists every version of Zishu that scored a run."""
    signatures = sorted({evaluation.signature() for evaluation in evaluations})
    if len(signatures) == 1:
        return signatures[0]
    versions = [one.rpartition("zishu-")[2] for one in signatures]
    warn(f"the runs were scored by different versions of Zishu: {', '.join(versions)}")
    first = evaluations[0]
    return signature(punct=first.punct, subtypes=first.subtypes, version="+".join(versions))


def _test(
    groups: Mapping[str, Sequence[Run]],
    scores: Mapping[str, Mapping[str, Average]],
    baseline: str,
    *,
    samples: int,
    draw_seeds: bool,
) -> dict[str, dict[str, Bootstrap]]:
    """Test every system against the baseline in every metric that both have, if all evaluations were kept."""
    kept = {name: [run.evaluation for run in group if run.evaluation] for name, group in groups.items()}
    testable = [name for name, group in groups.items() if len(kept[name]) == len(group)]
    if baseline not in testable:
        return {}
    tests = [
        (name, metric)
        for name in testable
        for metric in scores[name]
        if name != baseline and metric in scores[baseline]
    ]
    pairs = [(kept[baseline], kept[name], metric) for name, metric in tests]
    results = bootstrap_all(pairs, samples=samples, draw_seeds=draw_seeds)
    tested: dict[str, dict[str, Bootstrap]] = {}
    for (name, metric), result in zip(tests, results, strict=True):
        tested.setdefault(name, {})[metric] = result
    return tested
