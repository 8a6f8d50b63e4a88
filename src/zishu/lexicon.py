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

The words form a trie of their characters. Cost: building is linear in the words. Finding takes one dictionary lookup per
character of the text, times the length to which the text agrees with a word.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from zishu.errors import FormatError, InputError, explain
from zishu.gaps import BREAK, FREE
from zishu.reading import Source, read_lines, source_name
from zishu.text import LIMIT, characters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


# A node maps the next character to the next node. The key "", which no character is, marks the end of a word.
_Trie = dict[str, "_Trie"]
_END: Final = ""


class Lexicon:
    """A set of words that are kept whole. It does not change, so several threads may use it at once."""

    __slots__ = ("_longest", "_trie", "_words")

    def __init__(self, words: Iterable[str] = ()) -> None:
        if isinstance(words, str):
            raise InputError(f"a lexicon is a collection of words, not a single string: {words[:40]!r}")
        found: set[str] = set()
        self._trie: _Trie = {}
        self._longest = 0
        for word in words:
            if fault := _fault(word):
                raise InputError(fault)
            if word in found:
                continue
            found.add(word)
            chars = characters(word)
            if len(chars) <= LIMIT:
                self._longest = max(self._longest, len(chars))
                node = self._trie
                for char in chars:
                    node = node.setdefault(char, {})
                node[_END] = {}
        self._words = frozenset(found)

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

    @property
    def longest(self) -> int:
        """Return the number of characters of the longest word that can be found."""
        return self._longest

    def matches(self, chars: Sequence[str], gaps: Sequence[int] | None = None) -> Iterator[tuple[int, int]]:
        """Yield the half-open spans, characters counted from 0, of the words found, from left to right.

        `gaps[k]`, a value of `zishu.gaps`, is what is known of the gap before the character with index k.
        """
        yield from ((start, end) for start, end, _ in self.scan(chars, gaps) if end > start)

    def scan(
        self, chars: Sequence[str], gaps: Sequence[int] | None = None, first: int = 0
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield every place that the search visits, from `first` on, as (start, end, open).

        `end` is the end of the word found there, or `start` if there is none. `open` tells that more characters
        behind the last one could change this answer.
        """
        edges = _edges(chars, gaps)
        last = len(chars)
        start = first
        while start < last:
            end, further = start, False
            if edges[start]:
                node: _Trie | None = self._trie
                for place in range(start, last):
                    node = node.get(chars[place])  # type: ignore[union-attr]
                    if node is None:
                        break
                    if _END in node and edges[place + 1]:
                        end = place + 1
                    if gaps is not None and place + 1 < last and gaps[place + 1] == BREAK:
                        break
                else:
                    further = True
            yield start, end, further
            start = max(end, start + 1)

    def straddles(self, left: Sequence[str], right: Sequence[str]) -> bool:
        """Tell whether a word could begin in one stretch of characters and go on in the one that follows.

        A quick test: the word may lose to an overlapping one when `matches` looks at both stretches.
        """
        most = max(0, self._longest - 1)  # characters of a word on either side
        before = left[max(0, len(left) - most) :]
        chars = [*before, *right[:most]]
        border = len(before)
        for start in range(border):
            node = self._trie
            for place in range(start, len(chars)):
                if chars[place] not in node:
                    break
                node = node[chars[place]]
                if place >= border and _END in node:
                    return True
        return False


def _edges(chars: Sequence[str], gaps: Sequence[int] | None) -> list[bool]:
    """Tell for each gap, the two ends included, whether a word may begin or end there."""
    western = [char.isascii() and char.isalnum() for char in chars]
    edges = [True, *(not (a and b) for a, b in pairwise(western)), True]
    if gaps is not None:
        # White space or a given boundary between two letters ends their run.
        for k in range(1, len(chars)):
            if gaps[k] != FREE:
                edges[k] = gaps[k] == BREAK
    return edges


def _fault(word: object) -> str | None:
    """Say why something is no word of a lexicon."""
    if not isinstance(word, str):
        return f"a word of a lexicon is a string, not {word!r}"
    if not word:
        return "a word of a lexicon is empty"
    if any(map(str.isspace, word)):
        return f"white space in {word!r}: a lexicon has a word a line, and white space separates words"
    return None
