"""Split raw text into sentences of characters, with exact offsets into the original string.

Nothing is lost or changed: every code point that is not white space, including control characters and lone surrogates,
is in exactly one character of exactly one sentence.

Where a sentence ends:
- At a line break. In `wrapped` text a line break is plain white space, and only a blank line ends a sentence.
- At 。！？ ! ? and their relatives (Unicode's STerm). A run such as ？！ or !!! or 。。。 stays together, and
  closing quotes and brackets stay with it, at most 256 of each. The sentence continues if a clause mark follows (”，),
  or 的 after a closing mark.
- At a Western full stop before white space or before a letter that is neither Latin nor a digit, unless it
  follows an abbreviation (Mr.), an initial (U.S.) or an item number (1.), or precedes a small letter. So
  decimals, web and mail addresses and version numbers stay whole.
- Not at an ellipsis (…… or ...) nor at ；, as in the UD treebanks.
- Inside quotes as well: 他说：“你好。我走了。”然后离开。 is three sentences. UD_Chinese-GSD does the same,
  sentences stay short, and an unclosed quotation does no harm. But a quote that opens right after a letter is
  part of its clause and keeps its ？ and ！ (节目“谁是球王？”开播了). Title marks and brackets keep all end marks
  (《你好！李焕英》), except brackets that open a sentence: they contain whole sentences.

It does not segment words or normalise anything, and besides Chinese it knows only Latin-script tokens.

Cost: linear in the text, about a second for a million characters. Memory: one block, plus the longest character (a
letter may have any number of combining marks) and the longest white space.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate, cycle, pairwise
from typing import TYPE_CHECKING, NamedTuple

import regex  # type: ignore[import-untyped, unused-ignore]

from zishu.errors import InputError
from zishu.text import LIMIT, RawSentence, characters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_BLOCK = 1 << 16  # code points read before sentences are searched
_ROW = 256  # maximum number of end marks, and of closing marks after them, that stay together
_REACH = 100  # a bracket or quote shields end marks only if it closes within this number of characters


def split_sentences(text: str, *, limit: int = LIMIT, wrapped: bool = False) -> list[RawSentence]:
    """Split a text into sentences of at most `limit` characters.

    A longer sentence is cut, and the cut is marked: after the last clause punctuation within the limit, or at the last
    white space, or at the last place where a line break is allowed, or at the limit.
    """
    return list(iter_sentences([text], limit=limit, wrapped=wrapped))


def iter_sentences(
    lines: Iterable[str], *, limit: int = LIMIT, look_ahead: bool = True, wrapped: bool = False
) -> Iterator[RawSentence]:
    """Split a stream of text, such as an open file, into sentences; offsets count from its beginning.

    The result equals `split_sentences("".join(lines))`, however the text is divided into lines. Open files with
    `newline=""`, otherwise CR LF counts as 1. A sentence waits for the next one, so that all white space after it is
    known. Without `look_ahead` a line is returned as soon as it ends; in `wrapped` text, a paragraph as soon as a blank
    line follows.
    """
    if limit < 1:
        raise InputError(f"the limit must be at least 1 character, not {limit}")
    last: RawSentence | None = None
    spaces: list[str] = []  # after the last sentence
    reach = 0  # where they end
    for block, spans in _blocks(lines, limit, wrapped, eager=not look_ahead):
        if last is not None and block.offset == reach:
            spaces.append(block.space)
            reach += len(block.space)
        for span in spans:
            if last is not None:
                last.after = "".join(spaces)
                yield last
            last = block.sentence(*span)
            spaces, reach = [last.after], last.end + len(last.after)
        if last is not None and not look_ahead:
            yield last
            last = None
    if last is not None:
        last.after = "".join(spaces)
        yield last


def _blocks(
    lines: Iterable[str], limit: int, wrapped: bool, *, eager: bool
) -> Iterator[tuple[_Block, list[tuple[int, int, bool]]]]:
    """Read a stream block by block, each with the spans of the sentences that end in it; `eager` waits for no block."""
    pending: list[str] = []
    size, target, offset, past = 0, _BLOCK, 0, _Past()
    for line in lines:
        blank = bool(pending) and pending[-1].endswith("\n") and line.endswith("\n") and line.isspace()
        if eager and not wrapped:
            blank = line.endswith("\n")
        pending.append(line)
        size += len(line)
        if blank or size >= target:
            text = "".join(pending)
            block = _read(text, offset, past, wrapped)
            spans, opened = _spans(block, limit, final=False)
            yield block, spans
            kept = opened.kept
            past = opened.seen_from(kept, block.quoted_after(kept))
            if block.closed or not block.chars:
                text, offset, past = "", offset + size, _Past()
            elif kept:
                text, offset = text[block.ends[kept - 1] - offset :], block.ends[kept - 1]
            pending, size = [text], len(text)
            # One row of marks may fill the block: reading as much again before the next search keeps this linear.
            target = max(_BLOCK, 2 * size)
    block = _read("".join(pending), offset, past, wrapped)
    yield block, _spans(block, limit, final=True)[0]


# How the rules work: every character has a kind, one letter. A block of text becomes a string of kinds, as
# long as its list of characters, and the rules are patterns over that string. A small letter means that
# white space precedes the character.
#   T end mark     P full stop      E ellipsis    M clause mark    N Western clause mark
#   O opening mark C closing mark   Q straight double quote (resolved into O or C)    A straight single quote
#   W Latin letter or digit         Z invisible: control or format character          X anything else

_GIVEN = {
    **dict.fromkeys("…‥⋯︙", "E"),
    **dict.fromkeys("，；：、､﹐﹑﹔﹕︐︑︓︔", "M"),
    **dict.fromkeys(",;:", "N"),
    **dict.fromkeys('"＂', "Q"),
    **dict.fromkeys("'＇", "A"),
}
_BY_PROPERTY = regex.compile(
    r"(?P<T>\p{SB=STerm})|(?P<P>\p{SB=ATerm})|(?P<O>[\p{Ps}\p{Pi}])|(?P<C>[\p{Pe}\p{Pf}])|(?P<Z>[\p{Cc}\p{Cf}])"
    r"|(?P<W>\p{Nd}|[\p{L}&&[\p{Latin}\p{Greek}\p{Cyrillic}]])|(?P<X>.)",
    regex.DOTALL | regex.VERSION1,
)


class _Kinds(dict[int, str]):
    """Map code points to kinds for `str.translate`, filled on demand."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        kind: str = _GIVEN.get(char) or _BY_PROPERTY.match(char).lastgroup
        self[code] = kind
        return kind


