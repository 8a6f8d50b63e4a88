"""Find the tree inside each word, with relations, using the structure scorer of a model.

The scorer is a small separate network in two files of a model directory. `zishu train-structures` writes them after the
parser has been trained, and nothing else depends on them:

    structures.onnx   characters of words -> scores of arcs and of relations inside words
    structures.json   `InnerSettings`

The network reads the words of a batch, with at most L characters:

    encoded   float32 [w, L, width]   the parser's encoding of each character in its sentence
    chars     int64   [w, L]          the characters' numbers in the model's vocabulary
    pairs     int64   [w, L]          what is known about a character and the next one, see `pair_numbers`
    lengths   int64   [w]

and returns

    arcs      float32 [w, L, L+1]     score of the head h of each character d; head 0 makes d the root of the word
    relations float32 [w, L, L, R]    log-probabilities of the relations given the arc, for heads 1 to L

A tree's probability is proportional to the exponential of its arcs' scores. The chart finds the best projective tree
and its probability; the probability of a structure includes the relations. A word in the lexicon gets its structure
from there; if there are several, the scorer chooses. Only words of two or more Chinese characters have a structure. One
character is its own root. Other words (letters, digits, symbols) have no inner tree.

Cost: a few calls of the network for all words of several batches, and charts of a few characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from zishu.chart import TreeDistribution
from zishu.document import CELLS, Word
from zishu.errors import InputError, InvalidTree
from zishu.model.features import length_batches
from zishu.structures import CLASSES, RELATIONS, bundled_structures, is_chinese, words_in_text
from zishu.tree import ROOT_LABEL, check_heads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.chart import Floats
    from zishu.model.sessions import Session
    from zishu.model.vocabulary import Vocabulary

FORMAT: Final = 2

_HEADS, _RELATIONS, _PROB = (
    [f.name for f in fields(Word)].index(name) for name in ("char_heads", "char_rels", "structure_prob")
)
_MOST_KNOWN: Final = 1 << 15
# Words that wait for the network, and what it scores at once: characters, pairs of them and padding. Pairs limit memory.
_MOST_WAITING: Final = 2000
SCORED_CHARS: Final = 500
SCORED_PAIRS: Final = 100_000
SCORED_PADDING: Final = 100


@dataclass(frozen=True, slots=True)
class InnerSettings:
    """Hold the settings of a structure scorer and its origin: the content of structures.json."""

    relations: tuple[str, ...]
    # Words and their structures as in the lexicon ("2:att 3:att 0"), several where the part of speech decides. The
    # bundled lexicon is not stored with the model.
    lexicon: Mapping[str, tuple[str, ...]]
    temperature: float = 1.0  # scores are divided by it
    classes: int = 0  # number of classes of frequent words that the network knows, see `pair_numbers`
    # The run's settings and scores; for display only.
    training: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Convert the settings to plain objects for JSON."""
        return {
            "format": FORMAT,
            "relations": list(self.relations),
            "temperature": self.temperature,
            "classes": self.classes,
            "training": dict(self.training),
            "lexicon": None
            if self.lexicon == bundled_structures()
            else {form: list(entries) for form, entries in self.lexicon.items()},
        }

    @classmethod
    def from_json(cls, data: object) -> InnerSettings:
        """Rebuild settings from the output of `to_json`; every wrong value raises `InputError`."""
        if not isinstance(data, dict) or not isinstance(data.get("format"), int):
            raise InputError("not the settings of a structure scorer")
        if data["format"] > FORMAT:
            raise InputError(f"format {data['format']} is newer than this version of Zishu: update Zishu")
        if data["format"] < FORMAT:
            raise InputError(f"format {data['format']} is too old: run `zishu train-structures` again")
        relations, lexicon = data.get("relations"), data.get("lexicon")
        if not isinstance(relations, list) or any(name not in RELATIONS for name in relations):
            raise InputError(f"'relations' must be a list of these: {', '.join(RELATIONS)}")
        if not relations or len(set(relations)) < len(relations):
            raise InputError("'relations' is empty or has a duplicate")
        if lexicon is None:
            lexicon = bundled_structures()
        elif not isinstance(lexicon, dict) or not all(
            isinstance(entries, list) and entries and all(isinstance(entry, str) for entry in entries)
            for entries in lexicon.values()
        ):
            raise InputError("'lexicon' must map words to lists of structures")
        temperature = data.get("temperature")
        if not isinstance(temperature, int | float) or not isfinite(temperature) or temperature <= 0:
            raise InputError("'temperature' must be a number above 0")
        classes = data.get("classes", 0)
        if not isinstance(classes, int) or not 0 <= classes <= CLASSES:
            raise InputError(f"'classes' must be a number from 0 to {CLASSES}")
        training = data.get("training", {})
        return cls(
            tuple(relations),
            {form: tuple(entries) for form, entries in lexicon.items()},
            float(temperature),
            classes,
            training if isinstance(training, Mapping) else {},
        )


