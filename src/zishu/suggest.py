"""Choose the sentences of a corpus from which a parser would learn most if somebody corrected them.

The value of a sentence is the number of words that somebody would correct in it, per effort, times its novelty:

    doubt     the mean over its words of 1 - P(word): the share of its words that the parser expects to be wrong.
    effort    one unit per word, which must be read, and `_OPENING` units per sentence. Without the latter, short
              sentences would be chosen too often; without the former, only long ones.
    novelty   the share of its pairs of neighbouring characters that occur in no sentence chosen so far. This spreads the
              choice over the corpus.

The search is greedy: take the best sentence, lower the novelty of the others, repeat. It never takes near-duplicates of
chosen sentences (less than `_NEW` of their pairs are new) or sentences of fewer than `_SHORTEST` characters.

Novelty only falls, so an earlier value is an upper bound, and only the sentence on top of the heap is evaluated again.
Most of the time goes into parsing. All sentences are kept in memory.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from zishu.errors import InputError
from zishu.reading import Input
from zishu.sentences import stream_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zishu.document import Sentence
    from zishu.lexicon import Lexicon
    from zishu.parser import Parser
    from zishu.text import RawSentence

_OPENING: Final = 5
_NEW: Final = 0.4
_SHORTEST: Final = 5


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A sentence to be corrected."""

    sentence: Sentence
    doubt: float

    @property
    def worth(self) -> float:
        """Return the expected number of corrections per effort."""
        return self.doubt * len(self.sentence) / (len(self.sentence) + _OPENING)


def suggest(sentences: Iterable[Sentence], number: int) -> list[Suggestion]:
    """Return up to `number` sentences, the most useful ones first. The sentences must have probabilities."""
    if number < 1:
        raise InputError(f"the number of sentences must be at least 1, not {number}")
    candidates = [Suggestion(one, doubt(one)) for one in sentences if len(one.chars) >= _SHORTEST]
    pairs_of = [frozenset(pairwise(one.sentence.chars)) for one in candidates]
    heap = [(-one.worth, k) for k, one in enumerate(candidates)]
    heapq.heapify(heap)
    seen: set[tuple[str, str]] = set()
    chosen: list[Suggestion] = []
    while heap and len(chosen) < number:
        _, k = heapq.heappop(heap)
        novelty = len(pairs_of[k] - seen) / len(pairs_of[k])
        if novelty < _NEW:
            continue
        worth = candidates[k].worth * novelty
        if heap and worth < -heap[0][0]:
            heapq.heappush(heap, (-worth, k))
            continue
        chosen.append(candidates[k])
        seen |= pairs_of[k]
    return chosen


def suggest_from_files(
    parser: Parser, paths: Sequence[str], number: int, *, lexicon: Lexicon | None = None, most: int = 20_000
) -> tuple[list[Suggestion], int]:
    """Do the same for files of raw text (`-` is standard input); also return how many sentences they have.

    At most `most` sentences are parsed, evenly spread over the files.
    """
    raw: list[RawSentence] = []
    for path in paths:
        with Input(path) as text:
            raw += stream_sentences(text.blocks(), lexicon=lexicon)
    if not raw:
        raise InputError(f"{', '.join(paths)}: no sentences found")
    step = max(1.0, len(raw) / most)
    chosen = [raw[int(k * step)] for k in range(min(len(raw), most))]
    found = suggest((sentence for [sentence] in parser.analyse(chosen)), number)
    if not found:
        raise InputError(f"{', '.join(paths)}: all sentences are too short")
    return found, len(raw)


def doubt(sentence: Sentence) -> float:
    """Return the share of its words that the parser expects to be wrong in some respect."""
    probabilities = [word.prob for word in sentence]
    known = [prob for prob in probabilities if prob is not None]
    if len(known) < len(probabilities):
        raise InputError("a sentence has no probabilities: parse with confidence=True")
    return 1 - sum(known) / len(known)
