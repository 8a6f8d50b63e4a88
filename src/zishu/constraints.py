"""Turn what is known about the words of a text into one value per gap between two characters.

There are five sources: white space separates words; a *pin* is a span that must be one word; a *break* is an offset
that no word crosses; a lexicon lists words that are kept whole wherever they occur; some tokens are recognised by their
form (`zishu.patterns`). Pins and breaks hold exactly or raise an error with their offsets. Lexicon words give way to
them, and patterns to all others. Offsets count code points of the text.

A pin or a lexicon word may contain a mark that ends sentences (你好！李焕英), or lie where a long sentence was cut. The two
sentences are then joined or, if that would exceed the limit, cut next to it. (A lexicon word that spans three sentences
is not found.)

No model is needed. Cost: linear in the text, times the length of the longest lexicon word; a few microseconds per pin.
`mend` works lazily, so a caller can stop at any sentence.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING

import numpy as np

from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, JOIN
from zishu.patterns import Token, find_tokens
from zishu.text import LIMIT, RawSentence, characters

if TYPE_CHECKING:
    from zishu.lexicon import Lexicon

Span = tuple[int, int]
Pin = Span
# What is known about the gap before the character at an offset: a value of `zishu.gaps`.
Marks = Mapping[int, int]
# Parts of speech by the offsets where pinned words begin.
TagsLike = Mapping[int, str] | Iterable[tuple[int, str]]

_SPACE = re.compile(r"\s")


def constrain(
    sentences: Iterable[RawSentence], marks: Marks, lexicon: Lexicon | None, *, patterns: bool
) -> Iterator[RawSentence]:
    """Yield the sentences of a text with everything that is known about their words, ready for a model.

    With `patterns`, tokens that are recognised by their form are kept whole.
    """
    for sentence in mend(sentences, marks, lexicon):
        tokens = list(find_tokens(sentence.text)) if patterns else []
        if marks or lexicon or tokens or sentence.breaks:
            _fill_gaps(sentence, marks, lexicon, tokens)
        yield sentence


def given_gaps(sentence: RawSentence, marks: Marks) -> bytearray:
    """Return what marks and white space say about the gaps, one byte each, which Python reads fastest."""
    n = len(sentence)
    gaps = bytearray(n + 1)
    gaps[0] = BREAK
    if marks:
        gaps[1:n] = bytes(marks.get(start, FREE) for start in sentence.starts[1:])
    for k in sentence.breaks:
        gaps[k] = BREAK
    return gaps


def _fill_gaps(sentence: RawSentence, marks: Marks, lexicon: Lexicon | None, tokens: Iterable[Token]) -> None:
    """Store in a sentence what is known about its gaps and its tags."""
    gaps = given_gaps(sentence, marks)
    bare = _look_up(sentence, gaps, lexicon) if lexicon else None
    for start, end, ends, upos in tokens:
        first = bisect_left(sentence.starts, sentence.start + start)
        last = bisect_left(sentence.starts, sentence.start + end)
        if upos:
            sentence.tags = {(first + 1, last + 1): upos, **sentence.tags}
        for known in (gaps,) if bare is None else (gaps, bare):
            _keep_whole(known, first, last, ends=ends)
    sentence.gaps = np.frombuffer(gaps, dtype=np.int8)
    if bare is not None:
        sentence.gaps_without_lexicon = np.frombuffer(bare, dtype=np.int8)


def _look_up(sentence: RawSentence, gaps: bytearray, lexicon: Lexicon) -> bytearray | None:
    """Find the lexicon words and record them; return the gaps without them, None if there are no such words."""
    bare, chars = bytearray(gaps), sentence.chars
    if lexicon.soft:
        found = lexicon.occurrences(chars, gaps)
        if found:
            sentence.favoured = np.array(lexicon.favour(found, len(chars)))
        spans = [(first, last) for first, last, _ in found]
    else:
        spans = list(lexicon.matches(chars, gaps))
        for first, last in spans:
            _keep_whole(gaps, first, last)
    tagged = ((first, last, lexicon.entry(chars[first:last]).upos) for first, last in spans)
    sentence.tags = {(first + 1, last + 1): upos for first, last, upos in tagged if upos}
    return bare if spans else None


def _keep_whole(gaps: bytearray, first: int, last: int, *, ends: bool = True) -> None:
    """Join the characters of a word, with boundaries on both sides if it `ends` there; known gaps stay."""
    if BREAK in gaps[first + 1 : last]:
        return
    gaps[first + 1 : last] = bytes((JOIN,)) * (last - first - 1)
    for place in (first, last) if ends else ():
        if 0 < place < len(gaps) - 1 and gaps[place] == FREE:
            gaps[place] = BREAK


def mend(
    sentences: Iterable[RawSentence], marks: Marks, lexicon: Lexicon | None, limit: int = LIMIT
) -> Iterator[RawSentence]:
    """Yield the sentences of a text so that none ends inside a pin or a lexicon word."""
    # A soft lexicon does not move the ends of sentences.
    lexicon = lexicon if lexicon and not lexicon.soft else None
    if not (marks or lexicon):
        yield from sentences
        return
    left: RawSentence | None = None
    certain = 0  # no text after `left` can change which lexicon words begin before this character
    for right in sentences:
        if left is None:
            left = right
            continue
        span, certain = _word_across(left, right, marks, lexicon, certain, limit)
        if span is None:
            yield left
            left, certain = right, 0
        else:
            *done, left = rejoin(left + right, *span, limit)
            yield from done
            certain = 0 if done else certain
    if left is not None:
        yield left


def _word_across(
    left: RawSentence, right: RawSentence, marks: Marks, lexicon: Lexicon | None, certain: int, limit: int
) -> tuple[Span | None, int]:
    """Return the characters of two sentences, counted from 0, that must be one word across both, if any.

    Also returns `certain` for the two together (see `mend`).
    """
    border = left.end
    if border != right.start:
        return None, 0
    known = marks.get(border, FREE)
    if known == JOIN:
        first, last = len(left) - 1, 1
        while first and marks.get(left.starts[first]) == JOIN:
            first -= 1
        while last < len(right) and marks.get(right.starts[last]) == JOIN:
            last += 1
        return (first, len(left) + last), certain
    if known == FREE and lexicon and lexicon.straddles(left.chars, right.chars):
        return _lexicon_word_across(left, right, marks, lexicon, certain, limit)
    return None, 0


def _lexicon_word_across(
    left: RawSentence, right: RawSentence, marks: Marks, lexicon: Lexicon, certain: int, limit: int
) -> tuple[Span | None, int]:
    """Look for a lexicon word across the border; only what is not yet certain is searched again."""
    # One more character on both sides: whether a word may begin or end there depends on its neighbour.
    skipped = max(0, certain - 1)
    tail = left.part(skipped, len(left)) + right.part(0, min(len(right), lexicon.longest))
    border = len(left) - skipped
    first_open: int | None = None
    for start, end, is_open in lexicon.scan(tail.chars, given_gaps(tail, marks), certain - skipped):
        if start >= border:
            break
        if first_open is None and (is_open or end >= border):
            first_open = start
        if border < end <= start + limit:
            assert first_open is not None
            return (skipped + start, skipped + end), skipped + first_open
    return None, 0


def rejoin(both: RawSentence, first: int, last: int, limit: int) -> list[RawSentence]:
    """Split two joined sentences again if they are too long, next to a word that lies on the border."""
    if len(both) <= limit:
        return [both]
    places = [0, len(both)]
    if first:
        places.insert(1, first)
    if len(both) - first > limit:
        places.insert(-1, last)
    return [both.part(a, b) for a, b in pairwise(places)]


def read_marks(
    text: str, sentences: Sequence[RawSentence], pins: Iterable[Pin], breaks: Iterable[int]
) -> dict[int, int]:
    """Return what is known about the gaps before offsets; raise `InputError` for contradictions.

    Pins and breaks are checked against the text and each other.
    """
    starts = [sentence.start for sentence in sentences]

    def check_not_inside(offset: int, name: str) -> None:
        """Reject an offset inside a character."""
        number = bisect_right(starts, offset) - 1
        if number >= 0:
            sentence = sentences[number]
            place = bisect_right(sentence.starts, offset) - 1
            start, end = sentence.starts[place], sentence.ends[place]
            if start < offset < end:
                raise InputError(f"the {name} splits the character {start}:{end}")

    ordered = sorted({_pair(pin) for pin in pins})
    for start, end in ordered:
        if start >= end:
            raise InputError(
                f"the pin {start}:{end} {'is empty' if start == end else 'ends before it begins'}"
            )
        if start < 0 or end > len(text):
            raise InputError(f"the pin {start}:{end} is out of range: the text has {len(text)} code points")
    for one, other in pairwise(ordered):
        if other[0] < one[1]:
            raise InputError(f"the pin {one[0]}:{one[1]} and the pin {other[0]}:{other[1]} overlap")
    marks: dict[int, int] = {}
    # Look into the pins only now: since they do not overlap, this is linear in the text.
    for start, end in ordered:
        name = f"pin {start}:{end}"
        if space := _SPACE.search(text, start, end):
            raise InputError(f"the {name} contains white space at {space.start()}, which separates words")
        check_not_inside(start, name)
        check_not_inside(end, name)
        if end - start > LIMIT and (size := len(characters(text[start:end]))) > LIMIT:
            raise InputError(f"the {name} has {size} characters, more than the {LIMIT} of a sentence")
        marks[start] = marks[end] = BREAK
        marks.update(dict.fromkeys(range(start + 1, end), JOIN))
    for offset in map(_offset, breaks):
        if not 0 <= offset <= len(text):
            raise InputError(f"the break at {offset} is out of range: the text has {len(text)} code points")
        check_not_inside(offset, f"break at {offset}")
        if marks.get(offset) == JOIN:
            start, end = ordered[bisect_left(ordered, (offset, 0)) - 1]
            raise InputError(f"the break at {offset} lies inside the pin {start}:{end}")
        marks[offset] = BREAK
    return marks


def read_tags(tags: TagsLike, known: Sequence[str] | None = None) -> dict[int, str]:
    """Return parts of speech by the offsets of their words.

    Raise `InputError` for anything else, and for one that is not `known` to the model.
    """
    try:
        found = {index(start): tag for start, tag in dict(tags).items()}
    except (TypeError, ValueError):
        raise InputError(
            f"tags are pairs (offset of a pinned word, part of speech), not {tags!r:.60}"
        ) from None
    for tag in found.values():
        if not isinstance(tag, str):
            raise InputError(f"a part of speech is a string, not {tag!r:.40}")
        if known is not None and tag not in known:
            raise InputError(f"unknown part of speech {tag!r}: this model has {', '.join(known) or 'none'}")
    return found


def _pair(pin: Pin) -> Pin:
    try:
        start, end = map(index, pin)
    except (TypeError, ValueError):
        raise InputError(f"a pin is a pair of offsets (start, end), not {pin!r}") from None
    return start, end


def _offset(offset: int) -> int:
    try:
        return index(offset)
    except TypeError:
        raise InputError(f"a break is an offset, not {offset!r}") from None
