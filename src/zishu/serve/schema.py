"""Define requests: for validation, and for the OpenAPI description (`zishu.serve.description`), which has the answers.

A request has exactly one of `text`, `texts` and `words`, which determines the other allowed keys. JSON is read
strictly: no number for a string, no unknown key. Reading stops at the first error. A body with more values than any
request may have is rejected before it is decoded, because JSON is decoded in one piece.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
)

from zishu.corpus.options import Only, Options
from zishu.errors import InputError
from zishu.formats.jsonl import from_record
from zishu.granularity import Granularity  # noqa: TC001 (Pydantic reads the annotations at run time)
from zishu.lexicon import Lexicon
from zishu.parser import InnerTrees  # noqa: TC001 (as above)
from zishu.sentences import text_sentences, words_document
from zishu.serve.problems import Problem
from zishu.text import characters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from zishu.document import Sentence
    from zishu.serve.limits import Limits
    from zishu.text import RawSentence

    # The texts of a request, each with its sentences, which are made on demand.
    Documents: TypeAlias = Iterator[tuple[str, Iterable[RawSentence | Sentence]]]

INPUTS = ("text", "texts", "words")

T = TypeVar("T")
R = TypeVar("R", bound="ParseRequest | ConvertRequest")
List = Annotated[list[T], FailFast()]
Offset = Annotated[int, Field(ge=0)]
Form = Annotated[str, Field(min_length=1)]

_SPACES = re.compile(r"\s*")
_SHOWN = 100  # maximum length of a location in an error message: a key may be as long as the body


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @cached_property
    def size(self) -> int:
        """Return the number of code points that are to be parsed or written."""
        given = vars(self)
        if "text" in given:
            return len(given["text"])
        strings = given["texts"] if "texts" in given else chain.from_iterable(given["words"])
        return sum(map(len, strings))

    @property
    def extras(self) -> int:
        """Return the approximate cost besides that of the text, in characters."""
        given = vars(self)
        constraints = sum(len(given.get(key, ())) for key in ("pins", "breaks", "arcs", "tags"))
        return constraints + sum(map(len, given.get("lexicon", ())))


class _Request(_Body):
    first: ClassVar[int] = 1  # the number of the first sentence

    format: Literal["json", "conllu", "svg"] = Field("json", description="How sentences are returned.")
    confidence: bool = Field(
        True,
        description="Whether to compute probabilities (slower). Several analyses always have them.",
    )

    only: Only | None = Field(
        None,
        description="Find only words, or words and their tags, without trees; faster. Not with `k_best`, `arcs`, the "
        "format `svg` and coarse granularity.",
    )
    style: Form | None = Field(
        None, description="The treebank whose conventions are followed (default: the model's first style)."
    )
    inner: InnerTrees = Field(
        "structure",
        description="The trees inside words: how each word is formed, or the parser's latent ones. A model without a "
        "structure scorer has the latter only.",
    )
    granularity: Granularity = Field(
        "fine",
        description="Whether affixes are words of their own, as in the treebank, or joined with their stems.",
    )

    @cached_property
    def options(self) -> Options:
        """Return how to parse its sentences; those of requests with equal options are parsed together."""
        k_best = getattr(self, "k_best", 1)
        return Options(
            style=self.style,
            k_best=k_best if k_best > 1 else 0,
            confidence=k_best > 1 or self.confidence,
            inner=self.inner,
            granularity=self.granularity,
            only=self.only,
        )

    def check(self) -> None:
        """Check what the request asks for together, by the rules of files and Python."""
        if self.only and self.format == "svg":
            raise InputError("the format svg cannot be combined with only, which finds no trees")
        given = vars(self)
        options = replace(self.options, words=True) if "words" in given else self.options
        options.check_fixed(arcs=given.get("arcs"), tags=given.get("tags"))


class _RawText(_Request):
    lexicon: List[Form] = Field(
        default_factory=list, description="Words that are kept whole wherever they occur."
    )
    lexicon_weight: Annotated[float, Field(gt=0, le=50)] | None = Field(
        None,
        description="Favour the words of the lexicon by this much instead of keeping them whole: the odds of joins "
        "inside them are multiplied by its exponential. 4 is a good start.",
    )
    patterns: bool = Field(
        True, description="Whether addresses, dates, numbers, Latin words and the like are kept whole."
    )
    wrapped: bool = Field(
        False, description="Whether a line break is plain white space; otherwise it ends a sentence."
    )
    k_best: Annotated[int, Field(ge=1)] = Field(1, description="Maximum number of analyses per sentence.")

    def split(self, text: str, **constraints: Any) -> Iterator[RawSentence]:
        """Yield the sentences of a text; contradictions raise `InputError`."""
        return text_sentences(
            text, lexicon=self._known, patterns=self.patterns, wrapped=self.wrapped, **constraints
        )

    @cached_property
    def _known(self) -> Lexicon | None:
        if not self.lexicon:
            return None
        if self.lexicon_weight is None:
            return Lexicon(self.lexicon)
        return Lexicon(self.lexicon, soft=True, weight=self.lexicon_weight)


class TextRequest(_RawText):
    """Parse one text."""

    text: str = Field(description="Raw text.", examples=["上海计划发展金融业。"])
    pins: List[tuple[Offset, Offset]] = Field(
        default_factory=list,
        description="Half-open spans of the text, in code points, that are one word each.",
        examples=[[[0, 2]]],
    )
    breaks: List[Offset] = Field(
        default_factory=list, description="Offsets into the text that no word may cross.", examples=[[4]]
    )
    arcs: List[tuple[Offset, Offset | None, Form | None]] = Field(
        default_factory=list,
        description="Arcs that the tree must have, each [dependent, head, relation]. The first two are offsets where "
        "pinned words begin; a head of null is the root. A relation of null is left to the model.",
        examples=[[[0, None, None]]],
    )
    tags: List[tuple[Offset, Form]] = Field(
        default_factory=list,
        description="Parts of speech of pinned words, each [offset where the word begins, tag]. They do not influence "
        "the tree.",
        examples=[[[0, "PROPN"]]],
    )

    def documents(self) -> Documents:
        """Yield the text with its sentences."""
        yield (
            self.text,
            self.split(self.text, pins=self.pins, breaks=self.breaks, arcs=self.arcs, tags=self.tags),
        )


class TextsRequest(_RawText):
    """Parse several texts, each by itself."""

    texts: List[str] = Field(description="Raw texts.", examples=[["上海计划发展金融业。", "我喜欢北京。"]])

    def documents(self) -> Documents:
        """Yield every text with its sentences."""
        return ((text, self.split(text)) for text in self.texts)


class WordsRequest(_Request):
    """Parse sentences whose words are known."""

    words: List[Annotated[List[Form], Field(min_length=1)]] = Field(
        description="Sentences, each a list of words.", examples=[[["上海", "计划", "发展", "金融业"]]]
    )

    def documents(self) -> Documents:
        """Yield the sentences with the text that their words form."""
        yield words_document(self.words)


class ConvertRequest(_Body):
    """Convert parsed sentences to another format."""

    options: ClassVar[None] = None

    text: str = Field(description="The text that the sentences come from.", examples=["我喜欢北京。"])
    sentences: List[Any] = Field(description="Sentences of that text, as this service sent them.")
    first: Annotated[int, Field(ge=1)] = Field(1, description="The number of the first one in the text.")
    format: Literal["conllu", "svg"] = Field(description="How sentences are returned.")

    def documents(self) -> Documents:
        """Yield the text with its sentences, which must match it."""
        yield self.text, self._given()

    def _given(self) -> Iterator[Sentence]:
        for number, record in enumerate(self.sentences, start=1):
            try:
                sentence = from_record(record)
                _check_fit(sentence, self.text)
            except InputError as error:
                raise InputError(f"sentence {number}: {error}") from None
            yield sentence


def _check_fit(sentence: Sentence, text: str) -> None:
    if text[sentence.start : sentence.end] != sentence.text:
        raise InputError(f"its text is not at {sentence.start}:{sentence.end}")
    if not text.startswith(sentence.after, sentence.end):
        raise InputError(f"the white space after it is not at {sentence.end}")
    end = sentence.start
    for word in sentence.words:
        if not end <= word.start < word.end <= sentence.end or text[word.start : word.end] != word.form:
            raise InputError(f"word {word.id} is not at {word.start}:{word.end}")
        if not _SPACES.fullmatch(text, end, word.start):
            raise InputError(f"the text between {end} and {word.start} belongs to no word")
        if word.char_heads is not None and len(word.char_heads) != len(characters(word.form)):
            raise InputError(f"word {word.id} has {len(word.char_heads)} char_heads")
        end = word.end


ParseRequest = TextRequest | TextsRequest | WordsRequest

_MOST_KEYS = len(TextRequest.model_fields)

# Lists of a request: what an error calls their items, and the limit of their number.
COUNTED: Final = {
    "texts": ("texts", "texts"),
    "words": ("sentences", "texts"),
    "sentences": ("sentences", "chars"),
    "lexicon": ("lexicon words", "lexicon"),
    **{name: (name, "constraints") for name in ("pins", "breaks", "arcs", "tags")},
}


def _input_of(value: Any) -> str | None:
    """Return the key that determines the kind of request. Reject too many keys here, before each becomes an error."""
    if isinstance(value, dict) and len(value) > _MOST_KEYS:
        raise Problem("invalid_request", f"a request has at most {_MOST_KEYS} keys, not {len(value)}")
    given = [key for key in INPUTS if key in value] if isinstance(value, dict) else []
    return given[0] if len(given) == 1 else None


_ADAPTER: TypeAdapter[ParseRequest] = TypeAdapter(
    Annotated[
        Annotated[TextRequest, Tag("text")]
        | Annotated[TextsRequest, Tag("texts")]
        | Annotated[WordsRequest, Tag("words")],
        Discriminator(_input_of),
    ]
)


_CONVERT: TypeAdapter[ConvertRequest] = TypeAdapter(ConvertRequest)


def read_request(data: bytes, limits: Limits) -> ParseRequest:
    """Read a request from JSON; raise a `Problem` for any error."""
    # Commas and brackets separate values, or occur in strings, which have at most `chars` characters together.
    _count(data, b",", 2 * limits.chars + 8 * limits.constraints + limits.lexicon)
    _count(data, b"[", limits.chars + 3 * limits.constraints + limits.texts)
    _count(data, b"{", limits.chars + 1)
    request = _validated(_ADAPTER, data, limits, skip=1)
    try:
        request.check()
    except InputError as error:
        raise Problem("invalid_request", str(error)) from None
    return request


def read_convert_request(data: bytes, limits: Limits) -> ConvertRequest:
    """Read a request to convert sentences; raise a `Problem` for any error."""
    # A word needs more than 20 bytes, and has at most one bracket of each kind; more of them are in strings.
    for mark in (b"[", b"{"):
        _count(data, mark, limits.chars + len(data) // 20)
    return _validated(_CONVERT, data, limits, skip=0)


def _count(data: bytes, mark: bytes, most: int) -> None:
    if data.count(mark) > most:
        raise Problem("too_many", f"the body has more than {most} of the sign {mark.decode()}")


def _validated(adapter: TypeAdapter[R], data: bytes, limits: Limits, *, skip: int) -> R:
    """Read JSON, and check the limits; `skip` elements of a path are tags of the union, which the client never wrote."""
    try:
        request = adapter.validate_json(data)
    except ValidationError as error:
        # Only the first error is reported.
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        message, place = str(first["msg"]), ".".join(map(str, first["loc"][skip:]))[:_SHOWN]
        if first["type"] == "json_invalid":
            # JSON has an escape for half a surrogate pair, but such a string cannot be encoded in UTF-8.
            raise Problem("invalid_json", message.removeprefix("Invalid JSON: ")) from None
        if first["type"] == "union_tag_not_found":
            message = f"a request is an object with one of the keys {', '.join(INPUTS)}"
        raise Problem("invalid_request", f"{place}: {message}" if place else message) from None
    _check(request, limits)
    return request


def _check(request: ParseRequest | ConvertRequest, limits: Limits) -> None:
    """Check a request against the limits."""
    values = vars(request)
    lexicon = values.get("lexicon", ())
    if (size := request.size + sum(map(len, lexicon))) > limits.chars:
        raise Problem(
            "too_long", f"{size} characters are more than the {limits.chars} that one request may have"
        )
    if (longest := max(map(len, lexicon), default=0)) > limits.lexicon_word:
        raise Problem(
            "too_long",
            f"a lexicon word of {longest} characters is longer than the {limits.lexicon_word} allowed",
        )
    counts = [
        (name, len(values.get(key, ())), getattr(limits, limit)) for key, (name, limit) in COUNTED.items()
    ]
    for name, count, most in (*counts, ("analyses", values.get("k_best", 1), limits.k_best)):
        if count > most:
            raise Problem("too_many", f"{count} {name} are more than the {most} that one request may have")
