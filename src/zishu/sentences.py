"""Create the sentences that a model parses: from a text, a stream, lines of words, or given words.

`zishu.splitting` splits text into sentences, and `zishu.constraints` finds what is known about their words; this module
combines the two. Given words are characters whose gaps are all known. Each sentence keeps the white space after it, so
sentences and white space together are the text.

Cost: about one microsecond per character, mostly for splitting sentences.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, TypedDict

from zishu.arcs import ArcLike, place_arcs
from zishu.arguments import iterator_of, list_of
from zishu.constraints import Pin, TagsLike, constrain, read_marks, read_tags
from zishu.errors import InputError
from zishu.gaps import word_gaps
from zishu.lexicon import Lexicon, LexiconLike
from zishu.splitting import iter_sentences, split_sentences
from zishu.text import LIMIT, RawSentence, characters, is_punctuation, join_words, space_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_WORD = re.compile(r"\S+")
_LINE_PART = re.compile(r"[\r\n]\s*|[^\r\n]+")


class Knowledge(TypedDict, total=False):
    """Hold what is known about a text, and how to read it: the options of `text_sentences`."""

    pins: Iterable[Pin]
    breaks: Iterable[int]
    arcs: Iterable[ArcLike]
    tags: TagsLike
    lexicon: LexiconLike
    patterns: bool  # keep addresses, dates, numbers and Latin words whole; the default
    wrapped: bool  # a line break does not end a sentence


def text_sentences(
    text: str,
    *,
    pins: Iterable[Pin] = (),
    breaks: Iterable[int] = (),
    arcs: Iterable[ArcLike] = (),
    tags: TagsLike = (),
    lexicon: LexiconLike = None,
    patterns: bool = True,
    wrapped: bool = False,
) -> Iterator[RawSentence]:
    """Split a text into sentences lazily; pins, breaks, arcs and tags are checked before the first one."""
    if not isinstance(text, str):
        raise InputError(f"a text is a string, not {type(text).__name__}")
    sentences = split_sentences(text, wrapped=wrapped)
    pins, breaks, arcs = list_of(pins, "pins"), list_of(breaks, "breaks"), list_of(arcs, "arcs")
    marks = read_marks(text, sentences, pins, breaks) if pins or breaks else {}
    ready = constrain(sentences, marks, Lexicon.of(lexicon), patterns=patterns)
    if not (arcs or tags):
        yield from ready
        return
    found = list(ready)
    starts = [sentence.start for sentence in found]
    words = {}  # pinned ones by their offsets: the number of the sentence, and the span of characters, from 1
    for start, end in pins:
        number = bisect_right(starts, start) - 1
        chars = found[number].starts
        words[start] = number, (bisect_right(chars, start), bisect_right(chars, end - 1) + 1)
    for start, tag in read_tags(tags).items():
        if start not in words:
            raise InputError(f"the tag {tag!r} needs a pinned word that begins at {start}")
        number, span = words[start]
        found[number].tags = {**found[number].tags, span: tag}
    for number, fixed in place_arcs(arcs, words).items():
        found[number].arcs = fixed
    yield from found


def stream_sentences(
    pieces: Iterable[str],
    *,
    lexicon: LexiconLike = None,
    patterns: bool = True,
    wrapped: bool = False,
    look_ahead: bool = True,
) -> Iterator[RawSentence]:
    """Split a text that comes in pieces into sentences; see `zishu.splitting.iter_sentences`."""
    sentences = iter_sentences(pieces, look_ahead=look_ahead, wrapped=wrapped)
    return constrain(sentences, {}, Lexicon.of(lexicon), patterns=patterns)


def line_sentences(pieces: Iterable[str], *, look_ahead: bool = True) -> Iterator[RawSentence]:
    """Make a sentence from every line of a stream, with the words between its white space.

    Without `look_ahead` it does not wait for the next one, so the white space after it ends with its line.
    """
    last: RawSentence | None = None
    spaces: list[str] = []  # after the last sentence
    for line, offset in _lines(pieces):
        words = list(_WORD.finditer(line))
        if words:
            start, end = words[0].start(), words[-1].end()
            if last is not None:
                last.after = "".join((*spaces, line[:start]))
                yield last
            places = [offset + word.start() for word in words]
            *done, last = limited_sentences([word[0] for word in words], places, line[start:end])
            yield from done
            spaces = [line[end:]]
        else:
            spaces.append(line)
        if last is not None and not look_ahead:
            last.after = "".join(spaces)
            yield last
            last = None
    if last is not None:
        last.after = "".join(spaces)
        yield last


def words_document(sentences: Iterable[Sequence[str]]) -> tuple[str, list[RawSentence]]:
    """Build a text from sentences of given words, joined as Chinese is written, one per line; and its sentences."""
    lines: list[str] = []
    found: list[RawSentence] = []
    offset = 0
    for number, given in enumerate(iterator_of(sentences, "sentences of words"), start=1):
        words = _checked_words(given, number)
        if found:
            found[-1].after = "\n"
        starts = []
        for left, word in pairwise(["", *words]):
            starts.append(offset + len(space_between(left, word)))
            offset = starts[-1] + len(word)
        lines.append(join_words(words))
        found += limited_sentences(words, starts, lines[-1])
        offset += 1  # the line break
    return "\n".join(lines), found


def word_sentence(words: Sequence[str]) -> RawSentence:
    """Build one sentence from given words, of any length, written without white space."""
    starts = list(accumulate(map(len, words), initial=0))
    return _sentence(list(map(characters, words)), starts[:-1], "".join(words))


def limited_sentences(words: Sequence[str], starts: Sequence[int], text: str) -> list[RawSentence]:
    """Build a sentence, or several if it is too long, from given words at these offsets of `text`."""
    parts = list(map(characters, words))
    totals = list(accumulate(map(len, parts), initial=0))
    whole = _sentence(parts, starts, text)
    if totals[-1] <= LIMIT:
        return [whole]
    for start, part in zip(starts, parts, strict=True):
        if len(part) > LIMIT:
            raise InputError(
                f"the word at {start} has {len(part)} characters, more than the {LIMIT} of a sentence"
            )
    sentences = []
    first = 0
    while first < len(words):
        last = bisect_right(totals, totals[first] + LIMIT) - 1
        if last < len(words):
            last = next((k for k in range(last, first, -1) if is_punctuation(words[k - 1])), last)
        sentence = whole.part(totals[first], totals[last])
        sentence.gaps = word_gaps([len(part) for part in parts[first:last]])
        sentences.append(sentence)
        first = last
    return sentences


def _sentence(words: Sequence[Sequence[str]], starts: Sequence[int], text: str) -> RawSentence:
    """Build a sentence from the characters of words at these offsets."""
    char_starts: list[int] = []
    char_ends: list[int] = []
    for chars, start in zip(words, starts, strict=True):
        borders = list(accumulate(map(len, chars), initial=start))
        char_starts += borders[:-1]
        char_ends += borders[1:]
    gaps = word_gaps([len(chars) for chars in words])
    return RawSentence(
        tuple(chain.from_iterable(words)), tuple(char_starts), tuple(char_ends), text, gaps=gaps
    )


def _checked_words(given: Iterable[str], number: int) -> list[str]:
    """Return the words of a sentence; raise InputError if it is not one."""
    if isinstance(given, str):
        raise InputError(f"sentence {number} is a string, not a list of words: {given[:40]!r}")
    words = list_of(given, f"the words of sentence {number}")
    if not words:
        raise InputError(f"sentence {number} has no words")
    for k, word in enumerate(words, start=1):
        if not isinstance(word, str) or not word:
            raise InputError(f"word {k} of sentence {number} is {word!r}, not a string with a character")
        if any(map(str.isspace, word)):
            raise InputError(f"word {k} of sentence {number} contains white space: {word!r}")
    return words


def _lines(pieces: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield the lines of a stream with their ends and following white space, and their offsets."""
    line: list[str] = []
    start = 0
    for piece in pieces:
        for match in _LINE_PART.finditer(piece):
            line.append(match[0])
            if match[0][0] in "\r\n":
                whole = "".join(line)
                yield whole, start
                start += len(whole)
                line = []
    if line:
        yield "".join(line), start
