"""Use Zishu in a spaCy pipeline: its words, sentences, trees and probabilities on spaCy's documents.

    nlp = spacy.blank("zh")
    nlp.add_pipe("zishu")                                  # or with config={"model": "path/to/model"}
    doc = nlp("上海计划发展金融业。")
    for token in doc: print(token.text, token.pos_, token.dep_, token.head, token._.char_heads, token._.prob)

The component reads the text of a document, ignores its tokens, and returns a document with Zishu's words: one parse
finds words and tree together, and `nlp.pipe` parses whole batches. A spaCy tokenizer cannot do that, because it is
called once per text. For pipelines that need Zishu's words from `nlp.make_doc` on, there is a tokenizer (`@tokenizers =
"zishu.Tokenizer.v1"`). It parses, too, and the component skips such documents. With `words = "given"`, the component
keeps the tokens (and sentences, if any) of the document and finds the tree over them.

`doc.text` is always the text. One space after a word is its `whitespace_`; other white space becomes separate tokens
(SPACE) that depend on the preceding word, as in spaCy's own pipelines. The root's relation is ROOT, as in spaCy.

The networks are loaded on first use, once in each process, because a forked process cannot use those of its parent.
This module only copies the results of `zishu.parser` to spaCy's objects.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from bisect import bisect_left
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, get_type_hints

import numpy as np

from zishu.errors import InputError, MissingExtra
from zishu.lexicon import Lexicon
from zishu.model.directory import copy_model, fresh_directory
from zishu.model.files import find_model
from zishu.parser import Parser, load
from zishu.splitting import split_sentences
from zishu.tags import EMPTY
from zishu.text import characters

try:
    from spacy.attrs import DEP, HEAD, IS_SPACE, POS, TAG
    from spacy.language import Language
    from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
    from spacy.pipeline import Pipe
    from spacy.scorer import Scorer
    from spacy.tokens import Doc, Token
    from spacy.util import DummyTokenizer, filter_spans, minibatch, registry
except ImportError as error:
    raise MissingExtra("spacy", "spacy") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spacy.tokens import Span
    from spacy.training import Example
    from spacy.vocab import Vocab

    from zishu.document import Document, Word

_Factory = TypeVar("_Factory", bound="Callable[..., Any]")

NAME: Final = "zishu"  # name of the component, and of its attributes on tokens and documents
TOKENIZER: Final = "zishu.Tokenizer.v1"

# What a token keeps of its word; each is also an attribute of its own.
_KEPT: Final = (
    "char_heads", "char_rels", "boundary_prob", "head_prob", "label_prob", "upos_prob", "structure_prob",
)  # fmt: skip


# ---- token attributes


def _getter(name: str) -> Callable[[Token], Any]:
    def get(token: Token) -> Any:
        value = (token._.zishu or {}).get(name)
        # A document that was stored has lists: msgpack, which spaCy uses, has no tuples.
        return tuple(value) if isinstance(value, list) else value

    return get


def _root_char(token: Token) -> str | None:
    heads = _getter("char_heads")(token)
    return None if heads is None else characters(token.text)[heads.index(0)]


def _prob(token: Token) -> float | None:
    values = [_getter(name)(token) for name in ("boundary_prob", "head_prob", "label_prob")]
    return None if None in values else math.prod([*values, _getter("upos_prob")(token) or 1.0])


def _extend() -> None:
    """Register our attributes with spaCy; names that are already taken are kept."""
    for kind in (Token, Doc):
        if not kind.has_extension(NAME):
            kind.set_extension(NAME, default=None)  # of a token: `_KEPT`; of a document: how it was parsed
    getters = {name: _getter(name) for name in _KEPT} | {"root_char": _root_char, "prob": _prob}
    for name, getter in getters.items():
        if not Token.has_extension(name):
            Token.set_extension(name, getter=getter)


_extend()


# ---- the parser of a process


@lru_cache(maxsize=4)
def _load(model: str | None, threads: int, process: int) -> Parser:  # noqa: ARG001 (one for each process)
    return load(model, threads=threads)


@dataclass(slots=True)
class Engine:
    """Hold settings and the parser they define; can be pickled, copied and forked, unlike the parser."""

    model: str | None = None
    style: str | None = None
    lexicon: str | list[str] | None = None  # a file, or words
    patterns: bool = True
    wrapped: bool = False
    confidence: bool = True
    threads: int = 0
    copy_model: bool = False
    words: Lexicon | None = field(init=False)
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        lexicon = self.lexicon
        self.words = Lexicon.load(lexicon) if isinstance(lexicon, str) else Lexicon.of(lexicon)
        self.signature = repr((self.model, self.style, lexicon, self.patterns, self.wrapped, self.confidence))
        if self.model is not None and not self.copy_model and not find_model(self.model).is_dir():
            raise InputError(f"{self.model}: no such model directory")

    @property
    def parser(self) -> Parser:
        """Return the parser of this process."""
        threads = self.threads
        if threads == 0 and multiprocessing.parent_process() is not None:
            threads = 1  # one of several processes, which share the cores
        return _load(self.model, threads, os.getpid())

    def parse(self, texts: Sequence[str]) -> Iterator[Document]:
        """Parse texts in batches."""
        for text in texts:
            _check(text)
        return self.parser.pipe(
            texts, style=self.style, lexicon=self.words, patterns=self.patterns, wrapped=self.wrapped,
            confidence=self.confidence,
        )  # fmt: skip


class _Stored:
    """Save and load what is stored with a pipeline: the model, if configured."""

    engine: Engine

    def to_disk(self, path: str | os.PathLike[str], **_: Any) -> None:
        """Copy the model, if configured; the settings are in the configuration of the pipeline."""
        engine = self.engine
        model, copy = find_model(engine.model or None), Path(path) / "model"
        # A pipeline that was loaded from this folder already has its model there.
        if engine.copy_model and model.resolve() != copy.resolve():
            # As a new folder: one of an earlier pipeline may have other files, or links to elsewhere.
            with fresh_directory(copy) as folder:
                copy_model(model, folder)

    def from_disk(self, path: str | os.PathLike[str], **_: Any) -> Self:
        """Use the copy of the model, if there is one."""
        if self.engine.copy_model and (Path(path) / "model").is_dir():
            self.engine.model = str(Path(path) / "model")
        return self


def _check(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text has a lone surrogate at offset {error.start}: spaCy cannot hold it"
        ) from None


# ---- the component


def _typed(factory: _Factory) -> _Factory:
    """Replace the annotations of a factory by types: spaCy 3.7 and 3.8 cannot resolve names of types."""
    factory.__annotations__.pop("return")
    factory.__annotations__ = get_type_hints(factory)
    return factory


@Language.factory(
    NAME,
    default_config={f.name: f.default for f in fields(Engine) if f.init} | {"words": "zishu"},
    assigns=["token.pos", "token.dep", "token.head", "token.is_sent_start", "doc.sents"],
    retokenizes=True,
    default_score_weights={"dep_uas": 0.5, "dep_las": 0.5, "pos_acc": None, "sents_f": None},
)
@_typed
def make_component(
    nlp: Language,  # noqa: ARG001 (spaCy calls it so)
    name: str,
    words: Literal["zishu", "given"],
    model: str | None,
    style: str | None,
    lexicon: str | list[str] | None,
    patterns: bool,
    wrapped: bool,
    confidence: bool,
    threads: int,
    copy_model: bool,
) -> Component:
    """Create the component `zishu` of a pipeline."""
    if words == "given" and lexicon is not None:
        raise InputError("a lexicon cannot be used with given words")
    engine = Engine(model, style, lexicon, patterns, wrapped, confidence, threads, copy_model)
    return Component(engine, name=name, words=words)


class Component(_Stored, Pipe):  # type: ignore[misc, unused-ignore]
    """Parse documents; see the module."""

    def __init__(
        self, engine: Engine, *, name: str = NAME, words: Literal["zishu", "given"] = "zishu"
    ) -> None:
        self.engine = engine
        self.name = name
        self.words = words

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Component, name=self.name, words=self.words), (self.engine,)

    def __call__(self, doc: Doc) -> Doc:
        """Return the document with its words and trees: a new one, unless the words are given."""
        return self._parse([doc])[0]

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Parse documents, `batch_size` of them at a time."""
        for docs in minibatch(stream, batch_size):  # type: ignore[no-untyped-call, unused-ignore]
            try:
                parsed = iter(self._parse(docs))
            except Exception:
                # One of them causes the error: parse each by itself, so that only that one is lost.
                parsed = super().pipe(docs)
            yield from parsed

    def _parse(self, docs: list[Doc]) -> list[Doc]:
        new = [doc for doc in docs if doc._.zishu != self.engine.signature]
        if not new:
            return docs
        if self.words == "given":
            _parse_given(self.engine, new)
            return docs
        found = self.engine.parse([doc.text for doc in new])
        return [
            doc
            if doc._.zishu == self.engine.signature
            else _carry_over(doc, make_doc(doc.vocab, next(found), self.engine.signature))
            for doc in docs
        ]

    def score(self, examples: Iterable[Example], **_: Any) -> dict[str, Any]:
        """Score trees, parts of speech and sentences against gold documents."""
        examples = list(examples)
        scores: dict[str, Any] = Scorer.score_deps(
            examples, "dep", getter=lambda token, _: token.dep_.lower(), ignore_labels=("p", "punct")
        )
        scores.update(Scorer.score_token_attr(examples, "pos"))
        scores.update(Scorer.score_spans(examples, "sents"))
        return scores


