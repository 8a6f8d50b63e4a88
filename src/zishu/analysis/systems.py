"""Find the models of the systems to be studied, run them, and keep their predictions.

A system has a name and one model per seed. A model is a model directory, the folder of a training run, a folder of
`seed-*` folders, or predictions that were kept. With kept predictions a study of many systems and seeds can be repeated
or extended without parsing, even if the weights no longer exist. Their file holds only numbers and labels, because the
treebank's text may not be ours to distribute. Words and characters come from the gold file, and a checksum makes sure
that its words are the same.
"""

from __future__ import annotations

import hashlib
import json
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final

from zishu.analysis.runs import seed_folders
from zishu.analysis.study import Predictions, Study, TokensOrTypes, predict, study
from zishu.errors import InputError
from zishu.formats.conllu import read_conllu
from zishu.model.runtime import load_model
from zishu.model.settings import CONFIG, read_settings
from zishu.tree import WordTree
from zishu.treebank.wist import read_wist
from zishu.writing import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from zishu.analysis.structures import Heads

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


# --- kept predictions ---------------------------------------------------------------------------------------------


def write_predictions(run: Predictions, gold: Sequence[WordTree], path: Path) -> None:
    """Write a run's predictions, one line per sentence; labels are indices into the list in the first line."""
    labels = sorted({label for tree in (*run.given, *(run.raw or ())) for label in tree.deprels})
    numbers = {label: number for number, label in enumerate(labels)}

    def to_dict(tree: WordTree) -> dict[str, Any]:
        return {"heads": tree.heads, "labels": [numbers[label] for label in tree.deprels]}

    lines: list[dict[str, Any]] = [{"predictions": run.name, "gold": _checksum(gold), "labels": labels}]
    for number in range(len(gold)):
        line: dict[str, Any] = {"given": to_dict(run.given[number])}
        if run.inside is not None:
            line["inside"] = [heads for heads in run.inside[number] if len(heads) > 1]
        if run.raw is not None:
            raw = run.raw[number]
            line["raw"] = {"lengths": raw.lengths, **to_dict(raw)}
        lines.append(line)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{json.dumps(line, ensure_ascii=False, separators=(',', ':'))}\n" for line in lines)
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def read_predictions(path: Path, gold: Sequence[WordTree]) -> Predictions:
    """Read the predictions for the same gold sentences; anything else raises `InputError`."""
    try:
        header, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        name, checksum, labels = header["predictions"], header["gold"], header["labels"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not predictions saved by `zishu analyse`") from error
    if checksum != _checksum(gold):
        raise InputError(f"{path}: the predictions are for another gold file")
    try:
        pairs = list(zip(lines, gold, strict=True))
        return Predictions(
            name=name,
            given=[_tree(line["given"], tree.forms, labels) for line, tree in pairs],
            inside=[_inside(line["inside"], tree) for line, tree in pairs] if "inside" in lines[0] else None,
            raw=[_raw(line["raw"], tree, labels) for line, tree in pairs] if "raw" in lines[0] else None,
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"{path}: the predictions are damaged") from error


def _inside(structures: Sequence[Sequence[int]], tree: WordTree) -> list[Heads]:
    """Add the only possible structure for each one-character word to those of the longer words."""
    longer = [length for length in tree.lengths if length > 1]
    if [len(heads) for heads in structures] != longer:
        raise ValueError("the structures belong to other words")
    found = map(tuple, structures)
    return [next(found) if length > 1 else (0,) for length in tree.lengths]


def _raw(data: dict[str, Any], tree: WordTree, labels: Sequence[str]) -> WordTree:
    """Split the gold characters into the predicted words."""
    chars = tree.chars
    ends = [*accumulate(data["lengths"], initial=0)]
    if ends[-1] != len(chars):
        raise ValueError("the words belong to another sentence")
    return _tree(data, tuple("".join(chars[start:end]) for start, end in pairwise(ends)), labels)


def _tree(data: dict[str, Any], forms: tuple[str, ...], labels: Sequence[str]) -> WordTree:
    return WordTree(forms, tuple(data["heads"]), tuple(labels[number] for number in data["labels"]))


def _checksum(gold: Sequence[WordTree]) -> str:
    """Return a checksum of the segmented sentences."""
    text = "\n".join(" ".join(tree.forms) for tree in gold)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
