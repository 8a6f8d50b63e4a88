"""Parse text or words into documents: sentences, constraints, batches, and the way back to offsets.

    parser = load()                                            # or load("path/to/model")
    document = parser("上海计划发展金融业。")
    document = parser("...", pins=[(0, 2)], breaks=[5])         # words and boundaries that are known
    document = parser("...", style="hk")                        # the conventions of another treebank
    document = parser.parse_words([["上海", "计划", "发展", "金融业"]])
    for document in parser.pipe(texts): ...                    # many texts
    for sentence in parser.stream(open("book.txt", newline="")): ...    # one endless text, constant memory

`zishu.text` cuts text into sentences of characters, `zishu.model` finds the trees; here lies what is between
them. All that is known of the words of a sentence (white space, pins, breaks, a lexicon) becomes a value for
each gap between two characters (`zishu.gaps`), so the chart obeys it and words and tree cannot disagree.
Contradictions are found before a model runs, and named with their offsets.

Sentences are handed to the model in lots of some ten thousand characters, across texts. It deals them to batches
of equal length; a lot that is large enough has few sentences without a partner of their length. A parser holds
no state: several threads may use one at once, and a generator that nobody reads on costs nothing.

Cost: the model's, which is linear in the length of the text because no sentence exceeds `zishu.text.LIMIT`
characters; this module itself takes one or two microseconds a character.
"""

from __future__ import annotations

import os
from functools import partial
from itertools import islice, repeat
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zishu import chart
from zishu.constraints import Constraints, Pin
from zishu.document import Document, Sentence, Word
from zishu.errors import InputError
from zishu.items import Item, line_items, lots, stream_items, text_items, word_starts, words_document
from zishu.lexicon import Lexicon
from zishu.model import load_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zishu.model import Model, Pipeline
    from zishu.model.decode import Analysis, Decoding, Gaps

    Words = Iterable[str] | Lexicon | None

MODELS: Final = Path(__file__).parent / "models"
DEFAULT: Final = "default"

# Characters that are read before the model runs: some fifteen of its batches, so that lengths even out.
LOOK_AHEAD: Final = 30_000


def find_model(model: str | os.PathLike[str] | None = None) -> Path:
    """Return the directory of a bundled model, by its name, or of the model in a directory.

    The names of bundled models come first: write `./fast` for a directory of that name.
    """
    name = os.fspath(model) if model is not None else DEFAULT
    return MODELS / name if name in bundled_models() else Path(name)


def bundled_models() -> list[str]:
    """Return the names of the models that come with Zishu."""
    return sorted(path.name for path in MODELS.iterdir() if path.is_dir())


def load(
    model: str | os.PathLike[str] | None = None, *, style: str | None = None, threads: int = 0
) -> Parser:
    """Load a parser: a bundled model by its name (without one, "default"), or the model in a directory.

    `style` names the treebank whose conventions the parser follows from then on; without it, the model's first one.
    Networks and chart run on `threads` threads; 0 means one for each core. The chart has one setting for the whole
    process (`zishu.chart.set_threads`), so the last parser that is loaded with a number decides for all of them.
    """
    if threads < 0:
        raise InputError(f"the number of threads must be at least 0, not {threads}")
    path = find_model(model)
    parser = Parser(load_model(path, threads=threads), path=path).in_style(style)
    if threads:
        chart.set_threads(threads)
    return parser


