"""Define how to parse every sentence of a run, in one place.

`Options` are passed on as a whole: a new option is a field and a change in one place that uses it. They do not know
about files; a `zishu.corpus.outputs.Recipe` adds the model and the output format.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, get_args

from zishu.arguments import MOST_ANALYSES, whole_number
from zishu.errors import InputError
from zishu.granularity import GRANULARITIES, Granularity, coarsen
from zishu.lexicon import Lexicon, LexiconLike
from zishu.sentences import Knowledge, line_sentences, stream_sentences, text_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zishu.document import Sentence, Tokens
    from zishu.model.decode import Decoding
    from zishu.parser import InnerTrees, Parser
    from zishu.text import RawSentence

Format = Literal["tree", "text", "conllu", "json", "chars", "svg", "html", "parquet"]
Only = Literal["words", "tags"]
ONLY_FORMATS: Final = ("text", "conllu", "json")


@dataclass(frozen=True, slots=True)
class Options:
    """Hold the options for every sentence; the fields have the same meaning as for a `Parser`."""

    words: bool = False  # the words are given: one sentence per line, words separated by white space
    style: str | None = None  # None for the model's default
    lexicon: LexiconLike = None
    patterns: bool = True
    wrapped: bool = False
    k_best: int = 0  # number of analyses per sentence; 0: only the best one, without a rank
    confidence: bool = True
    decoding: Decoding = "mbr"
    inner: InnerTrees = "structure"
    granularity: Granularity = "fine"  # "coarse" joins affixes with their stems (`zishu.granularity`)
    relations: bool = False  # drawings show the relations inside words
    only: Only | None = None  # find only words, or words and their tags, without a tree

    def __post_init__(self) -> None:
        object.__setattr__(self, "lexicon", Lexicon.of(self.lexicon))
        whole_number(self.k_best, "k_best", least=0, most=MOST_ANALYSES)
        if self.granularity not in GRANULARITIES:
            raise InputError(
                f"unknown granularity {self.granularity!r}: choose from {', '.join(GRANULARITIES)}"
            )
        if self.words and self.lexicon:
            raise InputError("a lexicon cannot be used with given words")
        if self.k_best and (self.decoding != "mbr" or not self.confidence):
            raise InputError(
                "k_best ranks by probability: it cannot be combined with decoding or confidence=False"
            )

        if self.only not in (None, *get_args(Only)):
            raise InputError(f"unknown value {self.only!r} of only: choose from {', '.join(get_args(Only))}")
        if self.only and (self.k_best or self.granularity != "fine" or self.relations):
            raise InputError(
                f"only={self.only!r} finds no trees: it cannot be combined with several analyses, coarse words or relations"
            )
        if self.only == "words" and self.words:
            raise InputError("only words are wanted, but the words are given: there is nothing to do")

    def check_fixed(self, *, arcs: object = (), tags: object = ()) -> None:
        """Reject fixed arcs and tags that the options leave no place for."""
        if arcs and self.only:
            raise InputError("arcs cannot be combined with only, which finds no trees")
        if tags and self.only == "words":
            raise InputError("tags cannot be fixed if only words are wanted")

    def sentences(
        self, blocks: Iterable[str], *, look_ahead: bool = True, **known: Unpack[Knowledge]
    ) -> Iterator[RawSentence]:
        """Split a text that arrives in blocks into sentences that are ready for a model.

        If something is `known` (pins, breaks, arcs, tags), the text is read as a whole.
        """
        if self.words:
            return line_sentences(blocks, look_ahead=look_ahead)
        # Vanilla decoding cannot honour constraints.
        patterns, wrapped = self.patterns and self.decoding != "vanilla", self.wrapped
        if any(known.values()):
            known |= {"lexicon": self.lexicon, "patterns": patterns, "wrapped": wrapped}
            return text_sentences("".join(blocks), **known)
        return stream_sentences(
            blocks, lexicon=self.lexicon, patterns=patterns, wrapped=wrapped, look_ahead=look_ahead
        )

    def analyse(
        self, parser: Parser, sentences: Iterable[RawSentence]
    ) -> Iterator[Sequence[Sentence | Tokens]]:
        """Yield the analyses of each sentence, best first."""
        if self.only:
            return ([found] for found in parser.tokens(sentences, tags=self.only == "tags"))
        analyses = parser.analyse(
            sentences, k_best=self.k_best, confidence=self.confidence, decoding=self.decoding
        )
        if self.granularity == "fine":
            return analyses
        return ([coarsen(sentence) for sentence in several] for several in analyses)

    def record(self) -> dict[str, Any]:
        """Return the options as plain values for JSON, with a fingerprint of the lexicon."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        if isinstance(self.lexicon, Lexicon):
            # Everything that the effect of the lexicon depends on.
            lines = [repr(self.lexicon.weight)] if self.lexicon.soft else []
            entries = sorted(self.lexicon.entries.items())
            lines += [f"{word}\t{entry.frequency}\t{entry.upos}" for word, entry in entries]
            content = "\n".join(lines).encode("utf-8", "surrogatepass")
            found["lexicon"] = hashlib.sha256(content).hexdigest()
        return found
