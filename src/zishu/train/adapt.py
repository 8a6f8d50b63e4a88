"""Adapt a trained parser to a domain: `zishu adapt`.

Adaptation is an ordinary training run (`zishu.train.loop`) that starts from the weights of a model.
`zishu.train.adapt_data` prepares its data.

The original treebanks are not part of Zishu. To limit forgetting, the old model teaches the new one
(`zishu.train.teacher`): on sentences of our own in every style, and on the user's sentences in all styles but the adapted
one. Forgetting is measured as agreement with the old model on other sentences of our own. Users who have treebanks can
also give them for rehearsal.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zishu.annotations import read_annotations
from zishu.errors import ConfigError, InputError
from zishu.formats.conllu import read_conllu, trees_of
from zishu.model.model import Model, parse_trees
from zishu.model.runtime import load_model
from zishu.model.settings import (
    CONFIG,
    STRUCTURES,
    STRUCTURES_CONFIG,
    read_json,
    read_settings,
    write_json,
)
from zishu.parser import find_model
from zishu.reading import read_lines
from zishu.text import characters
from zishu.train.adapt_data import (
    HELD_OUT,
    KNOWN,
    OWN,
    REHEARSAL,
    SURE_TREES,
    WATCH,
    AdaptOptions,
    prepare,
)
from zishu.train.config import config_from_dict
from zishu.train.evaluation import MODEL, evaluate_model
from zishu.train.loop import train
from zishu.tree import flat_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from zishu.model.settings import Settings
    from zishu.train.config import Config
    from zishu.tree import WordTree

REPORT: Final = "adapt.json"
_MOST_VIEWS: Final = 4  # an epoch sees each sentence of the user at most this many times
_FORGOTTEN: Final = 90.0  # warn the user if agreement in LF is below this


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Hold the outcome of an adaptation; scores are F1 in percent."""

    style: str
    sentences: dict[str, int]  # by kind
    problems: tuple[str, ...]
    held_out: dict[str, dict[str, float]] = field(default_factory=dict)  # "before" and "after" -> scores
    agreement: dict[str, dict[str, float]] = field(
        default_factory=dict
    )  # style -> scores against the old model

    @property
    def warnings(self) -> list[str]:
        """List the warnings for the user."""
        found = []
        for style, scores in self.agreement.items():
            if scores["lf"] < _FORGOTTEN and style != self.style:
                name = f" in style {style}" if style else ""
                found.append(
                    f"on general text{name} only {scores['lf']:.1f} % of words, heads and relations are unchanged: "
                    "add data, or give a treebank with --rehearsal"
                )
        if self.held_out and self.held_out["after"]["lf"] < self.held_out["before"]["lf"]:
            found.append(
                "on the held-out sentences the adapted model scores lower than the old one: do not use it"
            )
        return found


