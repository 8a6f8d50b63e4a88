"""Score a network in training, and turn the best one into results: scores, the exported model, result.json.

`TorchNetworks` replaces the ONNX networks, so a network in training is an ordinary `Model` and parses with the code
that users run. It uses the paper's decoding, so that scores are comparable with its tables.

This module does not train and does not know checkpoints: `zishu.train.loop` passes the weights it kept.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zishu import metrics
from zishu.metrics import Evaluation, evaluation_file, save_evaluation
from zishu.model.calibration import calibrate, set_temperatures
from zishu.model.decode import paper_decoding
from zishu.model.directory import write_pipeline
from zishu.model.model import Model, Pipeline, parse_trees
from zishu.model.outputs import Outputs
from zishu.model.runtime import load_model
from zishu.model.settings import CONFIG, TASKS, TaskName, write_json
from zishu.tags import COLUMNS
from zishu.train.compact import compact
from zishu.train.config import Config, by_style
from zishu.train.data import read_treebank, read_trees
from zishu.train.export import export_model, settings_of
from zishu.tree import WordTree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from zishu.chart import Floats
    from zishu.model.networks import Sentences
    from zishu.train.network import Network

RESULT, MODEL = "result.json", "model"
_SAMPLES = 300  # training sentences per style, to find the scales of an 8-bit model's activations

Gold = dict[str, tuple[WordTree, ...]]  # by style; without styles there is one with an empty name


@dataclass(frozen=True, slots=True, eq=False)
class TorchNetworks:
    """Wrap a network in training as a `zishu.model.networks.Scorer`."""

    network: Network
    style: int | None = None

    @torch.inference_mode()
    def run(self, sentences: Sentences, word_lengths: Sequence[Sequence[int]] | None = None) -> Outputs:
        """Return the scores of one batch; a word-level parser needs `word_lengths`."""
        outputs = self.network.run(sentences, self.style, word_lengths)
        absent = self.network.settings.absent(self.style)
        known = {name: value.cpu().numpy() for name, value in outputs.items() if name not in absent}
        return Outputs.from_mapping(known)

    @torch.inference_mode()
    def score_labels(self, dependents: Floats, heads: Floats) -> Floats:
        """Return the log-probabilities `[m, labels]` of the labels of m arcs."""
        device = self.network.device
        ends = (torch.from_numpy(np.ascontiguousarray(end)).to(device) for end in (dependents, heads))
        scored: Floats = self.network.label_scorer(*ends).cpu().numpy()
        return scored

    @property
    def structures(self) -> None:
        """Return None: a structure scorer is trained later, for a finished model."""

    def in_style(self, number: int) -> TorchNetworks:
        """Return the same network for the style with this number."""
        return replace(self, style=number)


def evaluate_network(
    network: Network, gold: Sequence[WordTree], *, style: str = "", given_words: bool = False
) -> Evaluation:
    """Score the network on gold trees: from raw characters or, if its task or the caller requires it, gold words."""
    settings = settings_of(network)
    training = network.training
    network.eval()
    decoding = paper_decoding(settings, given_words=given_words)
    found = evaluate_model(
        Model(settings, TorchNetworks(network)), gold, style=style, given_words=given_words, decoding=decoding
    )
    network.train(training)
    return found


def evaluate_model(
    model: Model | Pipeline, gold: Sequence[WordTree], *, style: str = "", **options: Any
) -> Evaluation:
    """Score a model on gold trees in a style; `options` are those of `parse_trees`."""
    return metrics.evaluate(
        zip(gold, parse_trees(model.in_style(style or None), gold, **options), strict=True)
    )


def dev_scores(parser: Network | Model, dev: Gold) -> dict[str, float]:
    """Return the scores on the dev set, averaged over styles: by the paper's decoding, of a model by the users'."""
    evaluate: Callable[..., Evaluation] = evaluate_model if isinstance(parser, Model) else evaluate_network
    task = parser.settings.task
    return mean_scores(
        {style: scores_of(evaluate(parser, gold, style=style), task) for style, gold in dev.items()}
    )


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


def finish(config: Config, network: Network, dev: Gold, *, best_epoch: int) -> dict[str, float]:
    """Score the best weights on dev and, once, on test; export and calibrate them; write result.json."""
    folder = config.folder
    parts = [("dev", style, gold) for style, gold in dev.items()]
    parts += [("test", style, read_trees(paths)) for style, paths in by_style(config.data.test).items()]
    result: dict[str, Any] = {"name": config.name, "seed": config.seed, "best_epoch": best_epoch}
    if config.export.compact:
        compact(network.encoder)
    for part, style, gold in parts:
        name = _part_name(part, style)
        found = evaluate_network(network, gold, style=style)
        result |= _record(folder, name, found, config.task, given_words=not config.can.finds_words)
        if config.can.finds_structures:
            found = evaluate_network(network, gold, style=style, given_words=True)
            result |= _record(folder, name, found, "parse-words", given_words=True)
    model = export_model(network, folder / MODEL, training={"config": asdict(config), **result})
    if config.export.precision == "int8":
        model = _quantise(config, model, dev, result)
    if dev and config.can.parses and not model.settings.beam:
        default = next(iter(dev))
        set_temperatures(folder / MODEL, calibrate(model.in_style(default or None), dev[default]))
    return _write_result(folder, result)


def _quantise(config: Config, model: Model, dev: Gold, result: dict[str, Any]) -> Model:
    """Convert the exported model to 8 bits, and record its dev scores before and after."""
    # Imported here because the quantiser imports onnx.
    from zishu.train.quantise import quantise

    folder = config.folder / MODEL
    samples: dict[str, list[Sequence[str]]] = {}
    for tree, style, _ in read_treebank(config).trees:
        if len(samples.setdefault(style, [])) < _SAMPLES:
            samples[style].append(tree.chars)
    result["float32"] = dev_scores(model, dev)
    quantise(folder, samples)
    quantised = load_model(folder)
    assert isinstance(quantised, Model)
    result["int8"] = dev_scores(quantised, dev)
    settings = replace(model.settings, training={"config": asdict(config), **result})
    write_json(folder / CONFIG, settings.to_json())
    return Model(settings, quantised.networks)


def finish_pipeline(config: Config, *, segmenter: Path, treecrf: Path) -> dict[str, float]:
    """Combine two trained models, score the result on raw dev and test text, write result.json."""
    folder = config.folder
    write_pipeline(segmenter / MODEL, treecrf / MODEL, folder / MODEL, name=config.name)
    model = load_model(folder / MODEL)
    result: dict[str, Any] = {"name": config.name, "seed": config.seed}
    for part, files in (("dev", config.data.dev), ("test", config.data.test)):
        for style, paths in by_style(files).items():
            found = evaluate_model(model, read_trees(paths), style=style, decoding="viterbi")
            result |= _record(folder, _part_name(part, style), found, "parse", given_words=False)
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
    write_json(folder / RESULT, result)
    return _flat(result)


def _flat(result: dict[str, Any]) -> dict[str, float]:
    return {
        f"{part}.{name}": value
        for part, scores in result.items()
        if isinstance(scores, dict)
        for name, value in scores.items()
    }