_KINDS = _Kinds()

_QUOTES = dict(zip('“‘「『"＂', '”’」』"＂', strict=True))
_TITLES = dict(zip("《〈", "》〉", strict=True))
_BRACKETS = dict(zip("([{（［｛【〔〖", ")]}）］｝】〕〗", strict=True))
_CLOSING_OF = _QUOTES | _TITLES | _BRACKETS

_IDEOGRAPHIC_STOPS = frozenset("。｡︒")
_STRAIGHT = frozenset('"＂')

_LINE_END = re.compile("\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")
_RUN = re.compile(r"\S+")
_QUOTE = re.compile("[Qq]")
_PAIR = re.compile("[OoCc]")
# A run of end marks, with closing marks; and everything that stays with a run that ends a sentence. Both are limited,
# so that a stream never has to wait for the end of a row of marks.
_END = re.compile(f"([TtPpEe][TPEZ]{{0,{_ROW - 1}}})(?:[CZc]|A(?![XWO])){{0,{_ROW}}}")
_TAIL = re.compile(f"(?:[CTPEZct]|A(?![XWO])){{0,{_ROW}}}")
_CLAUSE = re.compile("(?:[MmEeTt]|[Nn](?!W))[MNETCZ]*")

# Words whose full stop does not end a sentence; single letters (U.S., e.g., J. K.) need no list.
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms mx dr prof st sr jr rev hon gen col lt maj capt cmdr sgt gov sen rep pres vs etc cf al ca approx
    est fig figs eq eqs no nos vol vols pp ed eds ch sec art dept univ inst assn bros co corp inc ltd llc plc
    ave blvd rd tel ext jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri ph ver resp incl
    """.split()  # noqa: SIM905 - a list of a hundred quoted words is harder to read
)
_WORD_REACH = 12  # longer words before a full stop are not abbreviations
_TOKEN_GOES_ON = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ=&/#%+-_@~$")
_ITEM_NUMBER = re.compile(r"\d+(?:[.．]\d+)*")


class _Past(NamedTuple):
    """Hold what must be known about the text before a block, and about the sentence that continues in it.

    Positions count the characters of the block; those before it count from -1 down. A block begins far enough before
    `look` for the rules to see everything they look back to.
    """

    first: int = 0  # start of the sentence
    look: int = 0  # where the search for its end continues
    done: int = 0  # everything before this position has been returned, in sentences or in pieces of this one
    quoted: bool = False  # the block begins inside straight double quotes

    @property
    def kept(self) -> int:
        """Return the position from which the rules may still look at the text."""
        return max(0, min(self.done, max(self.first, self.look - _REACH - _WORD_REACH)))

    def seen_from(self, start: int, quoted: bool) -> _Past:
        """Return the same for a block that begins later."""
        return _Past(self.first - start, self.look - start, self.done - start, quoted)


@dataclass(slots=True)
class _Block:
    """Hold a stretch of text: its characters, their offsets and kinds, and the paragraphs as ranges of them."""

    text: str
    offset: int  # offset of its beginning in the whole text
    chars: list[str]
    starts: list[int]
    ends: list[int]
    kinds: str
    paragraphs: list[tuple[int, int]]
    closed: bool  # the last paragraph ends in the block
    past: _Past

    def sentence(self, first: int, last: int, cut: bool) -> RawSentence:
        """Build the sentence of the characters `first` to `last` (exclusive)."""
        chosen, offset = slice(first, last), self.offset
        starts, ends = tuple(self.starts[chosen]), tuple(self.ends[chosen])
        behind = self.starts[last] if last < len(self.starts) else offset + len(self.text)
        text = self.text[starts[0] - offset : ends[-1] - offset]
        after = self.text[ends[-1] - offset : behind - offset]
        return RawSentence(tuple(self.chars[chosen]), starts, ends, text, after, cut)

    @property
    def space(self) -> str:
        """Return the white space at its beginning."""
        return self.text[: self.starts[0] - self.offset] if self.starts else self.text

    def quoted_after(self, done: int) -> bool:
        """Tell whether the text continues inside straight double quotes after `done` characters."""
        first = max((first for first, _ in self.paragraphs if first < done), default=0)
        marks = sum(char[0] in _STRAIGHT for char in self.chars[first:done])
        return (marks + (self.past.quoted and first == 0)) % 2 == 1


def _ends_paragraph(space: str, wrapped: bool) -> bool:
    """Tell whether white space contains a line break or, in wrapped text, a blank line."""
    ends = _LINE_END.finditer(space)
    return next(ends, None) is not None and not (wrapped and next(ends, None) is None)


def _read(text: str, offset: int, past: _Past, wrapped: bool) -> _Block:
    """Find the characters, their kinds and the paragraphs of a text that begins at `offset` of the whole."""
    quoted = past.quoted
    chars: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    kinds: list[str] = []
    firsts: list[int] = []
    end = 0
    for run in _RUN.finditer(text):
        form, start = run.group(), run.start()
        blank = _ends_paragraph(text[end:start], wrapped)
        end = run.end()
        if blank or not chars:
            firsts.append(len(chars))
            quoted = quoted and not (blank and not chars)
        clusters = characters(form)
        places: Sequence[int] = range(offset + start, offset + end + 1)
        if len(clusters) < len(form):
            places = list(accumulate(map(len, clusters), initial=offset + start))
            form = "".join(cluster[0] for cluster in clusters)
        chars += clusters
        starts += places[:-1]
        ends += places[1:]
        letters = form.translate(_KINDS)
        kinds.append(letters[0].lower() + letters[1:])
    joined = "".join(kinds)
    paragraphs = list(pairwise([*firsts, len(chars)]))
    kinds = [_resolve(joined[a:b], quoted and a == 0) for a, b in paragraphs]
    if quoted != past.quoted:
        past = past._replace(quoted=quoted)
    closed = _ends_paragraph(text[end:], wrapped)
    return _Block(text, offset, chars, starts, ends, "".join(kinds), paragraphs, closed, past)


def _resolve(kinds: str, quoted: bool) -> str:
    """Make the straight double quotes of a paragraph opening and closing in turn."""
    turns = cycle("CO" if quoted else "OC")
    return _QUOTE.sub(lambda m: next(turns) if m[0] == "Q" else next(turns).lower(), kinds)


def _spans(block: _Block, limit: int, *, final: bool) -> tuple[list[tuple[int, int, bool]], _Past]:
    """Return first, last (exclusive) and cut of every sentence that later text cannot change, and what is open."""
    spans: list[tuple[int, int, bool]] = []
    opened = block.past
    for number, (start, last) in enumerate(block.paragraphs, start=1):
        complete = final or block.closed or number < len(block.paragraphs)
        # A rule looks ahead at most as far as a shield reaches: later text cannot change what is decided before that.
        sure = last if complete else last - _REACH - 1
        if number > 1:
            opened = _Past(start, start, start)
        done = opened.done
        for place, ends in _search(block, opened, last, sure):
            if not ends:
                opened = opened._replace(look=place)
                continue
            for cut in _cuts(block.kinds, done, place, limit):
                spans.append((done, cut, True))
                done = cut
            spans.append((done, place, False))
            opened = _Past(place, place, place)
            done = place
        if not complete:
            for cut in _cuts(block.kinds, done, sure + 1, limit):
                spans.append((done, cut, True))
                done = cut
            opened = opened._replace(done=done)
    return spans, opened


def _search(block: _Block, opened: _Past, last: int, sure: int) -> Iterator[tuple[int, bool]]:
    """Search a paragraph up to its end `last` for the ends of its sentences, beginning with the open one.

    Yield every position up to `sure` from which the search may continue without knowing what came before, and whether a
    sentence ends (exclusive) there.
    """
    kinds = block.kinds
    first, place = opened.first, opened.look  # where the sentence begins; where to continue
    pairs = _pairs(block, max(0, first), last)
    pair = next(pairs, None)
    shield = soft_shield = 0  # up to where no end mark counts, or only 。
    while (match := _END.search(kinds, place, last)) and match.start() <= sure:
        yield match.start(), False
        while pair and pair[0] < match.start():
            opening, closing = pair
            char, inner = block.chars[opening], opening > first
            if char in _TITLES or (char in _BRACKETS and inner):
                shield = max(shield, closing)
            elif char in _QUOTES and inner and kinds[opening] == "O" and kinds[opening - 1] in "XxWw":
                soft_shield = max(soft_shield, closing)
            pair = next(pairs, None)
        soft = match.start() < soft_shield
        place, ends = match.end(1), False
        if match.start() >= shield and _may_end(block, match, first, last, soft=soft):
            tail = _TAIL.match(kinds, place, last)
            end, place = place, tail.end() if tail else place
            ends = not _continues(block, end, place, last)
        if place > sure:
            return
        yield place, ends
        if ends:
            # What opened in this sentence does not shield the next one: a stream may have forgotten it by then.
            first = shield = soft_shield = place
    if sure < last:
        yield max(place, sure), False
    elif first < last:
        yield last, True


def _may_end(block: _Block, match: re.Match[str], first: int, last: int, *, soft: bool) -> bool:
    """Tell whether a run of end marks can end the sentence that began at `first`; inside a `soft` shield only 。 can."""
    start, end = match.span(1)
    marks = match[1].upper().rstrip("Z")
    if "T" not in marks:
        return marks == "P" and _stop_ends(block, first, start, match.end(), last)
    if soft and not any(char[0] in _IDEOGRAPHIC_STOPS for char in block.chars[start:end]):
        return False
    return not _inside_token(block, first, start, end, last)


def _pairs(block: _Block, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Return the opening marks that are closed within reach, in order, each with its closing mark."""
    waiting: dict[str, list[int]] = {}  # opening marks by the mark that closes them
    pairs: list[tuple[int, int]] = []
    for mark in _PAIR.finditer(block.kinds, first, last):
        place = mark.start()
        char = block.chars[place]
        if mark.group() in "Oo":
            if char in _CLOSING_OF:
                waiting.setdefault(_CLOSING_OF[char], []).append(place)
        elif waiting.get(char):
            opening = waiting[char].pop()
            if place - opening <= _REACH:
                pairs.append((opening, place))
    return iter(sorted(pairs))


