"""Run a trained parser: sentences of characters in, sentences with their trees out.

    model = load_model("path/to/model")
    for sentence in model.parse(list(text_sentences("上海计划发展金融业。"))): ...

A sentence carries what is known about its words: nothing, some words, or all of them (`zishu.sentences`).

Sentences run in batches of similar length, and results come in the order of the input. They do not depend on the other
sentences in the batch, up to the last bits of floating point. A loaded model never changes, so several threads and
forked children may use it at once (`zishu.model.sessions`). `zishu.model.runtime` reads model directories.

Cost: that of `zishu.model.networks` and of `zishu.model.decode`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from zishu.document import Sentence, Token, Tokens
from zishu.errors import InputError
from zishu.gaps import word_gaps
from zishu.model.batch import ScoredBatch, lengths_of, word_lengths_of, word_spans
from zishu.model.decode import Decoding, decode, decode_k_best, decode_words
from zishu.model.features import length_batches
from zishu.model.inner import InnerTrees
from zishu.model.labels import check_relations
from zishu.model.segments import Segments, decode_segments
from zishu.model.sessions import at_work
from zishu.sentences import word_sentence
from zishu.tree import WordTree, flat_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zishu.model.networks import Scorer
    from zishu.model.settings import Settings
    from zishu.text import RawSentence

_Result = TypeVar("_Result")

# Characters per batch and pairs of characters of one sentence, including padding: as many as possible, because every step
# of decoding has a fixed cost per batch, but few enough for the caches. The pairs limit memory.
BATCH_CHARS: Final = 3000
BATCH_PAIRS: Final = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Parse with a character-level or word-level parser or an ensemble, or segment with a segmenter."""

    settings: Settings
    networks: Scorer
    batch_chars: int = BATCH_CHARS

    def in_style(self, style: str | None) -> Model:
        """Return the same model for a style: words and relations follow that treebank's conventions.

        A loaded model uses its first style; None changes nothing.
        """
        if style is None:
            return self
        return replace(self, networks=self.networks.in_style(style_number(self.settings, style)))

    def parse(
        self,
        sentences: Sequence[RawSentence],
        *,
        confidence: bool = False,
        decoding: Decoding = "mbr",
        structures: bool = False,
    ) -> list[Sentence]:
        """Parse sentences; known words are kept.

        `confidence` adds probabilities (see `zishu.model.confidence`); `zishu.model.decode` explains the decoding
        algorithms. With `structures`, the trees inside words come from the structure scorer, if the model has one
        (`zishu.model.inner`); otherwise they are latent.
        """
        chosen = partial(decode, confidence=confidence, decoding=decoding)
        return self._parse(sentences, chosen, structures, confidence)

    def k_best(
        self, sentences: Sequence[RawSentence], k: int, *, structures: bool = False
    ) -> list[list[Sentence]]:
        """Return up to k analyses of each sentence, best first, with confidence.

        They differ in their words or in the words' heads.
        """
        return self._parse(sentences, partial(decode_k_best, k=k), structures, True)

    def tokens(self, sentences: Sequence[RawSentence], *, tags: bool = False) -> list[Tokens]:
        """Segment sentences into words, and with `tags` find their parts of speech; faster than parsing."""
        if self.settings.can.parses:
            return self._each_batch(sentences, partial(decode_words, tags=tags))
        if tags:
            raise InputError("a segmenter knows no parts of speech")
        segmented = zip(sentences, self.segment(sentences), strict=True)
        return [_tokens(sentence, found.lengths) for sentence, found in segmented]

    def segment(self, sentences: Sequence[RawSentence], *, confidence: bool = False) -> list[Segments]:
        """Segment sentences into words, with a segmenter; `confidence` adds their probabilities."""
        if self.settings.can.parses:
            raise InputError(f"a model for the task {self.settings.task!r} is not a segmenter")
        return self._each_batch(sentences, partial(decode_segments, confidence=confidence))

    def run(self, sentences: Sequence[RawSentence], inner: InnerTrees | None = None) -> ScoredBatch:
        """Run the networks on one batch."""
        lengths = word_lengths_of(sentences) if self.settings.can.units == "words" else None
        outputs = self.networks.run([sentence.chars for sentence in sentences], lengths)
        return ScoredBatch(outputs, sentences, self.settings, inner)

    def _parse(
        self,
        sentences: Sequence[RawSentence],
        decode: Callable[[ScoredBatch], list[_Result]],
        structures: bool,
        confidence: bool,
    ) -> list[_Result]:
        """Decode sentences and complete the trees inside their words."""
        if not self.settings.can.parses:
            raise InputError("a segmenter cannot parse")
        check_relations([sentence.arcs for sentence in sentences], self.settings.labels)
        scorer = self.networks.structures if structures else None
        inner = None if scorer is None else InnerTrees(scorer, confidence=confidence)
        found = self._each_batch(sentences, decode, inner)
        if inner is not None:
            with at_work():
                inner.finish()
        return found

    def _each_batch(
        self,
        sentences: Sequence[RawSentence],
        decode: Callable[[ScoredBatch], list[_Result]],
        inner: InnerTrees | None = None,
    ) -> list[_Result]:
        """Run the networks on batches of sentences of similar length, and decode them; keep the order of the input."""
        found: dict[int, _Result] = {}
        for numbers in length_batches(lengths_of(sentences).tolist(), self.batch_chars, BATCH_PAIRS):
            with at_work():
                decoded = decode(self.run([sentences[k] for k in numbers.tolist()], inner))
            found.update(zip(numbers.tolist(), decoded, strict=True))
        return [found[k] for k in range(len(sentences))]


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """Run a segmenter and then a word-level parser; used like a `Model`."""

    settings: Settings
    segmenter: Model
    parser: Model

    def in_style(self, style: str | None) -> Pipeline:
        """Return the same pipeline for a style; see `Model.in_style`."""
        return replace(self, segmenter=self.segmenter.in_style(style), parser=self.parser.in_style(style))

    def parse(
        self,
        sentences: Sequence[RawSentence],
        *,
        confidence: bool = False,
        decoding: Decoding = "mbr",
        structures: bool = False,
    ) -> list[Sentence]:
        """Segment sentences into words, unless these are known, and parse them."""
        cut, segments = self._segment(sentences, confidence)
        parsed = self.parser.parse(cut, confidence=confidence, decoding=decoding, structures=structures)
        return [_with_segments(found, segments.get(k)) for k, found in enumerate(parsed)]

    def k_best(
        self, sentences: Sequence[RawSentence], k: int, *, structures: bool = False
    ) -> list[list[Sentence]]:
        """Return up to k analyses of the best words of each sentence, with confidence."""
        cut, segments = self._segment(sentences, confidence=True)
        ranked = self.parser.k_best(cut, k, structures=structures)
        return [
            [_with_segments(found, segments.get(b)) for found in several] for b, several in enumerate(ranked)
        ]

    def tokens(self, sentences: Sequence[RawSentence], *, tags: bool = False) -> list[Tokens]:
        """Segment sentences into words, and with `tags` find their parts of speech."""
        cut, _ = self._segment(sentences, confidence=False)
        if tags:
            return self.parser.tokens(cut, tags=True)
        return [_tokens(*pair) for pair in zip(cut, word_lengths_of(cut), strict=True)]

    def _segment(
        self, sentences: Sequence[RawSentence], confidence: bool
    ) -> tuple[list[RawSentence], dict[int, Segments]]:
        """Return the sentences with all their words, and the results of the segmenter by sentence number."""
        lacking = [k for k, sentence in enumerate(sentences) if sentence.word_lengths is None]
        found = self.segmenter.segment([sentences[k] for k in lacking], confidence=confidence)
        cut = list(sentences)
        for k, segments in zip(lacking, found, strict=True):
            cut[k] = replace(sentences[k], gaps=word_gaps(segments.lengths))
        return cut, dict(zip(lacking, found, strict=True))