class Parser:
    """A model and the way to it from text and back.

    Offsets are half-open and count code points. `pins` are words that must be kept as exactly one word,
    `breaks` offsets that no word goes over (at white space and at the ends of the text that is so anyway),
    `lexicon` words that are kept whole where they occur, as a `Lexicon` (build it once if it is large) or any
    collection of strings. See `zishu.constraints`. `style` names the treebank whose conventions for words and relations
    are followed; `parser.styles` lists those that the model knows.
    """

    __slots__ = ("model", "path", "style")

    def __init__(
        self,
        model: Model | Pipeline,
        *,
        path: str | os.PathLike[str] | None = None,
        style: str | None = None,
    ) -> None:
        self.model: Final = model if style is None else model.in_style(style)
        self.path: Final = None if path is None else Path(path)
        self.style: Final = style or next(iter(model.settings.styles), None)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model.settings.name or self.model.settings.task!r}>"

    @property
    def info(self) -> dict[str, Any]:
        """Return what is known of the model: the settings in its config.json, and where it lies."""
        return {"path": None if self.path is None else str(self.path), **self.model.settings.to_json()}

    @property
    def styles(self) -> tuple[str, ...]:
        """Return the styles that the model knows, the default one first; empty if it has none."""
        return self.model.settings.styles

    def in_style(self, style: str | None) -> Parser:
        """Return a parser with the same model that follows another style; None changes nothing."""
        if style is None or style == self.style:
            return self
        return Parser(self.model, path=self.path, style=style)

    def __call__(
        self,
        text: str,
        *,
        pins: Iterable[Pin] = (),
        breaks: Iterable[int] = (),
        lexicon: Words = None,
        style: str | None = None,
        confidence: bool = True,
        decoding: Decoding = "mbr",
    ) -> Document:
        """Parse a text.

        Without `confidence` probabilities are None, and it goes faster. `decoding` is "mbr", the tree with
        the most heads expected to be right; "viterbi", the most probable character tree; or "vanilla", which decodes a
        model with one role as the paper does, where trees may need repairs. Sentences of whose words something is
        known, be it a space, are then decoded by "viterbi", since that algorithm has no place for it.
        """
        items = text_items(text, pins=pins, breaks=breaks, lexicon=_lexicon(lexicon))
        parsed = self.in_style(style)._parse(items, confidence=confidence, decoding=decoding)
        return Document(text, tuple(parsed))

    def parse_words(
        self,
        sentences: Iterable[Sequence[str]],
        *,
        style: str | None = None,
        confidence: bool = True,
        decoding: Decoding = "mbr",
    ) -> Document:
        """Parse sentences of given words.

        The text of the document is the words joined as Chinese is written, each sentence a line. A sentence of
        more than `zishu.text.LIMIT` characters is cut, if possible after punctuation, and the cut marked.
        """
        if isinstance(sentences, str):
            raise InputError("parse_words takes sentences of words, not a string")
        text, items = words_document(sentences)
        parsed = self.in_style(style)._parse_words(items, confidence=confidence, decoding=decoding)
        return Document(text, tuple(parsed))

    def pipe(
        self,
        texts: Iterable[str],
        *,
        lexicon: Words = None,
        style: str | None = None,
        confidence: bool = True,
        decoding: Decoding = "mbr",
        batch_chars: int = LOOK_AHEAD,
    ) -> Iterator[Document]:
        """Parse texts, and yield their documents in order; `batch_chars` characters are read ahead."""
        if isinstance(texts, str):
            raise InputError(
                "pipe takes an iterable of texts, not a string: for one text call the parser itself"
            )
        _check_size(batch_chars)
        parser = self.in_style(style)
        parse = partial(parser._parse, confidence=confidence, decoding=decoding, size=batch_chars)
        return _documents(texts, _lexicon(lexicon), parse, batch_chars)

    def stream(
        self,
        pieces: Iterable[str],
        *,
        lexicon: Words = None,
        style: str | None = None,
        confidence: bool = True,
        decoding: Decoding = "mbr",
        words: bool = False,
        batch_chars: int = LOOK_AHEAD,
    ) -> Iterator[Sentence]:
        r"""Parse one text of any length that comes in pieces, such as the lines of an open file.

        Offsets count from its beginning (open files with `newline=""`, else CR LF counts 1). Memory is constant:
        that of `batch_chars` characters, or of the longest line or sentence. With `words` every line is a
        sentence, and white space separates its words.
        """
        _check_size(batch_chars)
        if isinstance(pieces, str):
            pieces = [pieces]
        known = _lexicon(lexicon)
        parser = self.in_style(style)
        if not words:
            items = stream_items(pieces, Constraints(lexicon=known))
            return parser._parse(items, confidence=confidence, decoding=decoding, size=batch_chars)
        if known:
            raise InputError("where the words are given there is no use for a lexicon")
        return parser._parse_words(
            line_items(pieces), confidence=confidence, decoding=decoding, size=batch_chars
        )

    def k_best(
        self,
        text: str,
        k: int,
        *,
        pins: Iterable[Pin] = (),
        breaks: Iterable[int] = (),
        lexicon: Words = None,
        style: str | None = None,
    ) -> list[list[Sentence]]:
        """Return up to `k` different analyses of every sentence of a text, the most probable first.

        They are ranked by the probability of their words and tree, with the trees inside words summed out.
        """
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        items = text_items(text, pins=pins, breaks=breaks, lexicon=_lexicon(lexicon))
        return list(self.in_style(style).analyse(items, k_best=k))

    def analyse(
        self,
        items: Iterable[Item],
        *,
        words: bool = False,
        k_best: int = 0,
        confidence: bool = True,
        decoding: Decoding = "mbr",
    ) -> Iterator[list[Sentence]]:
        """Parse sentences that `zishu.items` has prepared; yield the best analysis of each, or its `k_best` best.

        With `words` the units of the items are words. This is what all other methods do, without their text.
        """
        if not k_best:
            parse = self._parse_words if words else self._parse
            sentences = parse(items, confidence=confidence, decoding=decoding)
            yield from ([sentence] for sentence in sentences)
            return
        for lot in lots(items, LOOK_AHEAD):
            units = [item.units for item in lot]
            if words:
                ranked = self.model.k_best_words(units, k_best)
            else:
                ranked = self.model.k_best(units, k_best, _gaps(lot))
            for item, analyses in zip(lot, ranked, strict=True):
                yield [_sentence(item, analysis) for analysis in analyses]

    def _parse(
        self, items: Iterable[Item], *, confidence: bool, decoding: Decoding, size: int = LOOK_AHEAD
    ) -> Iterator[Sentence]:
        parse = partial(self.model.parse, confidence=confidence)
        for lot in lots(items, size):
            if decoding != "vanilla":
                found = parse([item.units for item in lot], _gaps(lot), decoding=decoding)
                yield from map(_sentence, lot, found)
                continue
            known = [item for item in lot if item.gaps is not None]
            free = [item for item in lot if item.gaps is None]
            found_free = iter(parse([item.units for item in free], decoding="vanilla"))
            found_known = iter(parse([item.units for item in known], _gaps(known), decoding="viterbi"))
            for item in lot:
                yield _sentence(item, next(found_free if item.gaps is None else found_known))

    def _parse_words(
        self, items: Iterable[Item], *, confidence: bool, decoding: Decoding, size: int = LOOK_AHEAD
    ) -> Iterator[Sentence]:
        for lot in lots(items, size):
            found = self.model.parse_words(
                [item.units for item in lot], confidence=confidence, decoding=decoding
            )
            yield from map(_sentence, lot, found)