# ---- the tokenizer


@_typed
def make_tokenizer(
    model: str | None = None,
    style: str | None = None,
    lexicon: str | list[str] | None = None,
    patterns: bool = True,
    wrapped: bool = False,
    confidence: bool = True,
    threads: int = 0,
    copy_model: bool = False,
) -> Callable[[Language], Tokenizer]:
    """Return a function that creates the tokenizer of a pipeline."""
    engine = Engine(model, style, lexicon, patterns, wrapped, confidence, threads, copy_model)
    return lambda nlp: Tokenizer(nlp.vocab, engine)


registry.tokenizers.register(TOKENIZER, func=make_tokenizer)


class Tokenizer(_Stored, DummyTokenizer):
    """Turn a text into a document of Zishu's words, with their trees."""

    def __init__(self, vocab: Vocab, engine: Engine) -> None:
        self.vocab = vocab
        self.engine = engine

    def __call__(self, text: str) -> Doc:
        """Parse a text."""
        return next(self.pipe([text]))

    def pipe(self, texts: Iterable[str], *, batch_size: int = 128, **_: Any) -> Iterator[Doc]:
        """Parse texts, `batch_size` of them at a time."""
        for some in minibatch(texts, batch_size):  # type: ignore[no-untyped-call, unused-ignore]
            for document in self.engine.parse(some):
                yield make_doc(self.vocab, document, self.engine.signature)

    def score(self, examples: Iterable[Example], **_: Any) -> dict[str, Any]:
        """Score the words against gold documents."""
        scores: dict[str, Any] = Scorer.score_tokenization(examples)
        return scores


