"""Hold the words that a user wants kept whole, and find them in a sentence.

A lexicon is a set of words. Where one of them occurs in a text, it becomes a word of the parse: a boundary
before it, a boundary behind it, none inside. Overlapping occurrences are resolved leftmost first, and among
those that begin at the same character the longest wins, whatever a model would prefer. In detail:

- Matching goes by characters (see `zishu.text`) and is exact: case, width and script matter.
- An occurrence that contradicts what is known otherwise (pinned words, given boundaries, white space) is passed
  over, and the next shorter one tried.
- An occurrence does not begin or end inside a run of ASCII letters and digits: AI is not found in MAIN.
- A word with white space in it is refused, because white space always separates words.
- A word that is longer than a sentence can be (`zishu.text.LIMIT`) belongs to the set, but is found nowhere.

In a file every line is a word; white space around it, blank lines and lines that begin with # are ignored, so
a word that itself begins with # can only be given in a list. It does not weigh words and knows no models.

Cost: finding is linear in the text, times the length to which the text agrees with a word. All beginnings of a word are
kept, so memory grows with the square of its length (and no word of more than `LIMIT` characters counts).
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from zishu.errors import FormatError, InputError, explain
from zishu.gaps import BREAK, JOIN
from zishu.reading import Source, read_lines, source_name
from zishu.text import LIMIT, characters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Lexicon:
    """A set of words that are kept whole. It does not change, so several threads may use it at once."""

    __slots__ = ("_beginnings", "_longest", "_words")

    def __init__(self, words: Iterable[str] = ()) -> None:
        if isinstance(words, str):
            raise InputError(f"a lexicon is a collection of words, not a single string: {words[:40]!r}")
        found: set[str] = set()
        beginnings: set[str] = set()
        self._longest = 0
        for word in words:
            if fault := _fault(word):
                raise InputError(fault)
            found.add(word)
            chars = characters(word)
            if len(chars) <= LIMIT:
                beginnings.update(accumulate(chars[:-1]))
                self._longest = max(self._longest, len(chars))
        self._words = frozenset(found)
        # What words begin with, without the whole words: a search goes on as long as it sees one of these.
        self._beginnings = frozenset(beginnings)

    @classmethod
    def load(cls, source: Source) -> Lexicon:
        """Read a lexicon from a path (`.gz` and `.zst`, too) or an open stream: one word per line, in UTF-8."""
        name = source_name(source)
        words = []
        try:
            for number, line in enumerate(read_lines(source, name), start=1):
                word = line.strip()
                if not word or word.startswith("#"):
                    continue
                if fault := _fault(word):
                    raise FormatError(fault, path=name, line=number)
                words.append(word)
        except OSError as error:
            raise InputError(explain(error)) from error
        return cls(words)

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: object) -> bool:
        return word in self._words

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._words))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} words>"

    def matches(self, chars: Sequence[str], gaps: Sequence[int] | None = None) -> Iterator[tuple[int, int]]:
        """Yield the half-open spans, characters counted from 0, of the words found, from left to right.

        `gaps[k]`, a value of `zishu.gaps`, is what is known of the gap before the character with index k.
        """
        start, last = 0, len(chars)
        while start < last:
            fitting = (end for end in self._ends(chars, start) if _allowed(chars, gaps, start, end))
            end = max(fitting, default=start)
            if end > start:
                yield start, end
            start = max(end, start + 1)

    def straddles(self, left: Sequence[str], right: Sequence[str]) -> bool:
        """Tell whether a word could begin in one stretch of characters and go on in the one that follows.

        A quick test: the word may lose to an overlapping one when `matches` looks at both stretches.
        """
        most = max(0, self._longest - 1)  # characters of a word on either side
        before = left[max(0, len(left) - most) :]
        chars = [*before, *right[:most]]
        return any(end > len(before) for start in range(len(before)) for end in self._ends(chars, start))

    def _ends(self, chars: Sequence[str], start: int) -> Iterator[int]:
        """Yield where the words end (exclusive) that begin at a character, short ones first."""
        seen = ""
        for end in range(start + 1, len(chars) + 1):
            seen += chars[end - 1]
            if seen in self._words:
                yield end
            if seen not in self._beginnings:
                return


def _allowed(chars: Sequence[str], gaps: Sequence[int] | None, start: int, end: int) -> bool:
    """Tell whether the characters `start` to `end` (exclusive) can be a word of a lexicon: nothing known forbids it."""
    if any(
        0 < edge < len(chars)
        and _in_western(chars[edge - 1])
        and _in_western(chars[edge])
        # White space or a given boundary between the two ends the run of letters.
        and (gaps is None or gaps[edge] != BREAK)
        for edge in (start, end)
    ):
        return False
    if gaps is None:
        return True
    at_edges = (gaps[edge] for edge in (start, end) if 0 < edge < len(chars))
    return JOIN not in at_edges and BREAK not in gaps[start + 1 : end]


def _in_western(char: str) -> bool:
    return char.isascii() and char.isalnum()


def _fault(word: object) -> str | None:
    """Say why something is no word of a lexicon."""
    if not isinstance(word, str):
        return f"a word of a lexicon is a string, not {word!r}"
    if not word:
        return "a word of a lexicon is empty"
    if any(map(str.isspace, word)):
        return f"white space in {word!r}: a lexicon has a word a line, and white space separates words"
    return None