def _documents(
    texts: Iterable[str],
    lexicon: Lexicon | None,
    parse: Callable[[Iterable[Item]], Iterator[Sentence]],
    batch_chars: int,
) -> Iterator[Document]:
    """Parse texts, as many at a time as have `batch_chars` characters together."""
    waiting: list[tuple[str, list[Item]]] = []

    def finished() -> Iterator[Document]:
        sentences = parse([item for _, items in waiting for item in items])
        for text, items in waiting:
            yield Document(text, tuple(islice(sentences, len(items))))

    size = 0
    for text in texts:
        items = text_items(text, lexicon=lexicon)
        waiting.append((text, items))
        size += 1 + sum(len(item.units) for item in items)  # a blank text takes memory, too
        if size >= batch_chars:
            yield from finished()
            waiting, size = [], 0
    yield from finished()


def _gaps(lot: Sequence[Item]) -> list[Gaps | None] | None:
    if all(item.gaps is None for item in lot):
        return None
    return [None if item.gaps is None else np.frombuffer(item.gaps, dtype=np.int8) for item in lot]


def _check_size(batch_chars: int) -> None:
    if batch_chars < 1:
        raise InputError(f"batch_chars must be at least 1, not {batch_chars}")


def _lexicon(words: Words) -> Lexicon | None:
    lexicon = words if words is None or isinstance(words, Lexicon) else Lexicon(words)
    return lexicon or None


def _sentence(item: Item, analysis: Analysis) -> Sentence:
    """Put what a model found back into its place in the text."""
    tree, sure = analysis.tree, analysis.confidence
    unknown = repeat(None)
    start = item.start
    starts = [start + place for place in word_starts(tree.forms, item.text)]
    words = map(
        Word,
        range(1, len(starts) + 1),
        tree.forms,
        starts,
        map(add, starts, map(len, tree.forms)),
        tree.upos or unknown,
        tree.heads,
        tree.deprels,
        analysis.char_heads or unknown,
        unknown if sure is None else sure.boundaries or unknown,
        unknown if sure is None else sure.heads,
        unknown if sure is None else sure.labels,
        unknown if sure is None else sure.upos or unknown,
        tree.xpos or unknown,
        tree.feats or unknown,
        tree.lemma or unknown,
    )
    return Sentence(item.text, start, tuple(words), item.cut, None if sure is None else sure.tree)