# ---- documents


def make_doc(vocab: Vocab, document: Document, signature: str | None = None) -> Doc:
    """Convert a parsed document to spaCy's."""
    words = [word for sentence in document for word in sentence.words]
    starts = [*(word.start for word in words), len(document.text)]
    tokens = [document.text[: starts[0]]] if starts[0] else []
    spaces = [False] * len(tokens)
    for word, following in zip(words, starts[1:], strict=True):
        blank = document.text[word.end : following]
        tokens.append(word.form)
        spaces.append(blank.startswith(" "))
        if rest := blank.removeprefix(" "):
            tokens.append(rest)
            spaces.append(False)
    doc = Doc(vocab, words=tokens, spaces=spaces)
    annotate(doc, iter(words))
    doc._.zishu = signature
    return doc


def annotate(doc: Doc, words: Iterator[Word]) -> None:
    """Write trees and tags to a document; take a word for each of its tokens that is not white space."""
    if not len(doc):
        return
    strings = doc.vocab.strings
    numbers = np.arange(len(doc))
    solid = doc.to_array(IS_SPACE) == 0
    places = np.flatnonzero(solid).tolist()
    # White space depends on the preceding word, at the beginning on the first word, or else on its own first token.
    heads = np.maximum.accumulate(np.where(solid, numbers, places[0] if places else 0))
    relations = np.full(len(doc), strings.add("dep"), np.uint64)
    parts, tags = np.full(len(doc), PARTS_OF_SPEECH["SPACE"], np.uint64), np.zeros(len(doc), np.uint64)
    if not places:
        relations[0] = strings.add("ROOT")
    for k, (place, word) in enumerate(zip(places, islice(words, len(places)), strict=True)):
        heads[place] = places[k + word.head - word.id] if word.head else place
        relations[place] = strings.add(word.deprel if word.head else "ROOT")
        parts[place] = PARTS_OF_SPEECH.get(word.upos or "", 0)
        if word.xpos:
            tags[place] = strings.add(word.xpos)
        elif not parts[place] and word.upos:  # another tag set
            tags[place] = strings.add(word.upos)
        token: Any = doc[place]
        if word.lemma:
            token.lemma_ = word.lemma
        if word.feats:
            token.set_morph("" if word.feats == EMPTY else word.feats)
        token._.zishu = {name: getattr(word, name) for name in _KEPT}
    columns = {HEAD: (heads - numbers).astype(np.uint64), DEP: relations, POS: parts}
    if tags.any():
        columns[TAG] = tags
    table: Any = np.stack(list(columns.values()), axis=1)
    doc.from_array(list(columns), table)


