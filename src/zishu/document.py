"""Define what a parser returns: a document of sentences of words, each with its offsets in the text.

    document = zishu.load()("上海计划发展金融业。")
    for sentence in document:
        for word in sentence:
            print(word.id, word.form, word.upos, word.head, word.deprel, word.char_heads)

These are plain objects that never change and know no model. `text[word.start:word.end] == word.form` always holds for
the parsed text, and every character that is not white space is in exactly one word. `zishu.formats` and `zishu.render`
produce CoNLL-U, JSON and drawings; the methods here only call them, and import them on first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any, Final, NamedTuple, overload

from zishu.errors import InputError
from zishu.tags import COLUMNS
from zishu.text import characters
from zishu.tree import INTRA, ROOT, CharTree, WordTree

# How much of a document is shown as the value of a cell or a prompt.
_SHOWN_TEXT: Final = 40
_SHOWN_FIGURES: Final = 20


class _InSentence:
    """Hold the sentence of a word. Not a field: words with equal fields are equal, and JSON has no cycles."""

    __slots__ = ("_sentence",)
    _sentence: Sentence


# Not frozen, though nobody changes a word: building a frozen object costs six times as much, which matters when a
# parser makes a hundred thousand words per second.
@dataclass(slots=True, unsafe_hash=True, repr=False)
class Word(_InSentence):
    """One word of a sentence.

    id              its number in the sentence, from 1
    form            the word itself
    start, end      offsets into the text of the document
    upos            its part of speech; None if the model has none
    head            the number of its head, 0 for the root of the sentence; see also `head_word`
    deprel          its relation to its head
    char_heads      its inner tree: the head of each character, numbered from 1, 0 for the root; None if unknown

    Probabilities, None if not requested or not available:

    boundary_prob   of its least certain boundary (or join inside it)
    head_prob       of its head, given the words of the sentence
    label_prob      of its relation, given its head
    upos_prob       of its part of speech, given the word

    More tags, None if the model, or the style that it parses in, has none:

    xpos            the part of speech of the treebank's own tag set
    feats           its features, as in CoNLL-U: Number=Plur|Person=3, "_" for a word without any
    lemma           its lemma

    None for latent trees and for words without a structure (letters, digits, symbols):

    char_rels       the relation of each character to its head in the word, "root" for the root
    structure_prob  the probability of the whole structure

    None unless a lexicon found something in the sentence:

    boundary_prob_without_lexicon   what boundary_prob would be without it
    """

    id: int
    form: str
    start: int
    end: int
    upos: str | None
    head: int
    deprel: str
    char_heads: tuple[int, ...] | None
    boundary_prob: float | None = None
    head_prob: float | None = None
    label_prob: float | None = None
    upos_prob: float | None = None
    xpos: str | None = None
    feats: str | None = None
    lemma: str | None = None
    char_rels: tuple[str, ...] | None = None
    structure_prob: float | None = None
    boundary_prob_without_lexicon: float | None = None

    def __repr__(self) -> str:
        upos = "" if self.upos is None else f" {self.upos}"
        return f"<Word {self.id} {self.form}{upos} {self.deprel} of {self.head}>"

    @property
    def sentence(self) -> Sentence:
        """Return the sentence of the word, the last one created with it."""
        try:
            return self._sentence
        except AttributeError:
            raise InputError(f"the word {self.form!r} does not belong to a sentence") from None

    @property
    def head_word(self) -> Word | None:
        """Return its head; None for the root of the sentence."""
        return None if self.head == ROOT else self.sentence.words[self.head - 1]

    @property
    def children(self) -> tuple[Word, ...]:
        """Return the words whose head is this word, from left to right."""
        return tuple([word for word in self.sentence.words if word.head == self.id])

    @property
    def subtree(self) -> tuple[Word, ...]:
        """Return the word and its direct and indirect dependents, from left to right."""
        words = self.sentence.words
        below = {self.id: True, ROOT: False}
        for word in words:
            # Walk up to a word whose status is known, then record it for the whole path.
            way = []
            number = word.id
            while number not in below:
                way.append(number)
                below[number] = False
                number = words[number - 1].head
            below.update(dict.fromkeys(way, below[number]))
        return tuple([word for word in words if below[word.id]])

    @property
    def prob(self) -> float | None:
        """Return the model's confidence in this word in its sentence.

        It is the product of the probabilities of its boundaries, its head, its relation and its part of speech; None if
        one of these is unknown. A word without a part of speech skips that factor.
        """
        if self.boundary_prob is None or self.head_prob is None or self.label_prob is None:
            return None
        product = self.boundary_prob * self.head_prob * self.label_prob
        return product if self.upos_prob is None else product * self.upos_prob

    @property
    def chars(self) -> list[str]:
        """Return the characters of the word."""
        return characters(self.form)

    @property
    def root(self) -> int | None:
        """Return the index of the root character in the word, from 0."""
        return None if self.char_heads is None else self.char_heads.index(ROOT)


_NAMES: Final = tuple(field.name for field in fields(Word))
CELLS: Final = len(_NAMES)  # of a word
_FILLED: Final = ("text", "start", "cut", "prob", "after", "prob_without_lexicon", "_cells")  # without words


def rows_of(cells: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Divide cells into words."""
    return zip(*[iter(cells)] * CELLS, strict=True)


