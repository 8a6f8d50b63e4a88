"""Choose the sentences of a corpus that would teach a parser most if somebody corrected them.

A sentence is worth its doubt times its novelty:

    doubt     the mean over its words of 1 - P(word): the share of its words that the parser expects to be wrong. A mean,
              because people correct words, and long sentences would win a sum;
    novelty   the share of its pairs of neighbouring characters that no sentence chosen before has. So the choice spreads
              over the corpus instead of asking about one thing again and again.

The best sentence is taken, the novelty of the others falls, and so on. Near-duplicates of what is chosen, with less than
`_NEW` of their pairs new, are never taken, and neither are sentences of fewer than `_SHORTEST` characters.

Novelty only falls, so a value computed earlier is a bound: only the sentence on top of the heap is looked at again. Cost:
that of parsing, and about one look at each pair for every few sentences that are chosen. Memory: all sentences.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zishu.document import Sentence

_NEW: Final = 0.4
_SHORTEST: Final = 5


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A sentence to be corrected."""

    sentence: Sentence
    doubt: float


def suggest(sentences: Iterable[Sentence], number: int) -> list[Suggestion]:
    """Return up to `number` sentences, those first that would teach most; they need probabilities."""
    if number < 1:
        raise InputError(f"the number of sentences must be at least 1, not {number}")
    candidates = []
    pairs_of = []
    for sentence in sentences:
        pairs = frozenset(pairwise(sentence.chars))
        if len(sentence.chars) >= _SHORTEST:
            candidates.append(Suggestion(sentence, doubt(sentence)))
            pairs_of.append(pairs)
    heap = [(-one.doubt, k) for k, one in enumerate(candidates)]
    heapq.heapify(heap)
    seen: set[tuple[str, str]] = set()
    chosen: list[Suggestion] = []
    while heap and len(chosen) < number:
        _, k = heapq.heappop(heap)
        novelty = len(pairs_of[k] - seen) / len(pairs_of[k])
        if novelty < _NEW:
            continue
        worth = candidates[k].doubt * novelty
        if heap and worth < -heap[0][0]:
            heapq.heappush(heap, (-worth, k))
            continue
        chosen.append(candidates[k])
        seen |= pairs_of[k]
    return chosen


def doubt(sentence: Sentence) -> float:
    """Return the share of its words that the parser expects to be wrong in some respect."""
    probabilities = [word.prob for word in sentence]
    known = [prob for prob in probabilities if prob is not None]
    if len(known) < len(probabilities):
        raise InputError("a sentence without probabilities: parse with confidence, by a model that gives it")
    return 1 - sum(known) / len(known)
