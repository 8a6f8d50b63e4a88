"""Create sentences for models from characters or words, without a text, and network outputs for them."""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

from zishu.gaps import word_gaps
from zishu.model import decode as decoding
from zishu.model.batch import ScoredBatch
from zishu.model.segments import decode_segments
from zishu.sentences import word_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zishu.document import Sentence
    from zishu.model.outputs import Outputs
    from zishu.model.settings import Settings
    from zishu.text import RawSentence


def chars(units: Sequence[str], gaps: Any = None) -> RawSentence:
    """Return a sentence of these characters; nothing else is known about its words."""
    return replace(word_sentence(units), gaps=gaps)


def all_chars(sentences: Iterable[Sequence[str]], gaps: Iterable[Any] | None = None) -> list[RawSentence]:
    return [chars(units, known) for units, known in zip(sentences, gaps or repeat(None), strict=False)]


def all_words(sentences: Iterable[Sequence[str]]) -> list[RawSentence]:
    return list(map(word_sentence, sentences))


def batch_of(
    outputs: Outputs, sentences: Sequence[RawSentence], settings: Settings, scorer: Any
) -> ScoredBatch:
    """Return a batch whose labels are scored by a function of the two ends of arcs."""
    return ScoredBatch(outputs.with_labels(scorer), sentences, settings)


def decode(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    scorer: Any,
    *,
    gaps: Any = None,
    **more: Any,
) -> list[Sentence]:
    """Decode sentences of characters or, for the task "parse-words", of words."""
    return decoding.decode(batch_of(outputs, _sentences(units, settings, gaps), settings, scorer), **more)


def decode_k_best(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    scorer: Any,
    k: int,
    *,
    gaps: Any = None,
) -> list[list[Sentence]]:
    return decoding.decode_k_best(batch_of(outputs, _sentences(units, settings, gaps), settings, scorer), k)


def decode_words(
    outputs: Outputs, units: Sequence[Sequence[str]], settings: Settings, *, gaps: Any = None
) -> list[tuple[str, ...]]:
    """Decode the scores of a segmenter."""
    batch = ScoredBatch(outputs, all_chars(units, gaps), settings)
    return [words_of(*pair) for pair in zip(batch.sentences, decode_segments(batch), strict=True)]


def words_of(sentence: RawSentence, segments: Any) -> tuple[str, ...]:
    """The words that a segmenter found."""
    parts = replace(sentence, gaps=word_gaps(segments.lengths)).word_lengths
    assert parts == segments.lengths
    found, start = [], 0
    for size in parts:
        found.append("".join(sentence.chars[start : start + size]))
        start += size
    return tuple(found)


def _sentences(units: Sequence[Sequence[str]], settings: Settings, gaps: Any) -> list[RawSentence]:
    return all_words(units) if settings.task == "parse-words" else all_chars(units, gaps)


def inner_trees(sentence: Sentence) -> tuple[tuple[int, ...] | None, ...]:
    return tuple(word.char_heads for word in sentence)


def boundary_probs(sentence: Sentence) -> tuple[float | None, ...]:
    return tuple(word.boundary_prob for word in sentence)


def head_probs(sentence: Sentence) -> tuple[float | None, ...]:
    return tuple(word.head_prob for word in sentence)


def label_probs(sentence: Sentence) -> tuple[float | None, ...]:
    return tuple(word.label_prob for word in sentence)