class Inner(NamedTuple):
    """Hold the tree inside one word, numbered from 1, with each character's relation and the probability of all."""

    heads: tuple[int, ...]
    relations: tuple[str, ...]
    prob: float


_SINGLE: Final = Inner((0,), (ROOT_LABEL,), 1.0)  # of a word of one character
_NOTHING: Final = (None, None, None)  # of a word that is not Chinese, or whose tree is not yet known


@dataclass(frozen=True, slots=True, eq=False)
class StructureScorer:
    """Score the structures of words with a model's network."""

    settings: InnerSettings
    vocabulary: Vocabulary
    session: Session
    pairs: Mapping[str, int] = field(init=False)
    # The trees inside recent words of several characters; None if the network must score them.
    known: dict[str, Inner | tuple[None, None, None] | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", pair_numbers(self.settings))

    def look_up(self, word: str) -> Inner | tuple[None, None, None] | None:
        """Return the tree inside a word of several characters; None if the network must score it."""
        if word not in self.known:
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            entries = self.entries(word)
            only = entries[0] if len(entries) == 1 else None
            self.known[word] = only if is_chinese(word) else _NOTHING
        return self.known[word]

    def entries(self, word: str) -> list[Inner]:
        """Return the structures of a word in the lexicon, if any."""
        lexicon = self.settings.lexicon
        return list(
            map(read_arcs, lexicon.get(word) or lexicon.get("".join(self.vocabulary.known(word)), ()))
        )

    def find(self, encoded: Floats, words: Sequence[str]) -> list[Inner]:
        """Return the structures of words, given the encodings of their characters, one row per character."""
        arcs, relations = self.score(encoded, words)
        found = best_structures(arcs, relations, np.array(list(map(len, words))), self.settings)
        for w, word in enumerate(words):
            if entries := self.entries(word):
                found[w] = _chosen(arcs[w], relations[w], entries, self.settings)
        return found

    def score(self, encoded: Floats, words: Sequence[str]) -> tuple[Floats, Floats]:
        """Return the scores of arcs and relations inside words, given the encodings of their characters."""
        inputs = word_inputs(encoded, words, self.vocabulary, self.pairs)
        arcs, relations = self.session.run(["arcs", "relations"], inputs)
        return arcs, relations


class _Waiting(NamedTuple):
    form: str
    encoded: Floats  # of its characters
    cells: list[Any]  # of its sentence (`zishu.document.Sentence`)
    place: int  # its index there


class InnerTrees:
    """Find the trees inside the words of several batches.

    Most words are in the lexicon. The others wait until `finish`, and their cells have no tree until then: a call of the
    network costs as much as some hundred words.
    """

    def __init__(self, scorer: StructureScorer, *, confidence: bool) -> None:
        self.scorer, self.confidence = scorer, confidence
        self.waiting: list[_Waiting] = []

    def known(self, forms: Sequence[str], sizes: Iterable[int]) -> tuple[list[list[Any]], list[int]]:
        """Return the heads, relations and probabilities inside words, and the indices of those that must wait."""
        look_up = self.scorer.look_up
        found = [_SINGLE if n == 1 else look_up(form) for form, n in zip(forms, sizes, strict=True)]
        trees = [tree or _NOTHING for tree in found]
        columns = [[tree[k] for tree in trees] for k in range(2)]
        columns.append([tree[2] if self.confidence else None for tree in trees])
        return columns, [w for w, tree in enumerate(found) if tree is None]

    def wait(self, form: str, encoded: Floats, cells: list[Any], place: int) -> None:
        """Add a word, given the encodings of its characters, the cells of its sentence and its index there."""
        self.waiting.append(_Waiting(form, encoded.copy(), cells, place))
        if len(self.waiting) >= _MOST_WAITING:
            self.finish()

    def finish(self) -> None:
        """Find the trees inside the waiting words and write them to their cells."""
        sizes = [len(word.form) for word in self.waiting]
        for numbers in length_batches(sizes, SCORED_CHARS, SCORED_PAIRS, SCORED_PADDING):
            words = [self.waiting[w] for w in numbers.tolist()]
            encoded = np.concatenate([word.encoded for word in words])
            found = self.scorer.find(encoded, [word.form for word in words])
            for (_, _, cells, place), inner in zip(words, found, strict=True):
                cells[place * CELLS + _HEADS] = inner.heads
                cells[place * CELLS + _RELATIONS] = inner.relations
                if self.confidence:
                    cells[place * CELLS + _PROB] = inner.prob
        self.waiting = []


@lru_cache(maxsize=4096)
def read_arcs(text: str) -> Inner:
    """Parse a structure in the lexicon's notation, such as 2:att 3:att 0."""
    pairs = [field.partition(":") for field in text.split()]
    try:
        heads = tuple(int(head) for head, _, _ in pairs)
        check_heads(heads, kind="character")
    except (ValueError, InvalidTree) as error:
        raise InputError(f"not a word structure: {text!r}") from error
    return Inner(heads, tuple(relation or ROOT_LABEL for _, _, relation in pairs), 1.0)


def _chosen(arcs: Floats, relations: Floats, entries: Sequence[Inner], settings: InnerSettings) -> Inner:
    """Return the most probable of a word's structures in the lexicon, and its probability among them."""
    scores = np.zeros(len(entries))
    for k, (heads, names, _) in enumerate(entries):
        for d, (head, name) in enumerate(zip(heads, names, strict=True)):
            scores[k] += arcs[d, head]
            if head:
                scores[k] += relations[d, head - 1, settings.relations.index(name)]
    weights = np.exp((scores - scores.max()) / settings.temperature)
    best = int(weights.argmax())
    return entries[best]._replace(prob=float(weights[best] / weights.sum()))


def pair_numbers(settings: InnerSettings) -> dict[str, int]:
    """Return what is known about pairs of characters, as numbers.

    A word of the lexicon has the number of its relation, from 1; its first structure counts. Other words of two
    characters that are frequent in text have the numbers above these, one per class of frequency.
    """
    numbers = {name: number for number, name in enumerate(settings.relations, start=1)}
    frequent = words_in_text() if settings.classes else {}
    return {form: len(numbers) + number for form, number in frequent.items()} | {
        form: next((numbers[name] for name in read_arcs(entries[0])[1] if name in numbers), 0)
        for form, entries in settings.lexicon.items()
        if len(form) == 2
    }


def word_inputs(
    encoded: Floats, words: Sequence[str], vocabulary: Vocabulary, pairs: Mapping[str, int]
) -> dict[str, NDArray[Any]]:
    """Build the inputs of the network; `encoded` has the characters of all words, concatenated."""
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    inside = np.arange(lengths.max(initial=1)) < lengths[:, None]
    text = vocabulary.known("".join(words))
    numbers = np.zeros(inside.shape, dtype=np.int64)
    numbers[inside] = vocabulary.ids(text)
    table = np.zeros((*inside.shape, encoded.shape[1]), dtype=np.float32)
    table[inside] = encoded
    known = np.zeros(inside.shape, dtype=np.int64)
    # A word of two characters is not its own part. The last character of a word has no next one.
    place = 0
    for row, length in enumerate(lengths.tolist()):
        if length > 2:
            for k in range(length - 1):
                known[row, k] = pairs.get(text[place + k] + text[place + k + 1], 0)
        place += length
    return {"encoded": table, "chars": numbers, "pairs": known, "lengths": lengths}


def best_structures(
    arcs: Floats, relations: Floats, lengths: NDArray[np.int64], settings: InnerSettings
) -> list[Inner]:
    """Return the best tree inside each word and the best relations on its arcs."""
    words, width = relations.shape[:2]
    scores = np.full((words, width + 1, width + 1), -np.inf)
    scores[:, 1:] = arcs / settings.temperature
    trees = TreeDistribution(scores, lengths)
    best = trees.best()
    log_probs = best.score - trees.log_partition()
    heads = best.heads[:, 1:]
    rows, places = np.nonzero((np.arange(width) < lengths[:, None]) & (heads > 0))
    chosen = relations[rows, places, heads[rows, places] - 1] / settings.temperature
    top = chosen.max(axis=1)
    of_relation = -np.log(np.exp(chosen - top[:, None]).sum(axis=1))
    log_probs = log_probs + np.bincount(rows, of_relation, minlength=words)
    names = np.full(heads.shape, len(settings.relations))
    names[rows, places] = chosen.argmax(axis=1)
    spelled = (*settings.relations, ROOT_LABEL)
    return [
        Inner(tuple(found[:n]), tuple([spelled[k] for k in kinds[:n]]), prob)
        for found, kinds, n, prob in zip(
            heads.tolist(),
            names.tolist(),
            lengths.tolist(),
            np.exp(np.minimum(log_probs, 0.0)).tolist(),
            strict=True,
        )
    ]
