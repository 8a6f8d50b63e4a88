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

Cost: two calls of the network per batch (words of two characters need no padding), and charts of a few characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from zishu.chart import TreeDistribution
from zishu.errors import InputError, InvalidTree
from zishu.structures import CLASSES, RELATIONS, bundled_structures, is_chinese, words_in_text
from zishu.tree import ROOT_LABEL, check_heads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.chart import Floats
    from zishu.model.sessions import Session
    from zishu.model.vocabulary import Vocabulary
    from zishu.model.words import Words

FORMAT: Final = 2


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

    heads: tuple[int, ...] | None
    relations: tuple[str, ...] | None
    prob: float | None


_SINGLE: Final = Inner((0,), (ROOT_LABEL,), 1.0)  # of a word of one character
_NOTHING: Final = Inner(None, None, None)  # of a word that is not Chinese


@dataclass(frozen=True, slots=True, eq=False)
class StructureScorer:
    """Score the structures of words with a model's network."""

    settings: InnerSettings
    vocabulary: Vocabulary
    session: Session
    pairs: Mapping[str, int] = field(init=False)
    # The results of `_entries` and `_known` for the words of recent texts.
    entries: Callable[[str], tuple[str, ...]] = field(init=False)
    known: Callable[[str], Inner | None] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", pair_numbers(self.settings))
        object.__setattr__(self, "entries", lru_cache(maxsize=1 << 12)(self._entries))
        object.__setattr__(self, "known", lru_cache(maxsize=1 << 15)(self._known))

    def _known(self, word: str) -> Inner | None:
        """Return the structure of a word of several characters, None if the network must score it."""
        if not is_chinese(word):
            return _NOTHING
        entries = self.entries(word)
        return Inner(*read_arcs(entries[0]), 1.0) if len(entries) == 1 else None

    def _entries(self, word: str) -> tuple[str, ...]:
        """Return the structures of a word in the lexicon, if any."""
        lexicon = self.settings.lexicon
        return lexicon.get(word) or lexicon.get("".join(self.vocabulary.known(word)), ())

    def find(self, encoded: Floats, words: Sequence[str]) -> list[Inner]:
        """Return the structures of words, given the encodings of their characters, one row per character."""
        arcs, relations = self.score(encoded, words)
        found = best_structures(arcs, relations, np.array([len(word) for word in words]), self.settings)
        for w, word in enumerate(words):
            if entries := self.entries(word):  # several
                found[w] = _chosen(arcs[w], relations[w], list(map(read_arcs, entries)), self.settings)
        return found

    def score(self, encoded: Floats, words: Sequence[str]) -> tuple[Floats, Floats]:
        """Return the scores of arcs and relations inside words, given the encodings of their characters."""
        inputs = word_inputs(encoded, words, self.vocabulary, self.pairs)
        arcs, relations = self.session.run(["arcs", "relations"], inputs)
        return arcs, relations


@lru_cache(maxsize=4096)
def read_arcs(text: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Parse a structure in the lexicon's notation, such as 2:att 3:att 0, into heads and relations."""
    pairs = [field.partition(":") for field in text.split()]
    try:
        heads = tuple(int(head) for head, _, _ in pairs)
        check_heads(heads, kind="character")
    except (ValueError, InvalidTree) as error:
        raise InputError(f"not a word structure: {text!r}") from error
    return heads, tuple(relation or ROOT_LABEL for _, _, relation in pairs)


def _chosen(
    arcs: Floats,
    relations: Floats,
    entries: Sequence[tuple[tuple[int, ...], tuple[str, ...]]],
    settings: InnerSettings,
) -> Inner:
    """Return the most probable of a word's structures in the lexicon, and its probability among them."""
    if len(entries) == 1:
        return Inner(*entries[0], 1.0)
    scores = np.array(
        [
            sum(
                arcs[d, head] + (relations[d, head - 1, settings.relations.index(relation)] if head else 0.0)
                for d, (head, relation) in enumerate(zip(*entry, strict=True))
            )
            for entry in entries
        ]
    )
    weights = np.exp((scores - scores.max()) / settings.temperature)
    best = int(weights.argmax())
    return Inner(*entries[best], float(weights[best] / weights.sum()))


def inner_trees(
    scorer: StructureScorer,
    encoded: Floats,
    numbers: NDArray[np.int64],
    words: Words,
    forms: Sequence[str],
) -> tuple[Iterable[Any], ...]:
    """Return the heads, relations and probabilities inside all words, one sequence each.

    Tree t of `words` belongs to sentence `numbers[t]`, and row b of `encoded` is the sentence b, ROOT first.
    """
    sizes = words.end - words.start
    known = scorer.known
    found = [_SINGLE if n == 1 else known(form) for form, n in zip(forms, sizes.tolist(), strict=True)]
    unknown = np.array([w for w, inner in enumerate(found) if inner is None], dtype=np.int64)
    # Words of two characters are most of them; by themselves they need no padding.
    for chosen in (unknown[sizes[unknown] == 2], unknown[sizes[unknown] > 2]):
        if not len(chosen):
            continue
        rows = np.repeat(numbers[words.tree[chosen]], sizes[chosen])
        first = words.start[chosen] - (np.cumsum(sizes[chosen]) - sizes[chosen])
        columns = np.repeat(first, sizes[chosen]) + np.arange(len(rows))
        scored = scorer.find(encoded[rows, columns], [forms[w] for w in chosen.tolist()])
        for w, inner in zip(chosen.tolist(), scored, strict=True):
            found[w] = inner
    return tuple(zip(*found, strict=True))


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
