"""Parse the gold sentences of a study with a model, and keep what it predicts.

With kept predictions a study of many systems and seeds can be repeated or extended without parsing, even if the weights
no longer exist. Their file holds only numbers and labels, because the treebank's text may not be ours to distribute.
Words and characters come from the gold file, and a checksum makes sure that its words are the same.

Cost: a model parses the gold file twice.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from zishu.errors import InputError
from zishu.model.decode import paper_decoding
from zishu.model.model import Model, Pipeline, gold_sentence, parse_trees
from zishu.tree import WordTree
from zishu.writing import replacing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zishu.analysis.structures import Heads


@dataclass(frozen=True, slots=True)
class Predictions:
    """Hold one model's predictions for the gold sentences."""

    name: str
    given: Sequence[WordTree]  # trees over the gold words
    inside: Sequence[Sequence[Heads]] | None  # the structure of every gold word; None for word-level parsers
    raw: Sequence[WordTree] | None  # trees from characters alone; None for models that need words


def predict(model: Model | Pipeline, name: str, gold: Sequence[WordTree]) -> Predictions:
    """Parse the gold sentences as the paper does: with gold words, and from characters alone."""
    if not model.settings.can.parses:
        raise InputError(f"{name}: a segmenter predicts no trees")
    given = model.parse([gold_sentence(tree, words=True) for tree in gold], decoding="viterbi")
    inside = [tuple([word.char_heads for word in sentence if word.char_heads]) for sentence in given]
    raw = None
    if model.settings.can.finds_words:
        raw = parse_trees(model, gold, decoding=paper_decoding(model.settings))
    trees = [sentence.tree for sentence in given]
    return Predictions(name, trees, inside if all(inside) else None, raw)


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
