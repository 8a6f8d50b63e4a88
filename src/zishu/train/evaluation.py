"""Score a network in training, and turn the best one into results: scores, the exported model, result.json.

`TorchNetworks` replaces the ONNX networks, so a network in training is an ordinary `Model` and parses with the code
that users run. It uses the paper's decoding, so that scores are comparable with its tables.

This module does not train and does not know checkpoints: `zishu.train.loop` passes the weights it kept.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zishu import metrics
from zishu.metrics import Evaluation, evaluation_file, save_evaluation
from zishu.model.calibration import calibrate, set_temperatures
from zishu.model.decode import Decoding, paper_decoding
from zishu.model.directory import write_pipeline
from zishu.model.files import CONFIG, read_json, write_json
from zishu.model.model import Model, Pipeline, parse_trees
from zishu.model.outputs import Outputs
from zishu.model.runtime import load_model
from zishu.model.settings import TASKS, TaskName
from zishu.tags import COLUMNS
from zishu.train.compact import compact
from zishu.train.data import Gold, TrainingTree, read_gold
from zishu.train.export import export_model, settings_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zishu.chart import Floats
    from zishu.model.networks import Sentences
    from zishu.train.config import Config
    from zishu.train.network import Network
    from zishu.tree import WordTree

RESULT, MODEL = "result.json", "model"
_SAMPLES = 300  # training sentences per style, to find the scales of an 8-bit model's activations


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
        return Outputs.from_mapping(known).with_labels(self._score_labels)

    @torch.inference_mode()
    def _score_labels(self, dependents: Floats, heads: Floats) -> Floats:
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


def network_model(network: Network) -> Model:
    """Return a network as a model that parses with it; the network leaves training mode."""
    return Model(settings_of(network), TorchNetworks(network.eval()))


def evaluate_model(
    model: Model | Pipeline, gold: Sequence[WordTree], *, style: str = "", **options: Any
) -> Evaluation:
    """Score a model on gold trees in a style; `options` are those of `parse_trees`."""
    return metrics.evaluate(
        zip(gold, parse_trees(model.in_style(style or None), gold, **options), strict=True)
    )


def dev_scores(model: Model, dev: Gold, *, decoding: Decoding = "mbr") -> dict[str, float]:
    """Return the means over styles of the scores that all styles have and, if there are several, those of each: `hk.lf`."""
    scores = {
        style: scores_of(evaluate_model(model, gold, style=style, decoding=decoding), model.settings.task)
        for style, gold in dev.items()
    }
    mean = {
        name: round(average.mean, 3) for name, average in metrics.average_seeds([*scores.values()]).items()
    }
    if len(scores) > 1:
        for style, table in scores.items():
            mean |= {f"{style}.{name}": table[name] for name in ("seg", "uf", "lf") if name in table}
    return mean


def scores_of(evaluation: Evaluation, task: TaskName) -> dict[str, float]:
    """Select the scores that are meaningful for a task; with given words UF and LF are UAS and LAS."""
    can, overall = TASKS[task], evaluation.scores.overall
    names = ["seg"] if can.finds_words else []
    if can.parses:
        names += ["uf", "lf", "ucm", "lcm"]
        names += [column for column in COLUMNS if getattr(overall, column) is not None]
    return {name: round(evaluation.value(name), 3) for name in names}


def finish(
    config: Config, network: Network, treebank: Sequence[TrainingTree], dev: Gold, *, best_epoch: int
) -> None:
    """Score the best weights on dev and, once, on test; export and calibrate them; write result.json.

    An 8-bit model finds the scales of its activations on sentences of the treebank.
    """
    folder = config.folder
    if config.export.compact:
        compact(network.encoder)
    result: dict[str, Any] = {"name": config.name, "seed": config.seed, "best_epoch": best_epoch}
    result |= _final_scores(config, network_model(network), dev)
    model = export_model(network, folder / MODEL)
    if config.export.precision == "int8":
        # Imported here because the quantiser imports onnx.
        from zishu.train.quantise import quantise

        samples: dict[str, list[Sequence[str]]] = {}
        for tree, style, _ in treebank:
            if len(samples.setdefault(style, [])) < _SAMPLES:
                samples[style].append(tree.chars)
        result["float32"] = dev_scores(model, dev)
        model = quantise(folder / MODEL, samples)
        result["int8"] = dev_scores(model, dev)
    settings = replace(model.settings, training={"config": asdict(config), **result})
    write_json(folder / MODEL / CONFIG, settings.to_json())
    if dev and config.can.parses and not model.settings.beam:
        default = next(iter(dev))
        set_temperatures(folder / MODEL, calibrate(model.in_style(default or None), dev[default]))
    write_json(folder / RESULT, result)


def finish_pipeline(config: Config, *, segmenter: Path, treecrf: Path) -> None:
    """Combine two trained models, score the result on raw dev and test text, write result.json."""
    folder = config.folder
    write_pipeline(segmenter / MODEL, treecrf / MODEL, folder / MODEL, name=config.name)
    scores = _final_scores(config, load_model(folder / MODEL), read_gold(config.data.dev))
    write_json(folder / RESULT, {"name": config.name, "seed": config.seed, **scores})


def read_result(folder: Path) -> dict[str, float]:
    """Return the scores of a finished run."""
    result: Any = read_json(folder / RESULT)
    return {
        f"{part}.{name}": value
        for part, scores in result.items()
        if isinstance(scores, dict)
        for name, value in scores.items()
    }


def _final_scores(config: Config, model: Model | Pipeline, dev: Gold) -> dict[str, dict[str, float]]:
    """Score a model on dev and test by the paper's decoding, and save the evaluations for later comparisons.

    A parser of characters is scored twice, from raw text and with given words.
    """
    scores: dict[str, dict[str, float]] = {}
    ways = (False, True) if config.can.finds_structures else (not config.can.finds_words,)
    for part, gold in (("dev", dev), ("test", read_gold(config.data.test))):
        for (style, trees), given_words in product(gold.items(), ways):
            name = f"{part}-{style}" if style else part
            decoding = paper_decoding(model.settings, given_words=given_words)
            found = evaluate_model(model, trees, style=style, given_words=given_words, decoding=decoding)
            path = config.folder / evaluation_file(name, given_words=given_words)
            save_evaluation(found, path, follow=False)
            entry = f"{name}_given_words" if given_words else name
            scores[entry] = scores_of(found, "parse-words" if given_words else config.task)
    return scores
