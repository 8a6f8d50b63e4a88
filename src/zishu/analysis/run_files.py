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

from zishu.analysis.study import Run
from zishu.errors import InputError
from zishu.text import characters
from zishu.tree import WordTree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zishu.analysis.structures import Heads


def write_run(run: Run, gold: Sequence[WordTree], path: Path) -> None:
    """Write a run's predictions for the gold sentences, a sentence a line."""
    header = {"predictions": run.name, "gold": _checksum(gold)}
    lines = [json.dumps(header, ensure_ascii=False)]
    for number in range(len(gold)):
        sentence: dict[str, Any] = {"given": _tree_to_dict(run.given[number])}
        if run.inside is not None:
            sentence["inside"] = [heads for heads in run.inside[number] if len(heads) > 1]
        if run.raw is not None:
            raw = run.raw[number]
            sentence["raw"] = {"lengths": raw.lengths, **_tree_to_dict(raw)}
        lines.append(json.dumps(sentence, ensure_ascii=False, separators=(",", ":")))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_run(path: Path, gold: Sequence[WordTree]) -> Run:
    """Read the predictions for the same gold sentences; anything else is an `InputError`."""
    try:
        header, *sentences = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        name, checksum = header["predictions"], header["gold"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not predictions that `zishu analyse` has kept") from error
    if checksum != _checksum(gold):
        raise InputError(f"{path}: these are predictions for another gold file")
    try:
        return _read_sentences(name, sentences, gold)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: the predictions are damaged") from error


def _read_sentences(name: str, sentences: Sequence[dict[str, Any]], gold: Sequence[WordTree]) -> Run:
    pairs = list(zip(sentences, gold, strict=True))
    return Run(
        name=name,
        given=[_tree_from_dict(sentence["given"], tree.forms) for sentence, tree in pairs],
        inside=[_inside(sentence["inside"], tree) for sentence, tree in pairs]
        if "inside" in sentences[0]
        else None,
        raw=[_raw(sentence["raw"], tree) for sentence, tree in pairs] if "raw" in sentences[0] else None,
    )


def _inside(structures: Sequence[Sequence[int]], tree: WordTree) -> list[Heads]:
    """Put the structures of longer words among those of words of one character, which have but one."""
    longer = [length for length in tree.lengths if length > 1]
    if [len(heads) for heads in structures] != longer:
        raise ValueError("the structures are those of other words")
    found = map(tuple, structures)
    return [next(found) if length > 1 else (0,) for length in tree.lengths]


def _raw(data: dict[str, Any], tree: WordTree) -> WordTree:
    """Cut the gold characters into the predicted words."""
    chars = [char for form in tree.forms for char in characters(form)]
    ends = [*accumulate(data["lengths"], initial=0)]
    if ends[-1] != len(chars):
        raise ValueError("the words are those of another sentence")
    return _tree_from_dict(data, tuple("".join(chars[start:end]) for start, end in pairwise(ends)))


def _tree_to_dict(tree: WordTree) -> dict[str, Any]:
    return {"heads": tree.heads, "deprels": tree.deprels}


def _tree_from_dict(data: dict[str, Any], forms: tuple[str, ...]) -> WordTree:
    return WordTree(forms, tuple(data["heads"]), tuple(data["deprels"]))


def _checksum(gold: Sequence[WordTree]) -> str:
    """Return what tells one list of segmented sentences from another."""
    text = "\n".join(" ".join(tree.forms) for tree in gold)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
