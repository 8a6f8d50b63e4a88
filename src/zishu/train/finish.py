"""Turn a trained network into results: scores, evaluations to compare, the exported model, result.json.

This module does not train and does not know checkpoints: `zishu.train.loop` passes the weights it kept.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from zishu import metrics
from zishu.metrics import evaluation_file, save_evaluation
from zishu.model.calibration import calibrate, set_temperatures
from zishu.model.directory import write_pipeline
from zishu.model.model import Model, parse_trees
from zishu.model.runtime import load_model
from zishu.model.settings import CONFIG, TASKS, write_json
from zishu.tags import COLUMNS
from zishu.train.checkpoint import write_atomically
from zishu.train.compact import compact
from zishu.train.config import by_style
from zishu.train.data import read_treebank, read_trees
from zishu.train.evaluation import evaluate_network
from zishu.train.export import export_model
from zishu.tree import WordTree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zishu.metrics import Evaluation
    from zishu.model.settings import TaskName
    from zishu.train.config import Config
    from zishu.train.data import Inventory
    from zishu.train.systems import Network

RESULT, MODEL = "result.json", "model"
_SAMPLES = 300  # training sentences per style, to find the scales of an 8-bit model's activations

Gold = dict[str, tuple[WordTree, ...]]  # by style; without styles there is one with an empty name


def criterion(task: TaskName) -> str:
    """Name the score by which the best epoch of a task is chosen."""
    return "lf" if TASKS[task].parses else "seg"


def scores_of(evaluation: Evaluation, task: TaskName) -> dict[str, float]:
    """Select the scores that are meaningful for a task; with given words UF and LF are UAS and LAS."""
    trees = ("uf", "lf", "ucm", "lcm")
    can = TASKS[task]
    names = (*(("seg",) if can.finds_words else ()), *(trees if can.parses else ()))
    overall = evaluation.scores.overall
    if can.parses:
        names += tuple(column for column in COLUMNS if getattr(overall, column) is not None)
    return {name: round(evaluation.value(name), 3) for name in names}


def mean_scores(scores: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the means of the scores that all styles have and, if there are several, those of each: `hk.lf`."""
    tables = list(scores.values())
    if not tables:
        return {}
    common = [name for name in tables[0] if all(name in table for table in tables)]
    mean = {name: round(sum(table[name] for table in tables) / len(tables), 3) for name in common}
    if len(tables) > 1:
        for style, table in scores.items():
            mean |= {f"{style}.{name}": table[name] for name in ("seg", "uf", "lf") if name in table}
    return mean


def finish(
    config: Config,
    folder: Path,
    network: Network,
    inventory: Inventory,
    dev: Gold,
    *,
    best_epoch: int,
) -> dict[str, float]:
    """Score the best weights on dev and, once, on test; export and calibrate them; write result.json."""
    parts = [("dev", style, gold) for style, gold in dev.items()]
    parts += [("test", style, read_trees(paths)) for style, paths in by_style(config.data.test).items()]
    result: dict[str, Any] = {"name": config.name, "seed": config.seed, "best_epoch": best_epoch}
    if config.export.compact:
        compact(network.encoder)
    for part, style, gold in parts:
        name = _part_name(part, style)
        words_only = not config.can.finds_words
        found = evaluate_network(network, inventory, gold, style=style)
        result.update(_record(folder, name, found, config.task, given_words=words_only))
        if config.can.finds_structures:
            found = evaluate_network(network, inventory, gold, given_words=True, style=style)
            result.update(_record(folder, name, found, "parse-words", given_words=True))
    model = export_model(network, folder / MODEL, training={"config": asdict(config), **result})
    if config.export.precision == "int8":
        model = _quantise(config, folder, model, dev, result)
    if dev and config.can.parses and not model.settings.beam:
        default = next(iter(dev))
        set_temperatures(folder / MODEL, calibrate(model.in_style(default or None), dev[default]))
    return _write_result(folder, result)


def _quantise(config: Config, folder: Path, model: Model, dev: Gold, result: dict[str, Any]) -> Model:
    """Convert the exported model to 8 bits, and record its dev scores before and after."""
    # Imported here because the quantiser imports onnx.
    from zishu.train.quantise import quantise

    treebank = read_treebank(by_style(config.data.train), by_style(config.data.partial))
    samples: dict[str, list[Sequence[str]]] = {}
    for tree, style in treebank.sentences:
        if len(samples.setdefault(style, [])) < _SAMPLES:
            samples[style].append(tree.chars)
    before = _exported_scores(model, dev, config.task)
    quantise(folder / MODEL, samples)
    quantised = load_model(folder / MODEL)
    assert isinstance(quantised, Model)
    result["float32"], result["int8"] = before, _exported_scores(quantised, dev, config.task)
    settings = replace(model.settings, training={"config": asdict(config), **result})
    write_json(folder / MODEL / CONFIG, settings.to_json())
    return Model(settings, quantised.networks)


def _exported_scores(model: Model, dev: Gold, task: TaskName) -> dict[str, float]:
    """Score an exported model on dev, with the decoding that users get."""
    scores = {}
    for style, gold in dev.items():
        trees = parse_trees(model.in_style(style or None), gold)
        scores[style] = scores_of(metrics.evaluate(zip(gold, trees, strict=True)), task)
    return mean_scores(scores)


def finish_pipeline(config: Config, folder: Path, *, segmenter: Path, treecrf: Path) -> dict[str, float]:
    """Combine two trained models, score the result on raw dev and test text, write result.json."""
    write_pipeline(segmenter / MODEL, treecrf / MODEL, folder / MODEL, name=config.name)
    model = load_model(folder / MODEL)
    result: dict[str, Any] = {"name": config.name, "seed": config.seed}
    for part, files in (("dev", config.data.dev), ("test", config.data.test)):
        for style, paths in by_style(files).items():
            gold = read_trees(paths)
            trees = parse_trees(model.in_style(style or None), gold, decoding="viterbi")
            pairs = zip(gold, trees, strict=True)
            name = _part_name(part, style)
            result.update(_record(folder, name, metrics.evaluate(pairs), "parse", given_words=False))
    return _write_result(folder, result)


def read_result(folder: Path) -> dict[str, float]:
    """Return the scores of a finished run."""
    return _flat(json.loads((folder / RESULT).read_text(encoding="utf-8")))


def _part_name(part: str, style: str) -> str:
    """Name the scores of dev or test in a style."""
    return f"{part}-{style}" if style else part


def _record(
    folder: Path, part: str, evaluation: Evaluation, task: TaskName, *, given_words: bool
) -> dict[str, dict[str, float]]:
    """Save an evaluation for later comparisons, and return its entry in result.json."""
    save_evaluation(evaluation, folder / evaluation_file(part, given_words=given_words), follow=False)
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