class _Cells:
    """Hold the cells of a sentence whose words have not been created yet. Not a field, because the words are one."""

    __slots__ = ("_cells",)
    _cells: list[Any] | None


@dataclass(frozen=True, slots=True, repr=False)
class Sentence(_Cells, Sequence[Word]):
    """One sentence of a document; a sequence of its words.

    text    as in the document, from its first character to its last
    start   its offset into the text of the document
    words   its words
    cut     whether it was cut because of its length and continues in the next one
    prob    the probability of the words and their tree, the trees inside words summed out, relations not counted; None
            as in `Word`
    after   the white space after it, as far as it is known
    prob_without_lexicon    what prob would be without the lexicon; None unless it found something here

    A parser makes sentences of cells: the fields of the first word, those of the second, and so on, in one list. The
    objects for words are created when somebody asks for them: they cost more than everything else around the networks,
    and formats do not need them.
    """

    text: str
    start: int
    words: tuple[Word, ...]
    cut: bool = False
    prob: float | None = None
    after: str = ""
    prob_without_lexicon: float | None = None

    def __post_init__(self) -> None:
        for word in self.words:
            word._sentence = self  # type: ignore[misc]  # it is a slot of the class below

    @classmethod
    def from_cells(
        cls,
        text: str,
        start: int,
        cells: list[Any],
        cut: bool = False,
        prob: float | None = None,
        after: str = "",
        prob_without_lexicon: float | None = None,
    ) -> Sentence:
        """Build a sentence from the fields of its words."""
        sentence = cls.__new__(cls)
        values = text, start, cut, prob, after, prob_without_lexicon, cells
        for name, value in zip(_FILLED, values, strict=True):
            object.__setattr__(sentence, name, value)
        return sentence

    @property
    def cells(self) -> list[Any]:
        """Return the fields of all words, one word after the other, without creating the words."""
        cells = getattr(self, "_cells", None)
        return [getattr(word, name) for word in self.words for name in _NAMES] if cells is None else cells

    def __getattr__(self, name: str) -> Any:
        """Create the words of a sentence that has only cells; Python calls this because the slot is empty."""
        cells = getattr(self, "_cells", None) if name == "words" else None
        if cells is None:
            return object.__getattribute__(self, name)
        object.__setattr__(self, "words", tuple([Word(*row) for row in rows_of(cells)]))
        object.__setattr__(self, "_cells", None)
        self.__post_init__()
        return self.words

    def __repr__(self) -> str:
        return f"<Sentence {' '.join([word.form for word in self.words])}>"

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[Word]:
        return iter(self.words)

    @overload
    def __getitem__(self, index: int) -> Word: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Word, ...]: ...
    def __getitem__(self, index: int | slice) -> Word | tuple[Word, ...]:
        return self.words[index]

    @property
    def root(self) -> Word:
        """Return the root word of the sentence."""
        return next(word for word in self.words if word.head == ROOT)

    def _repr_svg_(self) -> str:
        """Return the figure that notebooks show."""
        return self.to_svg()

    def __str__(self) -> str:
        """Draw the sentence for a terminal, without colour."""
        from zishu.render.terminal import draw

        return draw(self)

    @property
    def end(self) -> int:
        """Return the offset after its last character."""
        return self.start + len(self.text)

    @property
    def chars(self) -> list[str]:
        """Return its characters, word by word, without white space."""
        return [char for word in self.words for char in characters(word.form)]

    @property
    def tree(self) -> WordTree:
        """Return the tree of its words."""
        columns = {name: tuple([getattr(word, name) for word in self.words]) for name in COLUMNS}
        return WordTree(
            tuple(word.form for word in self.words),
            tuple(word.head for word in self.words),
            tuple(word.deprel for word in self.words),
            **{name: values for name, values in columns.items() if None not in values},
        )

    @property
    def char_tree(self) -> CharTree:
        """Return the tree of its characters: INTRA inside a word, the word's own relation on its root.

        An arc between words leads from root character to root character. In a word without an inner tree, all
        characters depend on the last one.
        """
        chars = [characters(word.form) for word in self.words]
        offsets = list(accumulate(map(len, chars), initial=0))
        inner = [
            word.char_heads or (*(len(part),) * (len(part) - 1), ROOT)
            for word, part in zip(self.words, chars, strict=True)
        ]
        # The number of each word's root character in the sentence; word 0 is ROOT.
        roots = [
            ROOT,
            *(offset + heads.index(ROOT) + 1 for offset, heads in zip(offsets, inner, strict=False)),
        ]
        heads: list[int] = []
        labels: list[str] = []
        for word, offset, inside in zip(self.words, offsets, inner, strict=False):
            heads += [offset + h if h else roots[word.head] for h in inside]
            labels += [INTRA if h else word.deprel for h in inside]
        return CharTree(tuple(char for part in chars for char in part), tuple(heads), tuple(labels))

    def to_conllu(self, *, sent_id: str = "1") -> str:
        """Format the sentence as CoNLL-U, including the final blank line."""
        from zishu.formats.parsed_conllu import to_conllu

        return to_conllu(self, sent_id=sent_id)

    def to_json(self) -> str:
        """Format the sentence as one line of JSON, without the line break."""
        from zishu.formats.jsonl import to_json

        return to_json(self)

    def to_svg(self) -> str:
        """Draw the sentence: arcs above the words, dashed arcs inside them."""
        from zishu.render.svg import to_svg

        return to_svg(self)


