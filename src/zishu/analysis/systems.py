"""Find the models of the systems to be studied, run them, and study their predictions.

A system has a name and one model per seed. A model is a model directory, the folder of a training run, a folder of
`seed-*` folders, or predictions that were kept (`predictions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zishu.analysis.predictions import Predictions, predict, read_predictions, write_predictions
from zishu.analysis.runs import seed_folders
from zishu.analysis.study import Study, TokensOrTypes, study
from zishu.errors import InputError
from zishu.formats.conllu import read_conllu
from zishu.model.files import CONFIG
from zishu.model.runtime import load_model
from zishu.model.settings import read_settings
from zishu.treebank.wist import read_wist

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

KEPT: Final = ".predictions"  # ending of the names of kept predictions


def find_systems(named: Mapping[str, Sequence[Path]], unnamed: Sequence[Path] = ()) -> dict[str, list[Path]]:
    """Return the existing models of every system; models without a name form a system named after their settings."""
    systems = {name: [model for path in paths for model in _expand(path)] for name, paths in named.items()}
    if unnamed:
        seeds = [model for path in unnamed for model in _expand(path)]
        names = {path.parent.name if path.suffix == KEPT else read_settings(path).name for path in seeds}
        systems[(names.pop() if len(names) == 1 else "") or "model"] = seeds
    for name, models in systems.items():
        if len({model.resolve() for model in models}) != len(models):
            raise InputError(f"system {name}: a model is given twice, as if it were two seeds")
    return systems


def study_systems(
    systems: Mapping[str, Sequence[Path]],
    gold_path: Path,
    *,
    structures: Path | None = None,
    keep: Path | None = None,
    punct: bool = False,
    count: TokensOrTypes = "tokens",
    say: Callable[[str], None] = lambda _: None,
) -> Study:
    """Parse a gold file with every model, and analyse the predictions; `keep` is a folder for them."""
    reference = None if structures is None else read_wist(structures)
    gold = [sentence.tree() for sentence in read_conllu(gold_path)]
    if not gold:
        raise InputError(f"{gold_path}: no sentences to analyse")
    if any(len({*map(_kept_name, paths)}) < len(paths) for paths in systems.values()) and keep is not None:
        raise InputError("--keep: two models of a system have folders of the same name")
    runs: dict[str, list[Predictions]] = {name: [] for name in systems}
    for name, paths in systems.items():
        for path in paths:
            say(f"{name}: {path}")
            # A model is loaded here and released soon, because a pre-trained encoder is large.
            kept = path.suffix == KEPT
            run = read_predictions(path, gold) if kept else predict(load_model(path), str(path), gold)
            runs[name].append(run)
            # Kept immediately, because a later model may fail.
            if keep is not None:
                write_predictions(run, gold, keep / name / _kept_name(path))
    return study(gold, runs, reference=reference, punct=punct, count=count)


def _kept_name(path: Path) -> str:
    """Return the name of a model's predictions: that of its run, such as seed-0, or its own."""
    return f"{path.stem if path.suffix == KEPT else path.parent.name if path.name == 'model' else path.name}{KEPT}"


def _expand(path: Path) -> list[Path]:
    """Return the models of a path: the path itself, the model of a run, or those of its seeds."""
    kept = [path] if path.suffix == KEPT and path.is_file() else [*path.glob(f"*{KEPT}")]
    kept.sort(key=lambda path: (len(path.name), path.name))  # seed-2 before seed-10
    if kept and not (path / CONFIG).is_file():
        return kept
    seeds = [seed / "model" for seed in seed_folders(path) if (seed / "model").exists()]
    for found in ([path], [path / "model"], seeds):
        if found and all((folder / CONFIG).is_file() for folder in found):
            return found
    raise InputError(f"{path}: neither a model directory nor a training run with one")
