"""What a parser returns: a document of sentences of words, each with its place in the text.

    document = zishu.load()("上海计划发展金融业。")
    for sentence in document:
        for word in sentence:
            print(word.id, word.form, word.upos, word.head, word.deprel, word.char_heads)

Plain objects that never change: they hold what was found and know no model. `text[word.start:word.end] ==
word.form` always holds for the text that was parsed, and every character that is not white space is in exactly
one word. How they look as CoNLL-U, JSON, a drawing: `zishu.formats` and `zishu.render`; the methods here only
call these, and import them when they are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, overload

from zishu.tags import COLUMNS
from zishu.text import characters
from zishu.tree import INTRA, ROOT, CharTree, WordTree

if TYPE_CHECKING:
    from collections.abc import Iterator


# Not frozen, though nobody changes a word: building a frozen object costs six times as much, which is felt when
# a parser makes a hundred thousand words a second.
@dataclass(slots=True, unsafe_hash=True)
class Word:
    """One word of a sentence."""

    id: int  # its number in the sentence, from 1
    form: str
    start: int  # offsets into the text of the document
    end: int
    upos: str | None  # None if the model knows no parts of speech
    head: int  # the number of its head, 0 for the root of the sentence
    deprel: str
    char_heads: tuple[int, ...] | None  # its inner tree: characters from 1, 0 for the root; None if unknown
    # Probabilities, None where they were not asked for or the model has none:
    boundary_prob: float | None = None  # of its least certain boundary (or join inside it)
    head_prob: float | None = None  # of its head, given the words of the sentence
    label_prob: float | None = None  # of its relation, given its head
    upos_prob: float | None = None  # of its part of speech, given the word
    # More tags, None if the model, or the style that it parses in, has none:
    xpos: str | None = None  # the part of speech of the treebank's own tag set
    feats: str | None = None  # its features, as in CoNLL-U: Number=Plur|Person=3, "_" for a word without any
    lemma: str | None = None
    # The relation of each character to its head in the word, "root" for the root, and the probability of the whole
    # structure; None for latent trees and for words without a structure (letters, digits, symbols):
    char_rels: tuple[str, ...] | None = None
    structure_prob: float | None = None

    @property
    def prob(self) -> float | None:
        """Return how sure the model is of this word in its sentence: the product of the four probabilities above.

        None if one of these is unknown; that of the part of speech is left out if the word has none.
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
        """Return the offset of the root character in the word, counted in characters from 0."""
        return None if self.char_heads is None else self.char_heads.index(ROOT)


@dataclass(frozen=True, slots=True)
class Sentence(Sequence[Word]):
    """One sentence of a document; a sequence of its words."""

    text: str  # as in the document, from its first character to its last
    start: int  # its offset into the text of the document
    words: tuple[Word, ...]
    cut: bool = False  # it was cut for its length and goes on in the next one
    # The probability of the words and their tree, the trees inside words summed out, relations not counted; None as in
    # `Word`.
    prob: float | None = None
    after: str = ""  # the white space behind it, as far as it is known

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
        """Return the word that no other word governs."""
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
        """Return the offset behind its last character."""
        return self.start + len(self.text)

    @property
    def chars(self) -> list[str]:
        """Return its characters, word by word; white space is no character."""
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

        An arc between words leads from root character to root character. A word whose inner tree is unknown
        hangs on its last character.
        """
        chars = [characters(word.form) for word in self.words]
        offsets = list(accumulate(map(len, chars), initial=0))
        inner = [
            word.char_heads or (*(len(part),) * (len(part) - 1), ROOT)
            for word, part in zip(self.words, chars, strict=True)
        ]
        # The number of each word's root character in the sentence; that of word 0 is ROOT.
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
        """Return the sentence as CoNLL-U, with the blank line that ends it."""
        from zishu.formats.parsed_conllu import to_conllu

        return to_conllu(self, sent_id=sent_id)

    def to_json(self) -> str:
        """Return the sentence as one line of JSON, without the line break."""
        from zishu.formats.jsonl import to_json

        return to_json(self)

    def to_svg(self) -> str:
        """Return a figure of the sentence: arcs above the words, dashed arcs inside them."""
        from zishu.render.svg import to_svg

        return to_svg(self)


@dataclass(frozen=True, slots=True)
class Document(Sequence[Sentence]):
    """A text and its sentences; a sequence of these."""

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

    def __str__(self) -> str:
        """Draw the sentences for a terminal, one below the other."""
        return "\n".join(str(sentence).rstrip("\n") + "\n" for sentence in self.sentences)

    def to_conllu(self) -> str:
        """Return all sentences as CoNLL-U, numbered from 1."""
        return "".join(
            sentence.to_conllu(sent_id=str(number)) for number, sentence in enumerate(self.sentences, start=1)
        )

    def to_json(self) -> str:
        """Return JSON lines: an object a sentence, each line with its line break."""
        return "".join(f"{sentence.to_json()}\n" for sentence in self.sentences)
