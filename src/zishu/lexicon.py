"""Hold words that a user knows, and find them in a sentence.

A lexicon has one of two modes. A *hard* one keeps its words whole: every occurrence in a text becomes a word of the
parse, whatever the model prefers. Overlapping occurrences are resolved leftmost first, and the longest wins among those
that begin at the same character. A *soft* one is a hint: every tree gets the score `weight` for each gap inside an
occurrence that it joins, and half of it for each of the two boundaries (`TreeDistribution.favouring`). Half, because a
boundary also touches the neighbour: 研究生 in 研究生命 should not outvote 生命 twice. The model may outweigh it. In detail:

- Matching works on characters (see `zishu.text`). Case and width matter; traditional and simplified forms match each
  other, character by character: the bundled model's table (`chars.json`), which it needs for characters that it has not
  learned, serves here, too.
- An occurrence that contradicts other constraints (pinned words, given boundaries, white space) is skipped, and the
  next shorter one is tried.
- An occurrence does not begin or end inside a run of ASCII letters and digits: AI is not found in MAIN.
- A word that contains white space is rejected, because white space always separates words.
- A word that exceeds the length of a sentence (`zishu.text.LIMIT`) belongs to the set, but is never found.
- In a soft lexicon, an occurrence inside a longer one does not count, and overlapping ones share the score in
  proportion to the frequencies of their words.

In a file every line is a word, optionally with a frequency and a part of speech, as in jieba: `word [frequency [tag]]`.
White space around a line, blank lines and lines that begin with # are ignored, so a word that itself begins with # can
only be given in a list. A tag belongs to Universal Dependencies or to jieba; it is assigned to the word wherever it is
found.

The words form a trie of their characters. Cost: building is linear in the number of words. Finding takes one dictionary
lookup per character of the text, times the length to which the text agrees with a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from zishu.errors import FormatError, InputError, explain
from zishu.gaps import BREAK, FREE
from zishu.reading import Source, read_lines, source_name
from zishu.tags import UPOS
from zishu.text import LIMIT, characters

LexiconLike = Iterable[str | tuple[Any, ...]] | None  # a `Lexicon` is accepted, too

# A node maps the next character to the next node. The key "", which is not a character, holds the entry of the word
# that ends there.
_Trie = dict[str, Any]
_END: Final = ""

_VOCABULARY: Final = Path(__file__).parent / "models" / "default" / "chars.json"

WEIGHT: Final = 4.0  # default weight of a soft lexicon
MOST: Final = 50.0

# The parts of speech of Universal Dependencies, and the mapping from jieba's tags. jieba's tags that do not define a
# part of speech (idioms, phrases, parts of words) are accepted but not used.
_JIEBA: Final = {
    "n": "NOUN", "t": "NOUN", "s": "NOUN", "f": "NOUN", "q": "NOUN", "j": "NOUN", "an": "NOUN", "vn": "NOUN",
    "nr": "PROPN", "ns": "PROPN", "nt": "PROPN", "nz": "PROPN", "nrt": "PROPN", "nrfg": "PROPN",
    "v": "VERB", "vd": "VERB", "vi": "VERB", "vg": "VERB", "a": "ADJ", "ad": "ADJ", "b": "ADJ", "z": "ADJ",
    "d": "ADV", "m": "NUM", "r": "PRON", "p": "ADP", "c": "CCONJ", "u": "PART", "y": "PART", "e": "INTJ", "o": "INTJ",
    "w": "PUNCT", "eng": "X", "i": None, "l": None, "g": None, "h": None, "k": None, "x": None, "ng": None, "ag": None,
}  # fmt: skip


class Entry(NamedTuple):
    """Hold what a lexicon says about a word."""

    frequency: float = 1.0
    upos: str | None = None


class Lexicon:
    """Words that a user knows. It does not change, so several threads may use it at once.

    `words` are strings, or tuples of a word, its frequency and its part of speech; the last two may be missing. With `soft`
    they are favoured by `weight` instead of kept whole (see `zishu.lexicon`): the odds of each join inside an occurrence
    are multiplied by exp(weight), those of its two boundaries by exp(weight / 2).
    """

    __slots__ = ("_entries", "_trie", "longest", "soft", "weight")

    def __init__(
        self, words: Iterable[str | tuple[Any, ...]] = (), *, soft: bool = False, weight: float = WEIGHT
    ) -> None:
        if isinstance(words, str):
            raise InputError(f"a lexicon is a collection of words, not a single string: {words[:40]!r}")
        try:
            words = iter(words)
        except TypeError:
            raise InputError(f"a lexicon is a collection of words, not {words!r:.40}") from None
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= MOST:
            raise InputError(
                f"the weight of a soft lexicon is a number above 0, at most {MOST:g}, not {weight!r}"
            )
        self.soft: Final = bool(soft)
        self.weight: Final = float(weight)
        self._entries: dict[str, Entry] = {}
        self._trie: _Trie = {}
        self.longest = 0  # number of characters of the longest word that can be found
        for given in words:
            self._add(*(given if isinstance(given, tuple) and given else (given,)))

    def _add(self, word: Any, *more: Any) -> None:
        """Add a word, perhaps with its frequency and part of speech; without these, a known word keeps its own."""
        entry = _entry(word, more)
        if word in self._entries and not more:
            return
        self._entries[word] = entry
        chars = characters(word)
        if len(chars) <= LIMIT:
            self.longest = max(self.longest, len(chars))
            node = self._trie
            for char in simplify(chars):
                node = node.setdefault(char, {})
            node[_END] = entry

    @classmethod
    def of(cls, words: LexiconLike) -> Lexicon | None:
        """Build a lexicon from words; return None if there are none."""
        lexicon = words if words is None or isinstance(words, Lexicon) else cls(words)
        return lexicon or None

    @classmethod
    def load(cls, source: Source, *, soft: bool = False, weight: float = WEIGHT) -> Lexicon:
        """Read a lexicon from a path (`.gz` and `.zst`, too) or an open stream: one word per line, in UTF-8.

        A line is `word`, `word frequency`, `word tag` or `word frequency tag`.
        """
        name = source_name(source)
        lexicon = cls(soft=soft, weight=weight)
        try:
            for number, line in enumerate(read_lines(source, name), start=1):
                word, *more = line.split() or ("#",)
                if word.startswith("#"):
                    continue
                try:
                    lexicon._add(word, *(_fields(word, more) if more else ()))
                except InputError as error:
                    raise FormatError(str(error), path=name, line=number) from None
        except OSError as error:
            raise InputError(explain(error)) from error
        return lexicon

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, word: object) -> bool:
        return word in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __repr__(self) -> str:
        mode = f", soft with weight {self.weight:g}" if self.soft else ""
        return f"<{type(self).__name__} of {len(self)} word{'s' * (len(self) != 1)}{mode}>"

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Return what is known about each word."""
        return MappingProxyType(self._entries)

    def matches(self, chars: Sequence[str], gaps: Sequence[int] | None = None) -> Iterator[tuple[int, int]]:
        """Yield the half-open spans of the words found, in characters from 0, from left to right.

        `gaps[k]` is a value of `zishu.gaps` for the gap before the character with index k.
        """
        yield from ((start, end) for start, end, _ in self.scan(chars, gaps) if end > start)

    def scan(
        self, chars: Sequence[str], gaps: Sequence[int] | None = None, first: int = 0
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield every position that the search visits, starting at `first`, as (start, end, open).

        `end` is the end of the word found there, or `start` if there is none. `open` tells whether more text could
        change this result.
        """
        edges, chars = _edges(chars, gaps), simplify(chars)
        start = first
        while start < len(chars):
            end, further = self._longest_at(start, chars, edges, gaps)
            yield start, end, further
            start = max(end, start + 1)

    def _walk(self, chars: Sequence[str], start: int) -> Iterator[tuple[int, Entry | None]]:
        """Yield the positions after `start` up to which a word may go on, with the entry of the word that ends there."""
        node = self._trie
        for place in range(start, len(chars)):
            if chars[place] not in node:
                return
            node = node[chars[place]]
            yield place + 1, node.get(_END)

    def _longest_at(
        self, start: int, chars: Sequence[str], edges: Sequence[bool], gaps: Sequence[int] | None
    ) -> tuple[int, bool]:
        """Return the end of the longest word at a position (or the position), and whether more text could change it."""
        end = place = start
        if not edges[start]:
            return end, False
        for place, entry in self._walk(chars, start):
            if entry is not None and edges[place]:
                end = place
            if gaps is not None and place < len(chars) and gaps[place] == BREAK:
                return end, False
        return end, place == len(chars)

    def entry(self, chars: Sequence[str]) -> Entry:
        """Return the entry of a word that was found, by its characters in the text."""
        *_, (_, found) = self._walk(simplify(chars), 0)
        assert found is not None
        return found

    def occurrences(
        self, chars: Sequence[str], gaps: Sequence[int] | None = None
    ) -> list[tuple[int, int, float]]:
        """Return the occurrences that count in a soft lexicon, as spans with their share of the weight.

        At every character it is the longest one, unless that lies inside another. Overlapping ones share the weight.
        """
        edges, simple = _edges(chars, gaps), simplify(chars)
        found: list[tuple[int, int]] = []
        place = 0
        for start in range(len(simple)):
            end, _ = self._longest_at(start, simple, edges, gaps)
            if end > max(start, place):
                found.append((start, end))
                place = end
        frequencies = [self.entry(chars[start:end]).frequency for start, end in found]
        # Starts and ends are in order, so overlapping occurrences are adjacent.
        rivals = list(frequencies)
        for k, (_, end) in enumerate(found):
            for other in range(k + 1, len(found)):
                if found[other][0] >= end:
                    break
                rivals[k] += frequencies[other]
                rivals[other] += frequencies[k]
        return [(*span, own / all_) for span, own, all_ in zip(found, frequencies, rivals, strict=True)]

    def favour(self, found: Sequence[tuple[int, int, float]], length: int) -> list[float]:
        """Return the score of a boundary before each character and after the last, given the occurrences."""
        scores = [0.0] * (length + 1)
        for start, end, share in found:
            for k in range(start, end + 1):
                scores[k] += self.weight * share * (0.5 if k in (start, end) else -1.0)
        return scores

    def straddles(self, left: Sequence[str], right: Sequence[str]) -> bool:
        """Tell whether a word could begin in one stretch of characters and continue in the next.

        This is a quick test: the word may lose to an overlapping one when `matches` looks at both stretches.
        """
        most = max(0, self.longest - 1)  # number of characters of a word on either side
        before = left[max(0, len(left) - most) :]
        chars = simplify([*before, *right[:most]])
        border = len(before)
        return any(
            entry is not None and place > border
            for start in range(border)
            for place, entry in self._walk(chars, start)
        )


def simplify(chars: Sequence[str]) -> list[str]:
    """Return the characters, with traditional ones replaced by simplified ones."""
    return list(map(_simplified().get, chars, chars))


@cache
def _simplified() -> Mapping[str, str]:
    table: dict[str, str] = json.loads(_VOCABULARY.read_text(encoding="utf-8"))["stand_ins"]
    # Only ideographs: full-width letters are in the table, too.
    return {
        char: form for char, form in table.items() if char >= "\u3400" and not "\uff00" <= char <= "\uffef"
    }


def _edges(chars: Sequence[str], gaps: Sequence[int] | None) -> list[bool]:
    """Tell for each gap, including both ends, whether a word may begin or end there."""
    western = [char.isascii() and char.isalnum() for char in chars]
    edges = [True, *(not (a and b) for a, b in pairwise(western)), True]
    if gaps is not None:
        # White space or a known boundary between two letters ends their run.
        for k in range(1, len(chars)):
            if gaps[k] != FREE:
                edges[k] = gaps[k] == BREAK
    return edges


def _fields(word: str, more: Sequence[str]) -> tuple[float | None, str | None]:
    """Read frequency and tag from the rest of a line."""
    frequency: float | None = None
    rest = list(more)
    if rest and (rest[0].isdecimal() or rest[0].replace(".", "", 1).isdecimal()):
        frequency = float(rest.pop(0))
    if len(rest) > 1:
        raise InputError(
            f"{' '.join((word, *more))!r} has more than a word, a frequency and a part of speech"
        )
    return frequency, rest[0] if rest else None


def _entry(word: object, more: Sequence[Any]) -> Entry:
    """Check a word and what is given in addition to it."""
    if not isinstance(word, str):
        raise InputError(f"a word of a lexicon is a string, not {word!r}")
    if not word:
        raise InputError("a word of a lexicon is empty")
    if any(map(str.isspace, word)):
        raise InputError(f"white space in {word!r}: a word cannot contain white space")
    if len(more) > 2:
        raise InputError(f"the entry of {word!r} has more than a word, a frequency and a part of speech")
    frequency, tag = (*more, None, None)[:2]
    frequency = 1.0 if frequency is None else frequency
    is_number = isinstance(frequency, int | float) and not isinstance(frequency, bool)
    if not (is_number and 0 < frequency < float("inf")):
        raise InputError(f"the frequency of {word!r} is a number above 0, not {frequency!r}")
    known = tag is None or (isinstance(tag, str) and (tag in UPOS or tag in _JIEBA))
    if not known:
        raise InputError(
            f"{tag!r} after {word!r} is not a part of speech, and a word cannot contain white space"
        )
    return Entry(float(frequency), _JIEBA.get(tag, tag))