def _inside_token(block: _Block, first: int, start: int, end: int, last: int) -> bool:
    """Tell whether Western end marks are inside a token without spaces, such as an address with a query."""
    chars, kinds = block.chars, block.kinds
    if start == first or end == last or not (kinds[start].isupper() and kinds[end].isupper()):
        return False
    western = all(char in "!?." for char in chars[start:end])
    return western and chars[start - 1].isascii() and chars[end] in _TOKEN_GOES_ON


def _stop_ends(block: _Block, first: int, stop: int, tail: int, last: int) -> bool:
    """Tell whether a single full stop ends the sentence that began at `first`."""
    chars, kinds = block.chars, block.kinds
    if tail == last:
        return True
    if stop == first:
        return False
    if kinds[tail].isupper() and (kinds[tail] not in "XO" or chars[tail].isascii()):
        return False
    if kinds[tail] in "Ww" and chars[tail].islower():
        return False
    word = stop
    while word > max(first, stop - _WORD_REACH) and kinds[word] not in "wp" and kinds[word - 1] in "Ww":
        word -= 1
    form = "".join(chars[word:stop])
    if form.lower() in _ABBREVIATIONS or (len(form) == 1 and form.isalpha()):
        return False
    if stop - first <= _WORD_REACH and _ITEM_NUMBER.fullmatch("".join(chars[first:stop])):
        return False
    listed = word > first and (kinds[word] == "w" or kinds[word - 1] in "MmNnOo")
    return not (listed and form.isdigit() and len(form) <= 2)


