"""The structure scorer's runtime: exact search against enumeration, its inputs, its settings."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest

from oracle import trees
from zishu.document import CELLS, Word, rows_of
from zishu.errors import InputError
from zishu.model.inner import (
    InnerSettings,
    InnerTrees,
    StructureScorer,
    best_structures,
    pair_numbers,
    read_arcs,
    word_inputs,
)
from zishu.model.vocabulary import Vocabulary
from zishu.structures import CLASSES, bundled_structures

NAMES = ("att", "obj", "coo")


def test_the_best_structure_and_its_probability_are_those_of_enumeration():
    """Enumerate all trees of words of one to five characters, in one padded batch, at a temperature."""
    random = np.random.default_rng(0)
    lengths = np.array([1, 2, 3, 4, 5, 2, 4])
    arcs = random.normal(size=(7, 5, 6)) * 2
    relations = np.log(random.dirichlet(np.ones(3), size=(7, 5, 5)))
    settings = InnerSettings(NAMES, {}, temperature=1.7)
    for w, inner in enumerate(best_structures(arcs, relations, lengths, settings)):
        n = int(lengths[w])
        scores = {heads: sum(arcs[w, d, head] / 1.7 for d, head in enumerate(heads)) for heads in trees(n)}
        best = max(scores, key=scores.__getitem__)
        assert inner.heads == best
        prob = math.exp(scores[best]) / sum(map(math.exp, scores.values()))
        names = []
        for d, head in enumerate(best):
            if head:
                weights = np.exp(relations[w, d, head - 1] / 1.7)
                names.append(NAMES[weights.argmax()])
                prob *= weights.max() / weights.sum()
            else:
                names.append("root")
        assert inner.relations == tuple(names)
        assert inner.prob == pytest.approx(prob)


def test_inputs_are_padded_and_know_the_words_inside_longer_words():
    vocabulary = Vocabulary.build(dict.fromkeys("科学家车站", 1))
    encoded = np.arange(14, dtype=np.float32).reshape(7, 2)
    inputs = word_inputs(encoded, ["科学家", "车站", "学鲸"], vocabulary, {"科学": 3, "车站": 1})
    assert inputs["lengths"].tolist() == [3, 2, 2]
    assert inputs["encoded"][1].tolist() == [[6, 7], [8, 9], [0, 0]]
    assert inputs["chars"][2].tolist() == [*vocabulary.ids(["学"]), vocabulary.unknown, 0]
    # 车站 is a word of the lexicon, but not a part of itself.
    assert inputs["pairs"].tolist() == [[3, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_known_pairs_have_the_relation_of_their_first_structure():
    lexicon = {"科学": ("2:att 0",), "才能": ("0 1:coo", "2:adv 0"), "科学家": ("2:att 3:att 0",)}
    assert pair_numbers(InnerSettings(("att", "obj", "coo"), lexicon)) == {"科学": 1, "才能": 3}


def test_other_frequent_words_have_a_number_per_class():
    """我们 is among the most frequent words, 蚊香 among the rarest of the list; 科学 is in the lexicon."""
    numbers = pair_numbers(InnerSettings(NAMES, {"科学": ("2:att 0",)}, classes=CLASSES))
    assert (numbers["科学"], numbers["我们"], numbers["蚊香"]) == (1, 6, 4)
    assert "们我" not in numbers
    assert set(numbers.values()) == {1, 4, 5, 6}


def test_settings_come_back_from_json():
    settings = InnerSettings(
        NAMES, {"科学": ("2:att 0",), "才能": ("0 1:coo", "2:adv 0")}, 1.25, 3, {"seed": 0}
    )
    assert InnerSettings.from_json(settings.to_json()) == settings


def test_the_bundled_lexicon_is_not_stored_with_a_model():
    settings = InnerSettings(NAMES, bundled_structures())
    assert settings.to_json()["lexicon"] is None
    assert InnerSettings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 3}, "newer"),
        ({"format": 1}, "too old"),
        ({"format": None}, "not the settings"),
        ({"relations": ["att", "nsubj"]}, "relations"),
        ({"relations": ["att", "att"]}, "duplicate"),
        ({"relations": []}, "empty"),
        ({"lexicon": ["科学"]}, "lexicon"),
        ({"lexicon": {"科学": []}}, "lexicon"),
        ({"temperature": 0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": None}, "temperature"),
        ({"classes": 4}, "classes"),
        ({"classes": None}, "classes"),
    ],
)
def test_wrong_settings_are_refused(change, message):
    data = {**InnerSettings(NAMES, {"科学": ("2:att 0",)}).to_json(), **change}
    with pytest.raises(InputError, match=message):
        InnerSettings.from_json(data)


class _Session:
    """A network that returns given scores."""

    def __init__(self, arcs, relations):
        self.scores = [arcs, relations]

    def run(self, names, inputs):
        assert names == ["arcs", "relations"]
        return self.scores


def test_the_scorer_chooses_among_the_structures_of_the_lexicon():
    """才能 is 才 + 能 or 才 before 能; 科学 has one structure, whatever the scores; 车站 is not in the lexicon."""
    vocabulary = Vocabulary.build(dict.fromkeys("才能科学车站", 1))
    names = ("coo", "adv", "att")
    settings = InnerSettings(names, {"才能": ("0 1:coo", "2:adv 0"), "科学": ("2:att 0",)})
    arcs = np.zeros((3, 2, 3))
    arcs[:, 0, 0] = 2.0  # the first character is the root
    relations = np.full((3, 2, 2, 3), math.log(1 / 3))
    scorer = StructureScorer(settings, vocabulary, _Session(arcs, relations))
    found = scorer.find(np.zeros((6, 4), dtype=np.float32), ["才能", "科学", "车站"])
    assert [inner.heads for inner in found] == [(0, 1), (2, 0), (0, 1)]
    assert [inner.relations for inner in found[:2]] == [("root", "coo"), ("att", "root")]
    assert found[0].prob == pytest.approx(math.exp(2) / (math.exp(2) + 1))
    assert found[1].prob == 1
    assert found[2].prob == pytest.approx(found[0].prob / 3)


@pytest.mark.parametrize("text", ["", "1:att", "2:att 1:coo", "0 x:coo", "0 0"])
def test_a_structure_of_the_lexicon_must_be_a_tree(text):
    with pytest.raises(InputError, match="not a word structure"):
        read_arcs(text)


class _Counting:
    """A network for which the first character of every word is the root."""

    def __init__(self):
        self.calls = []

    def run(self, names, inputs):
        lengths = inputs["lengths"]
        self.calls.append(lengths.tolist())
        arcs = np.zeros((len(lengths), lengths.max(), lengths.max() + 1))
        arcs[:, 0, 0] = 5.0
        arcs[:, 1:, 1] = 5.0  # all others depend on it
        return [arcs, np.log(np.full((*arcs.shape[:2], arcs.shape[1], 3), 1 / 3))]


def _cells(*forms):
    names = [field.name for field in fields(Word)]
    row = dict.fromkeys(names)
    return [value for form in forms for value in {**row, "form": form}.values()]


@pytest.mark.parametrize("confidence", [False, True])
def test_words_of_several_batches_wait_for_one_call(confidence):
    """科学 is in the lexicon, A1 is not Chinese, 车 is one character; the others need the network."""
    network = _Counting()
    settings = InnerSettings(NAMES, {"科学": ("2:att 0",)})
    inner = InnerTrees(StructureScorer(settings, Vocabulary.build(dict.fromkeys("科学家", 1)), network),
                       confidence=confidence)  # fmt: skip
    columns, waiting = inner.known(["科学", "A1", "车", "蚊香"], [2, 2, 1, 2])
    assert columns[0] == [(2, 0), None, (0,), None]
    assert columns[1] == [("att", "root"), None, ("root",), None]
    assert columns[2] == ([1.0, None, 1.0, None] if confidence else [None] * 4)
    assert waiting == [3]
    first, second = _cells("科学", "A1", "车", "蚊香"), _cells("科学家", "鲸鱼")
    inner.wait("蚊香", np.zeros((2, 4), np.float32), first, 3)
    inner.wait("科学家", np.zeros((3, 4), np.float32), second, 0)
    inner.wait("鲸鱼", np.zeros((2, 4), np.float32), second, 1)
    assert not network.calls
    inner.finish()
    inner.finish()
    assert network.calls == [[3, 2, 2]]
    words = [Word(*row) for row in (*rows_of(first), *rows_of(second))]
    assert [word.char_heads for word in words[3:]] == [(0, 1), (0, 1, 1), (0, 1)]
    assert [len(word.char_rels) for word in words[3:]] == [2, 3, 2]
    assert [word.structure_prob is not None for word in words[3:]] == [confidence] * 3


def test_few_words_wait_at_a_time(monkeypatch):
    monkeypatch.setattr("zishu.model.inner._MOST_WAITING", 2)
    network = _Counting()
    inner = InnerTrees(
        StructureScorer(InnerSettings(NAMES, {}), Vocabulary.build({}), network), confidence=True
    )
    cells = _cells("蚊香", "鲸鱼", "车站")
    for place, form in enumerate(cells[1::CELLS]):
        inner.wait(form, np.zeros((2, 4), np.float32), cells, place)
    assert network.calls == [[2, 2]]
    inner.finish()
    assert network.calls == [[2, 2], [2]]
