"""Turn texts, streams and given words into items: sentences that are ready for a model.

An item knows its units, what is known of its words, and where it stands in the text, so that what a model finds
can be put back there. `zishu.text` cuts text into sentences, `zishu.constraints` reads what is known of words;
this module brings the two together, for a text at hand and for one that comes in pieces and is forgotten again.

Cost: about one microsecond a character, most of it for cutting sentences.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from zishu.constraints import Constraints, Pin, read_constraints
from zishu.errors import InputError
from zishu.text import LIMIT, characters, is_punctuation, iter_sentences, join_words, split_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zishu.lexicon import Lexicon

_CHARACTER = re.compile(r"\S")
_LINE_PART = re.compile(r"[\r\n]+|[^\r\n]+")


@dataclass(slots=True)
class Item:
    """A sentence on its way to the model."""

    units: Sequence[str]  # its characters, or its words if these are given
    text: str
    start: int
    cut: bool
    gaps: bytearray | None = None


def text_items(
    text: str,
    *,
    pins: Iterable[Pin] = (),
    breaks: Iterable[int] = (),
    lexicon: Lexicon | None = None,
) -> list[Item]:
    """Cut a text into sentences and find what is known of their words."""
    return list(iter_text_items(text, pins=pins, breaks=breaks, lexicon=lexicon))


def iter_text_items(
    text: str,
    *,
    pins: Iterable[Pin] = (),
    breaks: Iterable[int] = (),
    lexicon: Lexicon | None = None,
) -> Iterator[Item]:
    """Do the same, a sentence at a time; pins and breaks are checked before the first one."""
    if not isinstance(text, str):
        raise InputError(f"a text is a string, not {type(text).__name__}")
    sentences = split_sentences(text)
    known = read_constraints(text, sentences, pins=pins, breaks=breaks, lexicon=lexicon)
    for raw in known.mend(sentences):
        yield Item(raw.chars, text[raw.start : raw.end], raw.start, raw.cut, known.gaps(raw))


def stream_items(pieces: Iterable[str], known: Constraints) -> Iterator[Item]:
    """Do the same for a text that comes in pieces."""
    tape = _Tape()
    for raw in known.mend(iter_sentences(tape.record(pieces))):
        yield Item(raw.chars, tape.play(raw.start, raw.end), raw.start, raw.cut, known.gaps(raw))


def line_items(pieces: Iterable[str]) -> Iterator[Item]:
    """Make a sentence of every line of a stream, with the words between its white space."""
    line: list[str] = []
    start = offset = 0
    for piece in _strings(pieces):
        for part in _LINE_PART.finditer(piece):
            if part[0][0] not in "\r\n":
                start = start if line else offset + part.start()
                line.append(part[0])
            elif line:
                yield from _word_items_of_line("".join(line), start)
                line = []
        offset += len(piece)
    if line:
        yield from _word_items_of_line("".join(line), start)


def words_document(sentences: Iterable[Sequence[str]]) -> tuple[str, list[Item]]:
    """Make a text of sentences of given words, joined as Chinese is written, each a line, and its sentences."""
    lines: list[str] = []
    items: list[Item] = []
    offset = 0
    for number, words in enumerate(sentences, start=1):
        check_words(words, number)
        line = join_words(words)
        items += word_items(words, line, offset)
        lines.append(line)
        offset += len(line) + 1
    return "\n".join(lines), items


def word_items(words: Sequence[str], text: str, offset: int) -> list[Item]:
    """Make a sentence of given words, several if it is too long; `text` is theirs and begins at `offset`."""
    if len(text) <= LIMIT:
        return [Item(words, text, offset, False)]
    starts = word_starts(words, text)
    sizes = [len(characters(word)) for word in words]
    for start, size in zip(starts, sizes, strict=True):
        if size > LIMIT:
            raise InputError(
                f"the word at {offset + start} has {size} characters, more than the {LIMIT} of a sentence"
            )
    items = []
    totals = list(accumulate(sizes, initial=0))
    first = 0
    while first < len(words):
        last = bisect_right(totals, totals[first] + LIMIT) - 1
        if last < len(words):
            last = next((k for k in range(last, first, -1) if is_punctuation(words[k - 1])), last)
        begin, end = starts[first], starts[last - 1] + len(words[last - 1])
        items.append(Item(words[first:last], text[begin:end], offset + begin, last < len(words)))
        first = last
    return items


def check_words(words: Sequence[str], number: int) -> None:
    """Refuse what is no sentence of words."""
    if isinstance(words, str):
        raise InputError(f"sentence {number} is a string, not a list of words: {words[:40]!r}")
    if not words:
        raise InputError(f"sentence {number} has no words")
    for k, word in enumerate(words, start=1):
        if not isinstance(word, str) or not word:
            raise InputError(f"word {k} of sentence {number} is {word!r}, not a string with a character")
        if any(map(str.isspace, word)):
            raise InputError(f"word {k} of sentence {number} holds white space: {word!r}")


def lots(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Gather items until they have `size` characters together."""
    lot: list[Item] = []
    count = 0
    for item in items:
        lot.append(item)
        count += len(item.units)
        if count >= size:
            yield lot
            lot, count = [], 0
    if lot:
        yield lot


def word_starts(forms: Sequence[str], text: str) -> list[int]:
    """Return where words begin in their text, which has nothing between them but white space."""
    starts = list(accumulate(map(len, forms), initial=0))
    if starts.pop() == len(text):
        return starts
    position = 0
    for k, form in enumerate(forms):
        found = _CHARACTER.search(text, position)
        assert found is not None
        starts[k] = found.start()
        position = found.start() + len(form)
    return starts


def _word_items_of_line(line: str, offset: int) -> list[Item]:
    text = line.strip()
    if not text:
        return []
    return word_items(text.split(), text, offset + len(line) - len(line.lstrip()))


class _Tape:
    """The latest pieces of a stream, from which the text of a sentence is cut: its characters lack the spaces."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._start = 0  # the offset of the first piece that is kept

    def record(self, pieces: Iterable[str]) -> Iterator[str]:
        """Pass the pieces on and keep them."""
        for piece in _strings(pieces):
            self._pieces.append(piece)
            yield piece

    def play(self, start: int, end: int) -> str:
        """Return a part of the text, and forget what lies before it."""
        while self._start + len(self._pieces[0]) <= start:
            self._start += len(self._pieces.popleft())
        parts = []
        offset = self._start
        for piece in self._pieces:
            if offset >= end:
                break
            parts.append(piece[max(0, start - offset) : end - offset])
            offset += len(piece)
        return "".join(parts)


def _strings(pieces: Iterable[str]) -> Iterator[str]:
    for piece in pieces:
        if not isinstance(piece, str):
            raise InputError(f"a piece of text is a string, not {type(piece).__name__}")
        yield piece
