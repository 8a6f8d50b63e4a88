"""Run a trained parser: characters in, trees out.

    model = load_model("path/to/model")
    analyses = model.parse([list("上海计划发展金融业"), ...])
    analyses = model.parse_words([["上海", "计划", "发展", "金融业"], ...])

Sentences are run in batches of about equal length, and results come in the order of the input. What a
sentence's neighbours in a batch are does not matter, up to the last bits of floating point. A loaded model
never changes, so several threads may use it at once. Cutting text into sentences and characters is `zishu.text`,
reading a model directory is `zishu.model.runtime`.

Cost: that of `zishu.model.networks`, then that of `zishu.model.decode`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from zishu.errors import InputError
from zishu.model.decode import decode, decode_k_best
from zishu.model.features import batches
from zishu.model.outputs import Analysis, check_gaps, word_gaps
from zishu.model.segments import decode_segments, decode_words
from zishu.text import characters
from zishu.tree import flat_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zishu.model.decode import Decoding
    from zishu.model.networks import Scorer, Sentences
    from zishu.model.outputs import Gaps
    from zishu.model.segments import Segments
    from zishu.model.settings import Settings
    from zishu.tree import WordTree

_Result = TypeVar("_Result")

# Characters in one run, padding counted: enough to keep the cores busy, little enough for the caches.
BATCH_CHARS: Final = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A parser of characters or of words, an ensemble of such, or a segmenter."""

    settings: Settings
    networks: Scorer
    batch_chars: int = BATCH_CHARS

    def in_style(self, style: str | None) -> Model:
        """Return the same model for a style: words and relations follow that treebank's conventions.

        A loaded model has its first style; None changes nothing.
        """
        if style is None:
            return self
        return replace(self, networks=self.networks.in_style(style_number(self.settings, style)))

    def parse(
        self,
        sentences: Sentences,
        gaps: Sequence[Gaps | None] | None = None,
        *,
        confidence: bool = False,
        decoding: Decoding = "mbr",
    ) -> list[Analysis]:
        """Parse sentences of characters; `gaps` is what is known of their words.

        `confidence` adds probabilities (see `zishu.model.confidence`); `zishu.model.decode` tells the ways of decoding.
        """
        self._check_parses_characters()

        def work(batch: list[int]) -> list[Analysis]:
            units, known = _choose(sentences, gaps, batch)
            return decode(
                self.networks.run(units),
                units,
                self.settings,
                self.networks.score_labels,
                gaps=known,
                confidence=confidence,
                decoding=decoding,
            )

        return self._in_batches(sentences, gaps, work)

    def parse_words(
        self, sentences: Sentences, *, confidence: bool = False, decoding: Decoding = "mbr"
    ) -> list[Analysis]:
        """Parse sentences of words; the trees have exactly these words."""
        if self.settings.task == "segment":
            raise InputError("a segmenter cannot parse")
        chars, lengths = _split(sentences)
        if self.settings.task == "parse":
            gaps = [word_gaps(sizes) for sizes in lengths]
            return self.parse(chars, gaps, confidence=confidence, decoding=decoding)

        def work(batch: list[int]) -> list[Analysis]:
            outputs = self.networks.run([chars[k] for k in batch], [lengths[k] for k in batch])
            words = [sentences[k] for k in batch]
            return decode(
                outputs,
                words,
                self.settings,
                self.networks.score_labels,
                confidence=confidence,
                decoding=decoding,
            )

        return self._in_batches(chars, None, work)

    def k_best(
        self, sentences: Sentences, k: int, gaps: Sequence[Gaps | None] | None = None
    ) -> list[list[Analysis]]:
        """Return up to k analyses of each sentence of characters, the best first, with confidence.

        They differ in their words or in the heads of these.
        """
        self._check_parses_characters()

        def work(batch: list[int]) -> list[list[Analysis]]:
            units, known = _choose(sentences, gaps, batch)
            return decode_k_best(
                self.networks.run(units), units, self.settings, self.networks.score_labels, k, gaps=known
            )

        return self._in_batches(sentences, gaps, work)

    def k_best_words(self, sentences: Sentences, k: int) -> list[list[Analysis]]:
        """Return up to k analyses of each sentence of words, the best first, with confidence."""
        if self.settings.task == "segment":
            raise InputError("a segmenter cannot parse")
        chars, lengths = _split(sentences)
        if self.settings.task == "parse":
            return self.k_best(chars, k, [word_gaps(sizes) for sizes in lengths])

        def work(batch: list[int]) -> list[list[Analysis]]:
            outputs = self.networks.run([chars[b] for b in batch], [lengths[b] for b in batch])
            words = [sentences[b] for b in batch]
            return decode_k_best(outputs, words, self.settings, self.networks.score_labels, k)

        return self._in_batches(chars, None, work)

    def segment(
        self, sentences: Sentences, gaps: Sequence[Gaps | None] | None = None
    ) -> list[tuple[str, ...]]:
        """Cut sentences of characters into words, with a segmenter."""
        self._check_segments()

        def work(batch: list[int]) -> list[tuple[str, ...]]:
            units, known = _choose(sentences, gaps, batch)
            return decode_words(self.networks.run(units), units, self.settings, gaps=known)

        return self._in_batches(sentences, gaps, work)

    def segments(self, sentences: Sentences, gaps: Sequence[Gaps | None] | None = None) -> list[Segments]:
        """Cut sentences of characters into words, with a segmenter, and tell how probable they are."""
        self._check_segments()

        def work(batch: list[int]) -> list[Segments]:
            units, known = _choose(sentences, gaps, batch)
            return decode_segments(self.networks.run(units), units, self.settings, gaps=known)

        return self._in_batches(sentences, gaps, work)

    def _check_parses_characters(self) -> None:
        if self.settings.task != "parse":
            raise InputError(f"a model for the task {self.settings.task!r} cannot parse characters")

    def _check_segments(self) -> None:
        if self.settings.task != "segment":
            raise InputError(f"a model for the task {self.settings.task!r} is no segmenter")

    def _in_batches(
        self,
        sentences: Sentences,
        gaps: Sequence[Gaps | None] | None,
        work: Callable[[list[int]], list[_Result]],
    ) -> list[_Result]:
        """Do the work on batches of sentences, given by number, and put the results in order."""
        for k, sentence in enumerate(sentences):
            if not len(sentence):
                raise InputError(f"sentence {k} is empty")
        lengths = [len(sentence) for sentence in sentences]
        check_gaps(lengths, gaps)
        results: dict[int, _Result] = {}
        for numbers in batches(lengths, self.batch_chars):
            batch = numbers.tolist()
            results.update(zip(batch, work(batch), strict=True))
        return [results[k] for k in range(len(sentences))]


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A segmenter and a parser of words, one after the other; used like a `Model`."""

    settings: Settings
    segmenter: Model
    parser: Model

    def in_style(self, style: str | None) -> Pipeline:
        """Return the same pipeline for a style; see `Model.in_style`."""
        return replace(self, segmenter=self.segmenter.in_style(style), parser=self.parser.in_style(style))

    def parse(
        self,
        sentences: Sentences,
        gaps: Sequence[Gaps | None] | None = None,
        *,
        confidence: bool = False,
        decoding: Decoding = "mbr",
    ) -> list[Analysis]:
        """Cut sentences of characters into words and parse these."""
        if not confidence:
            return self.parser.parse_words(self.segmenter.segment(sentences, gaps), decoding=decoding)
        segments = self.segmenter.segments(sentences, gaps)
        words = [found.words for found in segments]
        parsed = self.parser.parse_words(words, confidence=True, decoding=decoding)
        return [_with_segments(analysis, found) for analysis, found in zip(parsed, segments, strict=True)]

    def parse_words(
        self, sentences: Sentences, *, confidence: bool = False, decoding: Decoding = "mbr"
    ) -> list[Analysis]:
        """Parse sentences of words."""
        return self.parser.parse_words(sentences, confidence=confidence, decoding=decoding)

    def k_best(
        self, sentences: Sentences, k: int, gaps: Sequence[Gaps | None] | None = None
    ) -> list[list[Analysis]]:
        """Return up to k analyses of the best words of each sentence of characters, with confidence."""
        segments = self.segmenter.segments(sentences, gaps)
        parsed = self.parser.k_best_words([found.words for found in segments], k)
        return [
            [_with_segments(analysis, found) for analysis in analyses]
            for analyses, found in zip(parsed, segments, strict=True)
        ]

    def k_best_words(self, sentences: Sentences, k: int) -> list[list[Analysis]]:
        """Return up to k analyses of each sentence of words."""
        return self.parser.k_best_words(sentences, k)

    def segment(
        self, sentences: Sentences, gaps: Sequence[Gaps | None] | None = None
    ) -> list[tuple[str, ...]]:
        """Cut sentences of characters into words."""
        return self.segmenter.segment(sentences, gaps)


def parse_trees(
    model: Model | Pipeline,
    gold: Sequence[WordTree],
    *,
    given_words: bool = False,
    decoding: Decoding = "mbr",
) -> list[WordTree]:
    """Parse the sentences of gold trees, from their characters or, if the task or the caller says so, their words.

    A segmenter gives trees without arcs.
    """
    if given_words or model.settings.task == "parse-words":
        words = [tree.forms for tree in gold]
        return [analysis.tree for analysis in model.parse_words(words, decoding=decoding)]
    chars = [tree.chars for tree in gold]
    if model.settings.task == "segment":
        return [flat_tree(words) for words in model.segment(chars)]
    return [analysis.tree for analysis in model.parse(chars, decoding=decoding)]


def style_number(settings: Settings, style: str) -> int:
    """Return the number of a style; an unknown one is an error that lists those of the model."""
    if not isinstance(style, str):
        raise InputError(f"a style is a string, not {type(style).__name__}")
    if not settings.styles:
        raise InputError(f"unknown style {style!r}: this model has no styles")
    if style not in settings.styles:
        raise InputError(f"unknown style {style!r}: this model has {', '.join(settings.styles)}")
    return settings.styles.index(style)


def _with_segments(analysis: Analysis, segments: Segments) -> Analysis:
    """Count in the probability of the words, which the parser took for given."""
    given = analysis.confidence
    assert given is not None
    whole = replace(given, tree=segments.prob * given.tree, boundaries=segments.boundaries)
    return replace(analysis, confidence=whole)


def _choose(
    sentences: Sentences, gaps: Sequence[Gaps | None] | None, batch: Sequence[int]
) -> tuple[list[Sequence[str]], list[Gaps | None] | None]:
    """Return the sentences of a batch and their gaps."""
    return [sentences[k] for k in batch], None if gaps is None else [gaps[k] for k in batch]


def _split(sentences: Sentences) -> tuple[list[list[str]], list[list[int]]]:
    """Split sentences of words into their characters, and count those of each word."""
    chars, lengths = [], []
    for k, words in enumerate(sentences):
        parts = [characters(word) for word in words]
        for word, part in zip(words, parts, strict=True):
            if not part or word.isspace():
                raise InputError(f"sentence {k} holds an empty word")
        chars.append([char for part in parts for char in part])
        lengths.append([len(part) for part in parts])
    return chars, lengths
