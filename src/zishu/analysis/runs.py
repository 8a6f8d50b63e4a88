"""Read the scores of training runs and, where it was kept, the evaluation behind them.

A run is a folder with a `result.json` and evaluations such as `evaluation/dev.json.gz`; weights are not needed. A single
evaluation file, as written by `zishu eval --output`, also counts as a run; its seed comes from the `seed-*` folder that
contains it, if any. Nothing is parsed here.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zishu.errors import InputError
from zishu.metrics import METRICS, Evaluation, evaluation_file, load_evaluation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


RESULT = "result.json"

# The file that a run writes long before it has a result.
_TRACES = ("metrics.jsonl", "last.safetensors", "best.safetensors", "segmenter", "treecrf")

# result.json has three decimals.
_ROUNDING = 0.0005 + 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Hold the scores of one trained model on one part of the data, in per cent, by metric name."""

    system: str
    seed: int | None
    path: Path
    scores: Mapping[str, float]
    evaluation: Evaluation | None


def read_runs(
    arguments: Sequence[str], part: str, *, given_words: bool = False, warn: Callable[[str], None]
) -> list[Run]:
    """Read the scores of all runs on the dev or test set, from raw text or with given words.

    An argument is a run's folder, a folder of `seed-*` folders, or an evaluation file. A prefix `NAME=` renames the
    system. Runs without such scores are skipped with a warning.
    """
    runs: dict[tuple[str, Path], Run] = {}
    wanted = f"scores of the {part} set {'with given words' if given_words else 'from raw text'}"
    for argument in arguments:
        name, _, path = argument.partition("=")
        if not (name and path) or Path(argument).exists():
            name, path = "", argument
        for place in _expand(Path(path), warn):
            if place.is_file():
                run = _read_file(place, name, given_words)
            else:
                run = _read_folder(place, name, part, given_words)
            if run.scores:
                runs[run.system, place.resolve()] = run  # a run may be given twice: `runs/x/seed-0 runs/x`
            else:
                warn(f"{place}: no {wanted}: skipped")
    if not runs:
        raise InputError(f"no run has {wanted}")
    return list(runs.values())


def _expand(path: Path, warn: Callable[[str], None]) -> Iterator[Path]:
    """Yield the finished runs below a path."""
    if not path.exists():
        raise InputError(f"{path}: no such run")
    if path.is_file() or (path / RESULT).exists():
        yield path
        return
    seeds = seed_folders(path)
    for folder in seeds:
        if (folder / RESULT).exists():
            yield folder
        else:
            warn(f"{folder}: this run is not finished (no {RESULT}): skipped")
    if not any((folder / RESULT).exists() for folder in seeds):
        if seeds or any((path / trace).exists() for trace in _TRACES):
            raise InputError(f"{path}: this run is not finished (no {RESULT})")
        raise InputError(f"{path}: not a run's folder (no {RESULT}, no seed-* folders)")


def seed_folders(folder: Path) -> list[Path]:
    """Return the `seed-*` folders in a folder, by number."""
    return sorted(folder.glob("seed-*/"), key=lambda seed: (_seed_of(seed) or 0, seed.name))


def _seed_of(folder: Path) -> int | None:
    """Return the seed in the name of a run's folder."""
    number = re.fullmatch(r"seed-(\d{1,18})", folder.name)
    return int(number[1]) if number else None


def _read_file(path: Path, name: str, given_words: bool) -> Run:
    evaluation = load_evaluation(path)
    scores = _scores(evaluation)
    if given_words and "uas" not in scores:
        raise InputError(f"{path}: some sentences do not have the gold words")
    seed = next((seed for seed in map(_seed_of, path.parents) if seed is not None), None)
    plain = path.name.removesuffix(".gz").removesuffix(".json")
    return Run(name or plain, seed, path, scores, evaluation)


def _read_folder(folder: Path, name: str, part: str, given_words: bool) -> Run:
    result = _read_result(folder / RESULT)
    scores: dict[str, float] = result.get(part, {})
    # A word-level parser has scores with given words only, and none of segmentation.
    scores = scores if given_words != ("seg" in scores) else {}
    if given_words:
        scores = result.get(f"{part}_given_words") or scores
    kept = folder / evaluation_file(part, given_words=given_words)
    evaluation = load_evaluation(kept) if scores and kept.exists() else None
    if evaluation is not None:
        exact = {metric: value for metric, value in _scores(evaluation).items() if metric in scores}
        for metric, value in exact.items():
            if abs(value - scores[metric]) > _ROUNDING:
                raise InputError(
                    f"{kept}: {metric} is {value:.3f}, but {RESULT} says {scores[metric]:.3f}: "
                    "the two files belong to different runs"
                )
        scores = {**scores, **exact}
    return Run(name or result["name"], result["seed"], folder, scores, evaluation)


def _read_result(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not JSON") from error
    if (
        not isinstance(result, dict)
        or not isinstance(result.get("name"), str)
        or type(result.get("seed")) is not int
    ):
        raise InputError(f"{path}: not the result of a run: it has no name or no seed")
    for part in ("dev", "dev_given_words", "test", "test_given_words"):
        scores = result.get(part, {})
        if not isinstance(scores, dict) or not all(isinstance(v, float | int) for v in scores.values()):
            raise InputError(f"{path}: not the result of a run: {part} is not a table of scores")
    return result


def _scores(evaluation: Evaluation) -> dict[str, float]:
    """Return all scores of an evaluation."""
    scores = {}
    for metric in METRICS:
        with suppress(InputError):  # for example no parts of speech
            scores[metric] = evaluation.value(metric)
    return scores
