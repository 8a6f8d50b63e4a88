"""Compare predicted structures with a lexicon of annotated ones: complete match, and its many-to-one form.

As in Appendix B.2 and Table 8 of the paper. Its words are types; here they are what the caller counts, tokens or
types (`zishu.analysis.study`). Counted are those of two or more characters that the lexicon has an entry for.

    CM    the share of these words whose predicted structure is that of the lexicon; the mean over the seeds
    M-1   the share of these words where the prediction of at least one seed is that of the lexicon

M-1 of one seed is CM, and M-1 never falls when a seed is added: compare it only between systems with
the same number of seeds. Cost: one look-up a word.
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
    """How many words of the lexicon there are, and how many have its structure: by seed, and by any seed."""

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
    """Count the matches of all words and by word length: keys ALL and _LENGTHS.

    `seeds` holds, for each seed, the predicted structure of every word.
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
