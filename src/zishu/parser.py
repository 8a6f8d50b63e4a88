"""Parse text or words into documents.

    parser = load()                                            # or load("path/to/model")
    document = parser("上海计划发展金融业。")
    document = parser("...", pins=[(0, 2)], breaks=[5])         # known words and boundaries
    document = parser("...", pins=[(0, 2), (4, 6)], arcs=[(0, 4)])   # the head of the word at 0 is the word at 4
    document = parser("...", style="hk")                        # the conventions of another treebank
    document = parser.parse_words([["上海", "计划", "发展", "金融业"]])
    words = parser.segment("..."); pairs = parser.tag("...")     # without trees, and faster
    for document in parser.pipe(texts): ...                    # many texts
    for sentence in parser.stream(open("book.txt", newline="")): ...    # one endless text, constant memory

`zishu.sentences` creates the sentences, and `zishu.model` finds their trees; a parser combines the two. Everything
known about the words of a sentence (white space, pins, breaks, a lexicon) is one value per gap between two characters
(`zishu.gaps`), so the chart obeys it, and words and tree cannot disagree. Contradictions are found before a model runs,
and reported with their offsets.

Sentences are passed to the model in chunks of about ten thousand characters, across texts. The model groups them into
batches of equal length; in a large chunk few sentences remain alone. A parser holds no state: several threads may use
it at once, and a generator that is not read to its end costs nothing.

Cost: the model's, which is linear in the length of the text because no sentence exceeds `zishu.text.LIMIT` characters.
"""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, Unpack, get_args

from zishu import chart
from zishu.arguments import MOST_ANALYSES, iterator_of, whole_number
from zishu.constraints import Pin, TagsLike, read_tags
from zishu.document import Document, Sentence, Token, Tokens
from zishu.errors import InputError
from zishu.lexicon import Lexicon, LexiconLike
from zishu.model.files import find_model
from zishu.model.runtime import load_model
from zishu.sentences import Knowledge, line_sentences, stream_sentences, text_sentences, words_document

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence, Sized

    from zishu.arcs import ArcLike
    from zishu.model.decode import Decoding
    from zishu.model.model import Model, Pipeline
    from zishu.text import RawSentence

InnerTrees = Literal["structure", "latent"]
INNER_TREES: Final = get_args(InnerTrees)

_T = TypeVar("_T", bound="Sized")

# Number of characters read before the model runs: about fifteen batches, so that lengths even out.
LOOK_AHEAD: Final = 30_000
_MOST_THREADS: Final = 1024


def load(
    model: str | os.PathLike[str] | None = None,
    *,
    style: str | None = None,
    inner: InnerTrees = "structure",
    threads: int = 0,
) -> Parser:
    """Load a parser: a bundled model by its name (without one, "default"), or the model in a directory.

    `style` names the treebank whose conventions the parser follows (default: the model's first style).
    `inner` selects the trees inside words (see `Parser`).
    Networks and chart run on `threads` threads; 0 means one for each core. The chart has one setting for the whole
    process (`zishu.chart.set_threads`), so the last parser that is loaded with a number decides for all of them.
    """
    threads = whole_number(threads, "the number of threads", least=0, most=_MOST_THREADS)
    path = find_model(model)
    parser = Parser(load_model(path, threads=threads), path=path, inner=inner).in_style(style)
    if threads:
        chart.set_threads(threads)
    return parser