@dataclass(frozen=True, slots=True, repr=False)
class Document(Sequence[Sentence]):
    """A text and its sentences; a sequence of these.

    text        the text that was parsed
    sentences   its sentences
    """

    text: str
    sentences: tuple[Sentence, ...] = ()

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[Sentence]:
        return iter(self.sentences)

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Sentence, ...]: ...
    def __getitem__(self, index: int | slice) -> Sentence | tuple[Sentence, ...]:
        return self.sentences[index]

    def __repr__(self) -> str:
        start = self.text if len(self.text) <= _SHOWN_TEXT else f"{self.text[:_SHOWN_TEXT]}…"
        return f"<Document of {len(self)} sentence{'s' * (len(self) != 1)}: {start!r}>"

    def _repr_html_(self) -> str:
        """Return the figures that notebooks show; of a long document only the first."""
        from zishu.render.svg import to_svg

        figures = [
            f'<div style="overflow-x: auto">{to_svg(sentence)}</div>' for sentence in self[:_SHOWN_FIGURES]
        ]
        if (more := len(self) - _SHOWN_FIGURES) > 0:
            figures.append(f"<p>and {more} more sentence{'s' * (more != 1)}</p>")
        return "\n".join(figures)

    def __str__(self) -> str:
        """Draw the sentences for a terminal, one below the other."""
        return "\n".join(str(sentence).rstrip("\n") + "\n" for sentence in self.sentences)

    def to_conllu(self) -> str:
        """Return all sentences as CoNLL-U, numbered from 1."""
        return "".join(
            sentence.to_conllu(sent_id=str(number)) for number, sentence in enumerate(self.sentences, start=1)
        )

    def to_json(self) -> str:
        """Format as JSON lines: one object per sentence, each line with its line break."""
        return "".join(f"{sentence.to_json()}\n" for sentence in self.sentences)

    def to_svg(self) -> str:
        """Draw all sentences in one figure, one below the other."""
        from zishu.render.svg import to_svg

        return to_svg(*self.sentences)


class Token(NamedTuple):
    """One word of a text that was segmented or tagged, but not parsed.

    form        the word itself
    start, end  offsets into the text of the document
    upos, xpos  its tags; None if not requested or not predicted by the model
    """

    form: str
    start: int
    end: int
    upos: str | None = None
    xpos: str | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """One sentence that was segmented or tagged, but not parsed; its fields are those of a `Sentence`."""

    text: str
    start: int
    words: tuple[Token, ...]
    cut: bool = False
    after: str = ""

    @property
    def end(self) -> int:
        """Return the offset after its last character."""
        return self.start + len(self.text)
