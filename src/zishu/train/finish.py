"""Turn a trained network into results: scores, evaluations to compare, the exported model, result.json.

Nothing here trains, and nothing knows a checkpoint: `zishu.train.loop` hands over the weights that it kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zishu import metrics
from zishu.metrics import evaluation_file, save_evaluation
from zishu.model.calibration import calibrate, set_temperatures
from zishu.model.directory import write_pipeline
from zishu.model.runtime import load_model
from zishu.train.checkpoint import write_atomically
from zishu.train.compact import compact
from zishu.train.config import config_to_dict
from zishu.train.data import read_treebank
from zishu.train.evaluation import evaluate
from zishu.train.export import export_model

if TYPE_CHECKING:
    from pathlib import Path

    from zishu.metrics import Evaluation
    from zishu.train.config import Config
    from zishu.train.data import Inventory
    from zishu.train.systems import Network
    from zishu.tree import WordTree

RESULT, MODEL = "result.json", "model"


def criterion(task: str) -> str:
    """Name the score by which the best epoch of a task is chosen."""
    return "seg" if task == "segment" else "lf"


def scores_of(evaluation: Evaluation, task: str) -> dict[str, float]:
    """Pick the scores that mean something for a task; with given words UF and LF are UAS and LAS."""
    names = {
        "segment": ("seg",),
        "parse-words": ("uf", "lf", "ucm", "lcm", "upos"),
        "parse": ("seg", "uf", "lf", "ucm", "lcm", "upos"),
    }[task]
    if evaluation.scores.overall.upos is None:
        names = tuple(name for name in names if name != "upos")
    return {name: round(evaluation.value(name), 3) for name in names}


def finish(
    config: Config,
    folder: Path,
    network: Network,
    inventory: Inventory,
    dev: tuple[WordTree, ...],
    *,
    best_epoch: int,
) -> dict[str, float]:
    """Score the best weights on dev and, once, on test, export them, calibrate them, write result.json."""
    parts = {"dev": dev}
    if config.data.test:
        parts["test"] = read_treebank(config.data.test).trees
    result: dict[str, Any] = {"name": config.name, "seed": config.seed, "best_epoch": best_epoch}
    if config.export.compact:
        compact(network.encoder)
    for part, gold in parts.items():
        words_only = config.task == "parse-words"
        found = evaluate(network, inventory, gold)
        result.update(_record(folder, part, found, config.task, given_words=words_only))
        if config.task == "parse":
            found = evaluate(network, inventory, gold, given_words=True)
            result.update(_record(folder, part, found, "parse-words", given_words=True))
    model = export_model(network, folder / MODEL, training={"config": config_to_dict(config), **result})
    if config.task != "segment":
        set_temperatures(folder / MODEL, calibrate(model, dev))
    return _write_result(folder, result)


def finish_pipeline(config: Config, folder: Path, *, segmenter: Path, treecrf: Path) -> dict[str, float]:
    """Put two trained models into one, score it on raw dev and test text, write result.json."""
    write_pipeline(segmenter / MODEL, treecrf / MODEL, folder / MODEL, name=config.name)
    model = load_model(folder / MODEL)
    result: dict[str, Any] = {"name": config.name, "seed": config.seed}
    for part, path in (("dev", config.data.dev), ("test", config.data.test)):
        if path:
            gold = read_treebank(path).trees
            analyses = model.parse([tree.chars for tree in gold], decoding="viterbi")
            pairs = zip(gold, (analysis.tree for analysis in analyses), strict=True)
            result.update(_record(folder, part, metrics.evaluate(pairs), "parse", given_words=False))
    return _write_result(folder, result)


def read_result(folder: Path) -> dict[str, float]:
    """Return the scores of a finished run."""
    return _flat(json.loads((folder / RESULT).read_text(encoding="utf-8")))


def _record(
    folder: Path, part: str, evaluation: Evaluation, task: str, *, given_words: bool
) -> dict[str, dict[str, float]]:
    """Keep an evaluation for later comparisons, and return its entry in result.json."""
    save_evaluation(evaluation, folder / evaluation_file(part, given_words=given_words))
    return {f"{part}_given_words" if given_words else part: scores_of(evaluation, task)}


def _write_result(folder: Path, result: dict[str, Any]) -> dict[str, float]:
    write_atomically(folder / RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return _flat(result)


def _flat(result: dict[str, Any]) -> dict[str, float]:
    return {
        f"{part}.{name}": value
        for part, scores in result.items()
        if isinstance(scores, dict)
        for name, value in scores.items()
    }
