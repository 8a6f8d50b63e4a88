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
from dataclasses import dataclass, field
from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING

import numpy as np

from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, JOIN
from zishu.patterns import find_tokens
from zishu.text import LIMIT, RawSentence, characters

if TYPE_CHECKING:
    from zishu.lexicon import Lexicon

Pin = tuple[int, int]
# Parts of speech by the offsets where pinned words begin.
TagsLike = Mapping[int, str] | Iterable[tuple[int, str]]

_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Constraints:
    """Hold what is known about the words of a text besides its white space."""

    # What is known about the gap before the character at an offset.
    marks: Mapping[int, int] = field(default_factory=dict)
    lexicon: Lexicon | None = None
    limit: int = LIMIT
    patterns: bool = False  # whether to keep tokens that are recognised by their form

    def apply(self, sentences: Iterable[RawSentence]) -> Iterator[RawSentence]:
        """Yield the sentences of a text with everything that is known about their words, ready for a model."""
        for sentence in self.mend(sentences):
            known = self.gaps(sentence)
            if known is not None:
                sentence.gaps = np.frombuffer(known, dtype=np.int8)
            yield sentence

    def gaps(self, sentence: RawSentence) -> bytearray | None:
        """Return the gaps of a sentence, one byte each, which Python reads fastest; None if all are free.

        Other information from a lexicon is stored in the sentence.
        """
        n = len(sentence)
        # Without white space and multi-code-point characters, which is common, offsets simply add up.
        spaces = () if sentence.end - sentence.start == n else sentence.breaks
        tokens = list(find_tokens(sentence.text)) if self.patterns else ()
        if not (spaces or self.marks or self.lexicon or tokens):
            return None
        gaps = bytearray(n + 1)
        gaps[0] = BREAK
        if self.marks:
            gaps[1:n] = bytes(self.marks.get(start, FREE) for start in sentence.starts[1:])
        for k in spaces:
            gaps[k] = BREAK
        bare = self._look_up(sentence, gaps) if self.lexicon else None
        for start, end, ends, upos in tokens:
            if upos:
                first = bisect_left(sentence.starts, sentence.start + start) + 1
                last = bisect_left(sentence.starts, sentence.start + end) + 1
                sentence.tags = {(first, last): upos, **sentence.tags}
            for known in (gaps,) if bare is None else (gaps, bare):
                _keep_token(sentence, known, sentence.start + start, sentence.start + end, ends=ends)
        if bare is not None:
            sentence.gaps_without_lexicon = np.frombuffer(bare, dtype=np.int8)
        return gaps

    def _look_up(self, sentence: RawSentence, gaps: bytearray) -> bytearray | None:
        """Find the lexicon words and record them; return the gaps without them, None if there are no such words."""
        assert self.lexicon is not None
        bare, chars, n = bytearray(gaps), sentence.chars, len(sentence)
        if self.lexicon.soft:
            found = self.lexicon.occurrences(chars, gaps)
            if found:
                sentence.favoured = np.array(self.lexicon.favour(found, n))
            spans = [(first, last) for first, last, _ in found]
        else:
            spans = list(self.lexicon.matches(chars, gaps))
            for first, last in spans:
                gaps[first + 1 : last] = bytes((JOIN,)) * (last - first - 1)
                gaps[first] = BREAK
                if last < n:
                    gaps[last] = BREAK
        tagged = ((first, last, self.lexicon.entry(chars[first:last]).upos) for first, last in spans)
        sentence.tags = {(first + 1, last + 1): upos for first, last, upos in tagged if upos}
        return bare if spans else None

    def mend(self, sentences: Iterable[RawSentence]) -> Iterator[RawSentence]:
        """Yield the sentences of a text so that none ends inside a pin or a lexicon word."""
        # A soft lexicon does not move the ends of sentences.
        if not (self.marks or (self.lexicon and not self.lexicon.soft)):
            yield from sentences
            return
        left: RawSentence | None = None
        certain = 0  # no text after `left` can change which lexicon words begin before this character
        for right in sentences:
            if left is None:
                left = right
                continue
            bridge, certain = self._bridge(left, right, certain)
            if bridge is None:
                yield left
                left, certain = right, 0
            else:
                *done, left = self._rejoin(left + right, *bridge)
                yield from done
                certain = 0 if done else certain
        if left is not None:
            yield left

    def _bridge(
        self, left: RawSentence, right: RawSentence, certain: int
    ) -> tuple[tuple[int, int] | None, int]:
        """Return the characters of two sentences, counted from 0, that must be one word across both, if any.

        Also returns `certain` for the two together (see `mend`).
        """
        border = left.end
        if border != right.start:
            return None, 0
        known = self.marks.get(border, FREE)
        if known == JOIN:
            first, last = len(left) - 1, 1
            while first and self.marks.get(left.starts[first]) == JOIN:
                first -= 1
            while last < len(right) and self.marks.get(right.starts[last]) == JOIN:
                last += 1
            return (first, len(left) + last), certain
        lexicon = self.lexicon
        if known == FREE and lexicon and not lexicon.soft and lexicon.straddles(left.chars, right.chars):
            return self._lexicon_bridge(lexicon, left, right, certain)
        return None, 0

    def _lexicon_bridge(
        self, lexicon: Lexicon, left: RawSentence, right: RawSentence, certain: int
    ) -> tuple[tuple[int, int] | None, int]:
        """Look for a lexicon word across the border; only what is not yet certain is searched again."""
        # One more character on both sides: whether a word may begin or end there depends on its neighbour.
        skipped = max(0, certain - 1)
        tail = left.part(skipped, len(left)) + right.part(0, min(len(right), lexicon.longest))
        # Without its own words, which are found again.
        bare = Constraints(self.marks).gaps(tail)
        border = len(left) - skipped
        first_open: int | None = None
        for start, end, is_open in lexicon.scan(tail.chars, bare, certain - skipped):
            if start >= border:
                break
            if first_open is None and (is_open or end >= border):
                first_open = start
            if border < end <= start + self.limit:
                assert first_open is not None
                return (skipped + start, skipped + end), skipped + first_open
        return None, 0

    def _rejoin(self, both: RawSentence, first: int, last: int) -> list[RawSentence]:
        """Split two joined sentences again if they are too long, next to a word that lies on the border."""
        if len(both) <= self.limit:
            return [both]
        places = [0, len(both)]
        if first:
            places.insert(1, first)
        if len(both) - first > self.limit:
            places.insert(-1, last)
        return [both.part(a, b) for a, b in pairwise(places)]