def adapt(
    folder: Path,
    options: AdaptOptions,
    *,
    threads: int = 0,
    resume: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Adaptation:
    """Fine-tune a model on the user's data. `folder` gets the run and the new model."""
    base = find_model(options.model)
    settings = read_settings(base)
    style = options.style or next(iter(settings.styles), "")
    if style and not settings.styles:
        raise InputError(f"{base}: the model has no styles")
    options = replace(options, model=str(base), style=style)
    counts, problems = prepare(folder / "data", options)
    for problem in problems:
        say(f"left out: {problem}")
    config = _configure(folder, options, settings, threads=threads)
    train(config, resume=resume)
    _complete(folder / MODEL, base, calibrated=bool(config.data.dev))
    return _compare(folder, base, style, counts, problems)


# --- the run ----------------------------------------------------------------------------------------------------


def _configure(folder: Path, options: AdaptOptions, settings: Settings, *, threads: int) -> Config:
    """Return the configuration of the run: the network of the model, with low learning rates."""
    base, style = options.model, options.style
    trained = settings.training.get("config", {})
    if not {"encoder", "scorer"} <= trained.keys():
        raise InputError(f"{base}: its config.json does not say how it was trained")
    data = folder / "data"
    partial = [str(path) for name in (KNOWN, SURE_TREES) if (path := data / name).stat().st_size]
    held_out = data / HELD_OUT
    ours, own = str(data / REHEARSAL), str(data / OWN)
    treebanks: dict[str, list[str]] = {}
    for treebank in options.rehearsal:
        its, equals, file = treebank.rpartition("=")
        its = its if equals else next(iter(settings.styles), "")
        if its not in (settings.styles or ("",)):
            raise InputError(f"--rehearsal {treebank}: the model has no style {its!r}")
        treebanks.setdefault(its, []).append(file)
    chars = sum(len(tree.chars) for path in partial for tree in read_annotations(path).trees)
    taught = {name: [ours] if name == style else [ours, own] for name in settings.styles or ("",)}
    rehearsed = sum(sum(map(len, read_lines(path))) for paths in taught.values() for path in paths)
    values: dict[str, Any] = {
        "name": "adapted",
        "seed": options.seed,
        "initial": base,
        "data": {
            "train": treebanks or "",
            "partial": {style: partial},
            "partial_weight": float(np.clip(rehearsed / chars, 1, _MOST_VIEWS)),
            "dev": {style: str(held_out)} if held_out.stat().st_size else "",
        },
        "teacher": {"model": base, "text": taught},
        "structure": trained.get("structure", {}),
        "encoder": trained["encoder"],
        "scorer": trained["scorer"],
        "optimiser": {
            "epochs": options.epochs,
            "batch_chars": 500,
            "learning_rate": 1e-3,
            "encoder_learning_rate": 4e-4,
            "beta2": 0.98,
            "eps": 1e-9,
            "weight_decay": 0.01,
            "averaging": 0.9,
        },
        "export": trained.get("export", {}),
        "run": {"directory": str(folder), "threads": threads},
    }
    try:
        return config_from_dict(values, source=f"{base}/{CONFIG}")
    except ConfigError as error:
        raise InputError(str(error)) from error


def _complete(model: Path, base: Path, *, calibrated: bool) -> None:
    """Copy the old model's structure scorer, and its temperatures if nothing was held out."""
    for name in (STRUCTURES, STRUCTURES_CONFIG):
        if (base / name).exists():
            shutil.copyfile(base / name, model / name)
    if not calibrated:
        before: Any = read_json(base / CONFIG)
        after: Any = read_json(model / CONFIG)
        for name in ("temperature", "label_temperature", "upos_temperature"):
            after[name] = before[name]
        write_json(model / CONFIG, after)


# --- before and after -------------------------------------------------------------------------------------------


def _compare(
    folder: Path, base: Path, style: str, counts: dict[str, int], problems: tuple[str, ...]
) -> Adaptation:
    """Score the old and the new model on the held-out sentences, and compare them on sentences of our own."""
    old, new = load_model(base), load_model(folder / MODEL)
    assert isinstance(old, Model)
    assert isinstance(new, Model)
    path = folder / "data" / HELD_OUT
    held_out: dict[str, dict[str, float]] = {}
    if path.stat().st_size:
        gold = trees_of(read_conllu(path))
        # If the old model does not know the style, it parses in its first style.
        former = style if style in old.settings.styles else ""
        held_out = {"before": _scores(old, gold, former), "after": _scores(new, gold, style)}
    watched = [flat_tree(characters("".join(line.split()))) for line in read_lines(folder / "data" / WATCH)]
    agreement = {
        name: _scores(new, parse_trees(old.in_style(name or None), watched), name)
        for name in old.settings.styles or ("",)
    }
    report = Adaptation(style, counts, problems, held_out, agreement)
    write_json(folder / REPORT, asdict(report))
    return report


def _scores(model: Model, gold: Sequence[WordTree], style: str) -> dict[str, float]:
    found = evaluate_model(model, gold, style=style)
    return {name: round(found.value(name), 2) for name in ("seg", "uf", "lf")}