def _carry_over(old: Doc, new: Doc) -> Doc:
    """Copy what earlier components found to a document with other words; widen entities and spans to whole words."""
    new.user_data = {**old.user_data, **new.user_data}
    new.cats = dict(old.cats)
    new._context = old._context
    for hooks in ("user_hooks", "user_token_hooks", "user_span_hooks"):
        getattr(new, hooks).update(getattr(old, hooks))

    def moved(span: Any) -> Any:
        return new.char_span(
            span.start_char, span.end_char, label=span.label, kb_id=span.kb_id, span_id=span.id,
            alignment_mode="expand",
        )  # fmt: skip

    if old.ents:
        new.ents = filter_spans([moved(span) for span in old.ents])
    for name, spans in old.spans.items():
        new.spans[name] = [moved(span) for span in spans]
    return new


def _parse_given(engine: Engine, docs: Sequence[Doc]) -> None:
    """Parse documents over their own tokens, all sentences of all documents at once."""
    given = []
    for doc in docs:
        _check(doc.text)
        given += [
            [token.text for token in sentence if not token.is_space]
            for sentence in _sentences(doc, wrapped=engine.wrapped)
        ]
    parsed = engine.parser.parse_words(filter(None, given), style=engine.style, confidence=engine.confidence)
    words = chain.from_iterable(sentence.words for sentence in parsed)
    for doc in docs:
        annotate(doc, words)
        doc._.zishu = engine.signature


def _sentences(doc: Doc, *, wrapped: bool) -> Iterable[Span]:
    """Return the sentences of a document: from an earlier component, or else as Zishu splits text."""
    if doc.has_annotation("SENT_START"):
        return doc.sents
    starts = [sentence.start for sentence in split_sentences(doc.text, wrapped=wrapped)]
    # A token that crosses the end of a sentence belongs to that sentence.
    offsets = [token.idx for token in doc]
    borders = [0, *(bisect_left(offsets, start) for start in starts[1:]), len(doc)]
    return (doc[first:last] for first, last in pairwise(borders))