class Parser:
    """Parse text with a model.

    A call may say what is known about the text. Offsets are half-open and count code points; `zishu.constraints` and
    `zishu.arcs` say what contradicts what.

    - `pins`: spans of the text that are exactly one word each.
    - `breaks`: offsets that no word may cross; white space and the ends of the text always are such boundaries.
    - `arcs`: pairs (dependent, head) of pinned words that the tree must have, given by the offsets where the words begin;
      the head None is the root, and a third entry fixes the relation.
    - `tags`: parts of speech of pinned words, by the same offsets; they do not influence the tree.
    - `lexicon`: words that are kept whole wherever they occur, as a `Lexicon` (build it once if it is large) or any
      collection of strings.
    - `patterns`: whether addresses, dates, numbers and Latin words are kept whole (`zishu.patterns`).
    - `wrapped`: whether a line break is plain white space; then a sentence ends at a blank line.

    And how it is parsed:

    - `style`: the treebank whose conventions for words and relations are followed; `parser.styles` lists those that the
      model knows.
    - `inner`: the trees inside words. "structure" (the default): those of the structure scorer, with relations, if the
      model has one (see docs/word-structure.md). "latent": those of the paper, which the parser has learned without
      annotation.
    - `confidence`: without it, probabilities are None and parsing is faster.
    - `decoding`: "mbr", the tree with the highest expected number of correct heads; "viterbi", the most probable
      character tree; or "vanilla", which decodes a model with one role as the paper does, where trees may need repairs.
      Vanilla decoding cannot honour constraints, so sentences with any (even a space) use "viterbi", and patterns are
      not used.
    """

    __slots__ = ("inner", "model", "path", "style")

    def __init__(
        self,
        model: Model | Pipeline,
        *,
        path: str | os.PathLike[str] | None = None,
        style: str | None = None,
        inner: InnerTrees = "structure",
    ) -> None:
        if inner not in INNER_TREES:
            raise InputError(f"unknown inner trees {inner!r}: choose from {', '.join(INNER_TREES)}")
        self.inner: Final = inner
        self.model: Final = model if style is None else model.in_style(style)
        self.path: Final = None if path is None else Path(path)
        self.style: Final = next(iter(model.settings.styles), None) if style is None else style

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model.settings.name or self.model.settings.task!r}>"

    @property
    def info(self) -> dict[str, Any]:
        """Return the settings of the model from its config.json, and its path."""
        return {"path": None if self.path is None else str(self.path), **self.model.settings.to_json()}

    @property
    def styles(self) -> tuple[str, ...]:
        """Return the styles of the model, the default one first; empty if it has none."""
        return self.model.settings.styles

    def in_style(self, style: str | None, inner: InnerTrees | None = None) -> Parser:
        """Return a parser with the same model and another style or other inner trees; None changes nothing."""
        style = self.style if style is None else style
        inner = self.inner if inner is None else inner
        if (style, inner) == (self.style, self.inner):
            return self
        return Parser(self.model, path=self.path, style=style, inner=inner)

    def __call__(
        self,
        text: str,
        *,
        pins: Iterable[Pin] = (),
        breaks: Iterable[int] = (),
        arcs: Iterable[ArcLike] = (),
        tags: TagsLike = (),
        lexicon: LexiconLike = None,
        patterns: bool = True,
        wrapped: bool = False,
        style: str | None = None,
        inner: InnerTrees | None = None,
        confidence: bool = True,
        decoding: Decoding = "mbr",
    ) -> Document:
        """Parse a text; the class explains the options."""
        patterns = patterns and decoding != "vanilla"
        raw = self._sentences(
            text, pins=pins, breaks=breaks, arcs=arcs, tags=tags, lexicon=lexicon, patterns=patterns, wrapped=wrapped
        )  # fmt: skip
        parsed = self.in_style(style, inner).analyse(raw, confidence=confidence, decoding=decoding)
        return Document(text, tuple(best for [best] in parsed))

    def segment(self, text: str, *, style: str | None = None, **known: Unpack[Knowledge]) -> list[str]:
        """Return the words of a text, the same as parsing finds, in half to two thirds of its time.

        `known` are the arguments from `pins` to `wrapped` of a call of the parser.
        """
        return [token.form for token in self._tokens(text, style, known, tags=False)]

    def tag(
        self, text: str, *, style: str | None = None, **known: Unpack[Knowledge]
    ) -> list[tuple[str, str | None]]:
        """Return the words of a text with their parts of speech (UPOS); see `segment`."""
        return [(token.form, token.upos) for token in self._tokens(text, style, known, tags=True)]

    def _tokens(self, text: str, style: str | None, known: Knowledge, *, tags: bool) -> Iterator[Token]:
        for found in self.in_style(style).tokens(self._sentences(text, **known), tags=tags):
            yield from found.words

    def parse_words(
        self,
        sentences: Iterable[Sequence[str]],
        *,
        style: str | None = None,
        inner: InnerTrees | None = None,
        confidence: bool = True,
        decoding: Decoding = "mbr",
    ) -> Document:
        """Parse sentences of given words.

        The text of the document consists of the words joined as Chinese is written, one sentence per line. A sentence
        of more than `zishu.text.LIMIT` characters is cut, if possible after punctuation, and the cut is marked.
        """
        if isinstance(sentences, str):
            raise InputError("parse_words takes sentences of words, not a string")
        text, raw = words_document(sentences)
        parsed = self.in_style(style, inner).analyse(raw, confidence=confidence, decoding=decoding)
        return Document(text, tuple(best for [best] in parsed))

    def pipe(
        self,
        texts: Iterable[str],
        *,
        lexicon: LexiconLike = None,
        patterns: bool = True,
        wrapped: bool = False,
        style: str | None = None,
        inner: InnerTrees | None = None,
        confidence: bool = True,
        decoding: Decoding = "mbr",
        batch_chars: int = LOOK_AHEAD,
    ) -> Iterator[Document]:
        """Parse texts, and yield their documents in order; reads `batch_chars` characters ahead."""
        if isinstance(texts, str):
            raise InputError(
                "pipe takes an iterable of texts, not a string: for one text call the parser itself"
            )
        batch_chars = whole_number(batch_chars, "batch_chars", least=1)
        parser = self.in_style(style, inner)
        coming, known = iterator_of(texts, "texts"), Lexicon.of(lexicon)
        patterns = patterns and decoding != "vanilla"

        def documents() -> Iterator[Document]:
            split = (
                (text, list(text_sentences(text, lexicon=known, patterns=patterns, wrapped=wrapped)))
                for text in coming
            )
            # A blank text takes memory, too.
            for group in _chunks(split, batch_chars, lambda item: 1 + sum(map(len, item[1]))):
                raw = chain.from_iterable(sentences for _, sentences in group)
                parsed = parser.analyse(
                    raw, confidence=confidence, decoding=decoding, batch_chars=batch_chars
                )
                for text, sentences in group:
                    yield Document(text, tuple(best for [best] in islice(parsed, len(sentences))))

        return documents()

    def stream(
        self,
        pieces: Iterable[str],
        *,
        lexicon: LexiconLike = None,
        patterns: bool = True,
        wrapped: bool = False,
        style: str | None = None,
        inner: InnerTrees | None = None,
        confidence: bool = True,
        decoding: Decoding = "mbr",
        words: bool = False,
        batch_chars: int = LOOK_AHEAD,
    ) -> Iterator[Sentence]:
        r"""Parse one text of any length that comes in pieces, such as the lines of an open file.

        Offsets count from its beginning (open files with `newline=""`, otherwise CR LF counts as 1). Memory is
        constant: `batch_chars` characters, and the longest white space between two of them. With `words`, every line is
        a sentence, white space separates its words, and the longest line is kept in memory.
        """
        batch_chars = whole_number(batch_chars, "batch_chars", least=1)
        pieces = _strings(iterator_of([pieces] if isinstance(pieces, str) else pieces, "pieces of text"))
        known = Lexicon.of(lexicon)
        if words and known:
            raise InputError("a lexicon cannot be used with given words")
        patterns = patterns and decoding != "vanilla"
        raw = (
            line_sentences(pieces)
            if words
            else stream_sentences(pieces, lexicon=known, patterns=patterns, wrapped=wrapped)
        )
        parser = self.in_style(style, inner)
        parsed = parser.analyse(raw, confidence=confidence, decoding=decoding, batch_chars=batch_chars)
        return (best for [best] in parsed)

    def k_best(
        self,
        text: str,
        k: int,
        *,
        style: str | None = None,
        inner: InnerTrees | None = None,
        **known: Unpack[Knowledge],
    ) -> list[list[Sentence]]:
        """Return up to `k` (at most 1,000) different analyses of every sentence of a text, most probable first.

        They are ranked by the probability of their words and tree, with the trees inside words summed out. `known` are
        the arguments from `pins` to `wrapped` of a call of the parser.
        """
        k = whole_number(k, "k", least=1, most=MOST_ANALYSES)
        return list(self.in_style(style, inner).analyse(self._sentences(text, **known), k_best=k))

    def _sentences(self, text: str, **known: Unpack[Knowledge]) -> Iterator[RawSentence]:
        known["tags"] = self.check_tags(known.get("tags", ()))
        return text_sentences(text, **known)

    def analyse(
        self,
        sentences: Iterable[RawSentence],
        *,
        k_best: int = 0,
        confidence: bool = True,
        decoding: Decoding = "mbr",
        batch_chars: int = LOOK_AHEAD,
    ) -> Iterator[list[Sentence]]:
        """Parse sentences made by `zishu.sentences`; yield the best analysis of each, or its `k_best` best.

        All other methods call this one.
        """
        structures = self.inner == "structure"
        for chunk in _chunks(sentences, batch_chars):
            if k_best:
                yield from self.model.k_best(chunk, k_best, structures=structures)
                continue
            for best in self.model.parse(
                chunk, confidence=confidence, decoding=decoding, structures=structures
            ):
                yield [best]

    def tokens(self, sentences: Iterable[RawSentence], *, tags: bool = False) -> Iterator[Tokens]:
        """Segment sentences made by `zishu.sentences` into words; with `tags`, also find their parts of speech."""
        for chunk in _chunks(sentences, LOOK_AHEAD):
            yield from self.model.tokens(chunk, tags=tags)

    def check_tags(self, tags: TagsLike) -> dict[int, str]:
        """Return parts of speech by offset; raise an error for one that the model does not have."""
        return read_tags(tags, self.model.settings.upos)


def _strings(pieces: Iterable[str]) -> Iterator[str]:
    for piece in pieces:
        if not isinstance(piece, str):
            raise InputError(f"a piece of text is a string, not {type(piece).__name__}")
        yield piece


def _chunks(items: Iterable[_T], size: int, length: Callable[[_T], int] = len) -> Iterator[list[_T]]:
    """Collect sentences, or texts, until they have `size` characters together."""
    chunk: list[_T] = []
    count = 0
    for item in items:
        chunk.append(item)
        count += length(item)
        if count >= size:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk
