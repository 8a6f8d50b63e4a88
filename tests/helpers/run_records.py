"""Write the records of training runs by hand, with scores that can be computed in one's head."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import zishu
from zishu.metrics import Evaluation, evaluate, evaluation_file, save_evaluation
from zishu.tree import WordTree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GOLD = WordTree(("他", "走", "了"), (2, 0, 2), ("nsubj", "root", "aux"))
JOINED = -1
# Predictions by their number of correct arcs out of three. JOINED has other words and two arcs, both wrong.
PREDICTIONS = {
    3: GOLD,
    2: WordTree(GOLD.forms, (2, 0, 1), GOLD.deprels),
    1: WordTree(GOLD.forms, (2, 3, 0), GOLD.deprels),
    0: WordTree(GOLD.forms, (0, 1, 1), GOLD.deprels),
    JOINED: WordTree(("他", "走了"), (2, 0), ("nsubj", "root")),
}
SIGNATURE = f"punct:no|labels:full|version:zishu-{zishu.__version__}"


def evaluation(right: Sequence[int]) -> Evaluation:
    """Evaluate a system with the given number of correct arcs in each sentence; UF and LF are their share."""
    return evaluate((GOLD, PREDICTIONS[k]) for k in right)


def write_run(
    folder: Path,
    name: str,
    seed: int,
    right: Sequence[int],
    *,
    part: str = "dev",
    given_words: bool = False,
    keep: bool = True,
) -> Path:
    """Write the files of a training run: result.json and, unless omitted, the evaluation behind it."""
    scored = evaluation(right)
    metrics = ("uf", "lf", "ucm", "lcm") if given_words else ("seg", "uf", "lf", "ucm", "lcm")
    folder.mkdir(parents=True, exist_ok=True)
    result = {"name": name, "seed": seed, "best_epoch": 3}
    if (folder / "result.json").exists():
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    key = f"{part}_given_words" if given_words else part
    result[key] = {metric: round(scored.value(metric), 3) for metric in metrics}  # type: ignore[assignment]
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    if keep:
        save_evaluation(scored, folder / evaluation_file(part, given_words=given_words))
    return folder