def parse_trees(
    model: Model | Pipeline,
    gold: Sequence[WordTree],
    *,
    given_words: bool = False,
    decoding: Decoding = "mbr",
) -> list[WordTree]:
    """Parse the sentences of gold trees, from their characters or, if the task or the caller requires it, their words.

    A segmenter gives trees without arcs.
    """
    words = given_words or not model.settings.can.finds_words
    sentences = [gold_sentence(tree, words=words) for tree in gold]
    if isinstance(model, Model) and not model.settings.can.parses and not given_words:
        return [
            flat_tree(word_spans(sentence, found.lengths)[0])
            for sentence, found in zip(sentences, model.segment(sentences), strict=True)
        ]
    return [sentence.tree for sentence in model.parse(sentences, decoding=decoding)]


def gold_sentence(tree: WordTree, *, words: bool) -> RawSentence:
    """Return the sentence of a gold tree, with or without its words."""
    sentence = word_sentence(tree.forms)
    return sentence if words else replace(sentence, gaps=None)


def _tokens(sentence: RawSentence, lengths: Sequence[int]) -> Tokens:
    """Return a sentence with words of these lengths in characters."""
    tokens = tuple(map(Token, *word_spans(sentence, lengths)))
    return Tokens(sentence.text, sentence.start, tokens, sentence.cut, sentence.after)


def style_number(settings: Settings, style: str) -> int:
    """Return the number of a style; the error for an unknown one lists those of the model."""
    if not isinstance(style, str):
        raise InputError(f"a style is a string, not {type(style).__name__}")
    if not settings.styles:
        raise InputError(f"unknown style {style!r}: this model has no styles")
    if style not in settings.styles:
        raise InputError(f"unknown style {style!r}: this model has {', '.join(settings.styles)}")
    return settings.styles.index(style)


def _with_segments(sentence: Sentence, segments: Segments | None) -> Sentence:
    """Multiply in the probability of the words, which the parser took as given."""
    if segments is None or segments.prob is None or segments.boundaries is None or sentence.prob is None:
        return sentence
    for word, prob in zip(sentence.words, segments.boundaries, strict=True):
        word.boundary_prob = prob
    return replace(sentence, prob=segments.prob * sentence.prob)
