"""Score attachment by word length, with given segmentation: Figure 4 of the paper.

A word is counted under its number of characters, and it is correct if its head is. `zishu.metrics` does the counting;
as everywhere, it skips punctuation unless told otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zishu.errors import InputError
from zishu.metrics import LENGTHS, Average, evaluate, pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zishu.tree import WordTree


@dataclass(frozen=True, slots=True)
class Attachment:
    """Hold the UAS of the words of one length in per cent, by seed; None if there is no such word."""

    words: int
    uas: Average | None

    def as_dict(self) -> dict[str, Any]:
        """Return the count and the scores as plain objects."""
        return {"words": self.words, "uas": self.uas and self.uas.as_dict()}


def uas_by_length(
    gold: Sequence[WordTree], seeds: Sequence[Sequence[WordTree]], *, punct: bool = False
) -> dict[str, Attachment]:
    """Score the trees of each seed by word length; they must have the gold words."""
    scored = [evaluate(pair(gold, trees), punct=punct).scores for trees in seeds]
    if not scored:
        raise InputError("attachment by length needs the predictions of at least one seed")
    table = {}
    for length in LENGTHS:
        at = [scores.by_length[length] for scores in scored]
        words = at[0].uf.gold
        values = [scores.uas for scores in at]
        if None in values:
            raise InputError("attachment by length needs predictions with the gold words")
        known = tuple(value for value in values if value is not None)
        table[length] = Attachment(words, Average(known) if words else None)
    return table