def _keep_token(sentence: RawSentence, gaps: bytearray, start: int, end: int, *, ends: bool) -> None:
    """Join the characters of a token, with boundaries on both sides if it `ends` there; known gaps stay."""
    first, last = bisect_left(sentence.starts, start), bisect_left(sentence.starts, end)
    if BREAK in gaps[first + 1 : last]:
        return
    gaps[first + 1 : last] = bytes((JOIN,)) * (last - first - 1)
    for place in (first, last) if ends else ():
        if 0 < place < len(sentence) and gaps[place] == FREE:
            gaps[place] = BREAK


def read_marks(
    text: str, sentences: Sequence[RawSentence], pins: Iterable[Pin], breaks: Iterable[int]
) -> dict[int, int]:
    """Return what is known about the gaps before offsets; raise `InputError` for contradictions.

    Pins and breaks are checked against the text and each other.
    """
    ordered = sorted({_pair(pin) for pin in pins})
    places = _Places(text, sentences)
    marks: dict[int, int] = {}
    for pin in ordered:
        places.check_range(pin)
    for one, other in pairwise(ordered):
        if other[0] < one[1]:
            raise InputError(f"the {_name(one)} and the {_name(other)} overlap")
    # Check what the pins contain only now: since they do not overlap, this is linear in the text.
    for pin in ordered:
        places.check_pin(pin)
    for start, end in ordered:
        marks[start] = marks[end] = BREAK
        marks.update(dict.fromkeys(range(start + 1, end), JOIN))
    for offset in map(_offset, breaks):
        places.check_break(offset)
        if marks.get(offset) == JOIN:
            pin = ordered[bisect_left(ordered, (offset, 0)) - 1]
            raise InputError(f"the break at {offset} lies inside the {_name(pin)}")
        marks[offset] = BREAK
    return marks


