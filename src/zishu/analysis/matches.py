"""Compare predicted structures with a lexicon of annotated ones: complete match, and its many-to-one form.

This follows Appendix B.2 and Table 8 of the paper. The paper counts word types; here the caller decides between tokens
and types (`zishu.analysis.study`). Only words of two or more characters that have an entry in the lexicon are counted.

    CM    the share of words whose predicted structure equals the lexicon's, averaged over seeds
    M-1   the share of words where at least one seed predicts the lexicon's structure

For one seed M-1 equals CM, and adding a seed never lowers M-1: compare it only between systems with the same number of
seeds. Cost: one lookup per word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zishu.errors import InputError
from zishu.metrics import Average
from zishu.text import characters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zishu.analysis.structures import Heads

ALL: Final = "all"
_LENGTHS: Final = ("2", "3", "4+")


@dataclass(frozen=True, slots=True)
class Matches:
    """Count the words found in the lexicon, and those with its structure: for each seed, and for any seed."""

    words: int
    by_seed: tuple[int, ...]
    by_any: int

    @property
    def cm(self) -> Average | None:
        """Return the complete match in per cent; None if no word is in the lexicon."""
        return Average(tuple(100 * right / self.words for right in self.by_seed)) if self.words else None

    @property
    def many_to_one(self) -> float | None:
        """Return the many-to-one complete match in per cent; None if no word is in the lexicon."""
        return 100 * self.by_any / self.words if self.words else None

    def as_dict(self) -> dict[str, Any]:
        """Return the counts and the scores as plain objects."""
        cm = self.cm
        return {
            "words": self.words,
            "by_seed": list(self.by_seed),
            "by_any": self.by_any,
            "cm": cm and cm.as_dict(),
            "m1": self.many_to_one,
        }


def complete_match(
    words: Sequence[str], seeds: Sequence[Sequence[Heads]], reference: Mapping[str, Heads]
) -> dict[str, Matches]:
    """Count the matches of all words and by word length, under the keys ALL and _LENGTHS.

    `seeds` holds the predicted structure of every word for each seed.
    """
    if not seeds:
        raise InputError("complete match needs the predictions of at least one seed")
    if any(len(seed) != len(words) for seed in seeds):
        raise InputError("a seed has predictions for other words")
    found = {name: [0, 0, *(0 for _ in seeds)] for name in (ALL, *_LENGTHS)}
    for number, form in enumerate(words):
        length = len(characters(form))
        if length < 2 or form not in reference:
            continue
        right = [seed[number] == reference[form] for seed in seeds]
        for name in (ALL, _LENGTHS[min(length, 4) - 2]):
            counts = found[name]
            found[name] = [old + new for old, new in zip(counts, (1, any(right), *right), strict=True)]
    return {name: Matches(total, tuple(by_seed), by_any) for name, (total, by_any, *by_seed) in found.items()}
