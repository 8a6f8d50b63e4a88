"""Write what a model predicts for a gold file, and read it back in place of the model.

A study of many systems and seeds is then made again, or gets one more of them, without parsing, and when the weights
are long gone. The file holds numbers and labels, and none of the treebank's text, which may not be ours to give: words
and characters come from the gold file, whose words a checksum has to fit.
"""

from __future__ import annotations

import hashlib
import json
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from zishu.analysis.study import Predictions
from zishu.errors import InputError
from zishu.tree import WordTree
from zishu.writing import replacing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zishu.analysis.structures import Heads


def write_predictions(run: Predictions, gold: Sequence[WordTree], path: Path) -> None:
    """Write a run's predictions for the gold sentences, a sentence a line; labels by their number in the first line."""
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
    """Read the predictions for the same gold sentences; anything else is an `InputError`."""
    try:
        header, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        name, checksum, labels = header["predictions"], header["gold"], header["labels"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not predictions that `zishu analyse` has kept") from error
    if checksum != _checksum(gold):
        raise InputError(f"{path}: these are predictions for another gold file")
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
    """Put the structures of longer words among those of words of one character, which have but one."""
    longer = [length for length in tree.lengths if length > 1]
    if [len(heads) for heads in structures] != longer:
        raise ValueError("the structures are those of other words")
    found = map(tuple, structures)
    return [next(found) if length > 1 else (0,) for length in tree.lengths]


def _raw(data: dict[str, Any], tree: WordTree, labels: Sequence[str]) -> WordTree:
    """Cut the gold characters into the predicted words."""
    chars = tree.chars
    ends = [*accumulate(data["lengths"], initial=0)]
    if ends[-1] != len(chars):
        raise ValueError("the words are those of another sentence")
    return _tree(data, tuple("".join(chars[start:end]) for start, end in pairwise(ends)), labels)


def _tree(data: dict[str, Any], forms: tuple[str, ...], labels: Sequence[str]) -> WordTree:
    return WordTree(forms, tuple(data["heads"]), tuple(labels[number] for number in data["labels"]))


def _checksum(gold: Sequence[WordTree]) -> str:
    """Return what tells one list of segmented sentences from another."""
    text = "\n".join(" ".join(tree.forms) for tree in gold)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
