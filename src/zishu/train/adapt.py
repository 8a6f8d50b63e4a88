"""Adapt a trained parser to a domain: `zishu adapt`.

Adaptation is an ordinary training run (`zishu.train.loop`) that starts from the weights of a model.
`zishu.train.adapt_data` prepares its data.

The original treebanks are not part of Zishu. To limit forgetting, the old model teaches the new one
(`zishu.train.teacher`): on sentences of our own in every style, and on the user's sentences in all styles but the adapted
one. Forgetting is measured as agreement with the old model on other sentences of our own. If the models agree on too
little in one of the other styles, the new weights move back towards the old ones until they agree enough. Users who have
treebanks can also give them for rehearsal.

The learning rates are low, and there is no dropout: with that of an ordinary training, the network changes more on
general text and learns less. Only the embeddings of styles learn fast, so that a new style, which starts as a
copy of another one, soon differs from it.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from zishu.annotations import read_annotations
from zishu.errors import InputError
from zishu.formats.conllu import read_conllu, trees_of
from zishu.model.files import CONFIG, STRUCTURES, STRUCTURES_CONFIG, find_model, read_json, write_json
from zishu.model.model import Model, parse_trees
from zishu.model.runtime import load_model
from zishu.model.settings import read_settings
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
from zishu.train.data import read_gold, read_treebank
from zishu.train.evaluation import MODEL, RESULT, evaluate_model, finish
from zishu.train.initial import load_initial
from zishu.train.loop import train
from zishu.tree import flat_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from zishu.model.settings import Settings
    from zishu.train.config import Config
    from zishu.tree import WordTree

REPORT: Final = "adapt.json"
# Each epoch repeats the user's sentences until they have this share of the characters of rehearsal.
_SHARE: Final = 0.4
_VIEWS: Final = (3, 12)  # fewest and most repetitions
_PATIENCE: Final = 2  # epochs without a better score on held-out sentences before training stops
_KEPT: Final = (0.75, 0.5, 0.25)  # shares of the change to try, if too much was forgotten


_Scores = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Hold the outcome of an adaptation; scores are F1 in percent."""

    style: str
    sentences: dict[str, int]  # by kind
    problems: tuple[str, ...]
    held_out: _Scores = field(default_factory=dict)  # of the old model, "before", and of the new one, "after"
    agreement: _Scores = field(default_factory=dict)  # of the new model with the old one, by style
    wanted: float = 0.0  # least agreement in LF
    kept: float = 1.0  # share of the change of the weights that was kept

    @property
    def changed(self) -> list[str]:
        """List the styles in which the new model differs too much from the old one on general text."""
        return [name for name, scores in self.agreement.items() if scores["lf"] < self.wanted]

    @property
    def forgotten(self) -> list[str]:
        """List the changed styles other than the adapted one."""
        return [name for name in self.changed if name != self.style]

    @property
    def warnings(self) -> list[str]:
        """List the warnings for the user."""
        found = []
        if self.kept < 1:
            found.append(
                f"the model forgot too much, so only {self.kept:.0%} of the change of its weights was kept; "
                "add data, give a treebank with --rehearsal, or lower --keep"
            )
        for style in self.changed:
            name = f" in style {style}" if style else ""
            advice = (
                "if your data follow other guidelines, give them a new --style"
                if style and style == self.style
                else "add data, or give a treebank with --rehearsal"
            )
            found.append(
                f"on general text{name} only {self.agreement[style]['lf']:.1f} % of words, heads and relations "
                f"are unchanged: {advice}"
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
    if (folder / REPORT).exists():
        finished: Any = read_json(folder / REPORT)
        return Adaptation(**{**finished, "problems": problems})
    config = _configure(folder, options, settings, threads=threads)
    trained = (folder / RESULT).exists()  # and stopped before the report; the model may have moved back
    train(config, resume=resume)
    report = Adaptation(style, counts, problems, wanted=options.keep)
    for kept in (1.0, *_KEPT):
        if kept < 1:
            styles = ", ".join(report.forgotten)
            say(f"too much was forgotten in style {styles}: keeping {kept:.0%} of the change")
        if kept < 1 or trained:
            _move_back(config, kept)
        _complete(folder / MODEL, base, calibrated=bool(config.data.dev))
        held_out, agreement = _compare(folder, base, style)
        report = replace(report, held_out=held_out, agreement=agreement, kept=kept)
        if not report.forgotten:
            break
    write_json(folder / REPORT, asdict(report))
    return report


# --- the run ----------------------------------------------------------------------------------------------------


def _configure(folder: Path, options: AdaptOptions, settings: Settings, *, threads: int) -> Config:
    """Return the configuration of the run: the network of the model, with low learning rates."""
    base, style, data = options.model, options.style, folder / "data"
    trained = settings.training.get("config", {})
    if not {"encoder", "scorer"} <= trained.keys():
        raise InputError(f"{base}: its config.json does not say how it was trained")
    partial = [str(path) for name in (KNOWN, SURE_TREES) if (path := data / name).stat().st_size]
    held_out = str(data / HELD_OUT) if (data / HELD_OUT).stat().st_size else ""
    ours, own = str(data / REHEARSAL), str(data / OWN)
    treebanks: dict[str, list[str]] = {}
    for treebank in options.rehearsal:
        its, equals, file = treebank.rpartition("=")
        its = its if equals else next(iter(settings.styles), "")
        if its not in (settings.styles or ("",)):
            raise InputError(f"--rehearsal {treebank}: the model has no style {its!r}")
        treebanks.setdefault(its, []).append(file)
    chars = sum(len(tree.chars) for path in partial for tree in read_annotations(path)[0])
    taught = {name: [ours] if name == style else [ours, own] for name in settings.styles or ("",)}
    rehearsed = sum(sum(map(len, read_lines(path))) for paths in taught.values() for path in paths)
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.10 or later says so
    values: dict[str, Any] = {
        "name": "adapted",
        "seed": options.seed,
        "initial": base,
        "data": {
            "train": treebanks or "",
            "partial": {style: partial},
            "partial_weight": float(np.clip(_SHARE * rehearsed / chars, *_VIEWS)),
            "dev": {style: held_out} if held_out else "",
        },
        "teacher": {"model": base, "text": taught},
        "structure": trained.get("structure", {}),
        "encoder": {**trained["encoder"], "dropout": 0.0, "embedding_dropout": 0.0},
        "scorer": {**trained["scorer"], "dropout": 0.0},
        "optimiser": {
            "epochs": options.epochs,
            "batch_chars": 500,
            "learning_rate": 5e-4,
            "encoder_learning_rate": 2e-4,
            "style_learning_rate": 1e-2,
            "beta2": 0.98,
            "eps": 1e-9,
            "weight_decay": 0.01,
            "averaging": 0.9,
        },
        "export": trained.get("export", {}),
        "run": {
            "directory": str(folder),
            "threads": threads,
            "precision": "bfloat16" if known.get("avx512_bf16") or known.get("amx_bf16") else "float32",
            "patience": _PATIENCE if held_out else 0,
        },
    }
    return config_from_dict(values, source=f"{base}/{CONFIG}")


def _move_back(config: Config, kept: float) -> None:
    """Export the model again, with weights between the old and the new ones."""
    treebank, _ = read_treebank(config)
    starts = (config.initial, str(config.folder))
    old, new = (load_initial(replace(config, initial=start), treebank) for start in starts)
    before = old.state_dict()
    new.load_state_dict({name: before[name].lerp(after, kept) for name, after in new.state_dict().items()})
    result: Any = read_json(config.folder / RESULT)
    finish(config, new, treebank, read_gold(config.data.dev), best_epoch=result["best_epoch"])


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


def _compare(folder: Path, base: Path, style: str) -> tuple[_Scores, _Scores]:
    """Score the old and the new model on the held-out sentences, and compare them on sentences of our own."""
    old, new = load_model(base), load_model(folder / MODEL)
    assert isinstance(old, Model)
    assert isinstance(new, Model)
    path = folder / "data" / HELD_OUT
    held_out: _Scores = {}
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
    return held_out, agreement


def _scores(model: Model, gold: Sequence[WordTree], style: str) -> dict[str, float]:
    found = evaluate_model(model, gold, style=style)
    return {name: round(found.value(name), 2) for name in ("seg", "uf", "lf")}