def read_tags(tags: TagsLike, pins: Iterable[Pin]) -> dict[Pin, str]:
    """Return the parts of speech of pinned words by their pins; raise `InputError` for a tag without a pin."""
    ends = dict(pins)
    found: dict[Pin, str] = {}
    for start, tag in tags_by_offset(tags).items():
        if start not in ends:
            raise InputError(f"the tag {tag!r} needs a pinned word that begins at {start}")
        found[start, index(ends[start])] = tag
    return found


def tags_by_offset(tags: TagsLike) -> dict[int, str]:
    """Check the types of parts of speech, and return them by the offsets of their words."""
    try:
        found = {index(start): tag for start, tag in dict(tags).items()}
    except (TypeError, ValueError):
        raise InputError(
            f"tags are pairs (offset of a pinned word, part of speech), not {tags!r:.60}"
        ) from None
    for tag in found.values():
        if not isinstance(tag, str):
            raise InputError(f"a part of speech is a string, not {tag!r:.40}")
    return found


def known_tags(tags: TagsLike, known: Sequence[str]) -> dict[int, str]:
    """Return parts of speech by offset; raise an error for one that is not `known` to the model."""
    found = tags_by_offset(tags)
    for tag in found.values():
        if tag not in known:
            raise InputError(f"unknown part of speech {tag!r}: this model has {', '.join(known) or 'none'}")
    return found


@dataclass(slots=True)
class _Places:
    """Hold where the characters of a text begin."""

    text: str
    sentences: Sequence[RawSentence]
    starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.starts = [sentence.start for sentence in self.sentences]

    def cut_char(self, offset: int) -> Pin | None:
        """Return the span of the character that an offset splits, None if it splits none."""
        number = bisect_right(self.starts, offset) - 1
        if number < 0:
            return None
        sentence = self.sentences[number]
        place = bisect_right(sentence.starts, offset) - 1
        start, end = sentence.starts[place], sentence.ends[place]
        return (start, end) if start < offset < end else None

    def check_range(self, pin: Pin) -> None:
        start, end = pin
        if start >= end:
            raise InputError(f"the {_name(pin)} {'is empty' if start == end else 'ends before it begins'}")
        if start < 0 or end > len(self.text):
            raise InputError(f"the {_name(pin)} is out of range: the text has {len(self.text)} code points")

    def check_pin(self, pin: Pin) -> None:
        start, end = pin
        if space := _SPACE.search(self.text, start, end):
            raise InputError(
                f"the {_name(pin)} contains white space at {space.start()}, which separates words"
            )
        for offset in pin:
            if char := self.cut_char(offset):
                raise InputError(f"the {_name(pin)} splits the character {char[0]}:{char[1]}")
        if end - start > LIMIT and (size := len(characters(self.text[start:end]))) > LIMIT:
            raise InputError(f"the {_name(pin)} has {size} characters, more than the {LIMIT} of a sentence")

    def check_break(self, offset: int) -> None:
        if not 0 <= offset <= len(self.text):
            raise InputError(
                f"the break at {offset} is out of range: the text has {len(self.text)} code points"
            )
        if char := self.cut_char(offset):
            raise InputError(f"the break at {offset} splits the character {char[0]}:{char[1]}")


def _pair(pin: Sequence[object]) -> Pin:
    try:
        start, end = map(index, pin)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"a pin is a pair of offsets (start, end), not {pin!r}") from None
    return start, end


def _offset(offset: object) -> int:
    try:
        return index(offset)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"a break is an offset, not {offset!r}") from None


def _name(pin: Pin) -> str:
    return f"pin {pin[0]}:{pin[1]}"
