"""Score attachment by the length of the word, with given segmentation: Figure 4 of the paper.

A word counts under its own number of characters, and right is a word whose head is right. Punctuation is left
out unless asked for, as everywhere in `zishu.metrics`, which does the counting.
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
    """The UAS of the words of one length in per cent, by seed; None if there is no such word."""

    words: int
    uas: Average | None

    def as_dict(self) -> dict[str, Any]:
        """Return the count and the scores as plain objects."""
        return {"words": self.words, "uas": self.uas and self.uas.as_dict()}


def uas_by_length(
    gold: Sequence[WordTree], seeds: Sequence[Sequence[WordTree]], *, punct: bool = False
) -> dict[str, Attachment]:
    """Score the trees of each seed, which must have the gold words, by the lengths of `zishu.metrics`."""
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