def _continues(block: _Block, end: int, tail: int, last: int) -> bool:
    """Tell whether the text after an end mark and its closing marks shows that the sentence continues."""
    if tail == last:
        return False
    chars, kinds = block.chars, block.kinds
    if kinds[tail] in "MN":
        return True
    if not any(kind in "Cc" for kind in kinds[end:tail]):
        return False
    particle = (
        chars[tail] == "的" and kinds[tail] == "X" and "".join(chars[tail : tail + 2]) not in ("的确", "的士")
    )
    return particle or (kinds[tail] in "Ww" and chars[tail].islower())


def _cuts(kinds: str, first: int, last: int, limit: int) -> Iterator[int]:
    """Yield the positions where the sentence `first` to `last` is cut so that no piece exceeds the limit."""
    while last - first > limit:
        far = first + limit
        # One kind beyond the limit is visible, to see whether a closing mark or the rest of a token follows.
        clauses = [m.end() for m in _CLAUSE.finditer(kinds, first, far + 1) if m.end() <= far]
        places = range(far, first, -1)
        if clauses:
            first = clauses[-1]
        elif spaces := next((p for p in places if kinds[p].islower()), None):
            first = spaces
        else:
            first = next((p for p in places if _may_break(kinds[p - 1], kinds[p])), far)
        yield first


def _may_break(before: str, after: str) -> bool:
    """Tell whether a line break is allowed between two characters of these kinds."""
    return after in "XWO" and before not in "Oo" and not (before in "WwNnPp" and after == "W")
