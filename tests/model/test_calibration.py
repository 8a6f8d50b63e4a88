"""A model's temperature: recovered where it is known, checked by enumeration, never used to choose trees."""

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

import oracle
import tiny
from raw_sentences import all_chars, all_words, boundary_probs, chars, head_probs, label_probs
from zishu import cli
from zishu.chart import TreeDistribution
from zishu.errors import InputError
from zishu.model.calibration import Calibration, Fit, calibrate, reliability, set_temperatures
from zishu.model.files import CONFIG, find_model
from zishu.model.model import Model
from zishu.model.outputs import Outputs
from zishu.model.settings import Settings
from zishu.tree import INTRA, CharTree, WordTree, recover

LABELS = (INTRA, "root", "obj")


@dataclass(frozen=True)
class MadeUp:
    """Return random scores that depend on the sentence alone."""

    roles: int
    labels: int
    scale: float = 1.0

    def run(self, sentences, word_lengths=None):
        sizes = [len(units) for units in (sentences if word_lengths is None else word_lengths)]
        shape = (self.roles, max(sizes) + 1, max(sizes) + 1)
        scores = np.zeros((len(sentences), *shape), dtype=np.float32)
        for b, (sentence, n) in enumerate(zip(sentences, sizes, strict=True)):
            random = np.random.default_rng([ord(char) for char in sentence])
            made = random.normal(scale=2 * self.scale, size=(self.roles, n + 1, n + 1))
            scores[b, :, : n + 1, : n + 1] = made
        ends = np.zeros((*scores.shape[::2], 1), dtype=np.float32)
        intra = scores[:, 1] if self.roles == 2 else None
        outputs = Outputs(inter=scores[:, 0], intra=intra, label_dep=ends, label_head=ends)
        return outputs.with_labels(self.score_labels)

    def score_labels(self, dependents, heads):
        return np.full((len(dependents), self.labels), -np.log(self.labels))


def made_up(task="parse", roles=2, scale=1.0) -> Model:
    labels = LABELS if task == "parse" else LABELS[1:]
    return Model(Settings(task=task, roles=roles, labels=labels), MadeUp(roles, len(labels), scale))


def sentences(count: int) -> list[list[str]]:
    random = np.random.default_rng(0)
    return [[chr(0x4E00 + k) for k in random.integers(2000, size=7)] for _ in range(count)]


def draw(model: Model, temperature: float, count: int) -> list[WordTree]:
    """Draw a treebank from the model's own distribution at a temperature."""
    trees = []
    for number, sentence in enumerate(sentences(count)):
        outputs = model.networks.run([sentence])
        intra = None if outputs.intra is None else outputs.intra / np.float32(temperature)
        drawn = TreeDistribution(outputs.inter / np.float32(temperature), [7], intra).sample(1, seed=number)
        heads, inside = drawn.heads[0, 0, 1:].tolist(), drawn.intra[0, 0, 1:].tolist()
        labels = [INTRA if i else "obj" if h else "root" for h, i in zip(heads, inside, strict=True)]
        trees.append(recover(CharTree(tuple(sentence), tuple(heads), tuple(labels))).tree)
    return trees


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_temperature_of_its_own_trees_is_found(temperature):
    model = made_up()
    found = calibrate(model, draw(model, temperature, 400)).trees
    assert found.temperature == pytest.approx(temperature, rel=0.1)
    assert found.after <= found.before
    assert found.units == 400 * 7


def test_scores_that_are_twice_as_large_are_twice_as_hot():
    treebank = draw(made_up(), 1.0, 100)
    once, twice = (calibrate(made_up(scale=scale), treebank).trees for scale in (1.0, 2.0))
    assert twice.temperature == pytest.approx(2 * once.temperature, rel=0.02)
    assert twice.after == pytest.approx(once.after, rel=1e-3)


def test_words_are_units_of_a_parser_of_words():
    model = made_up("parse-words", 1)
    treebank = []
    for number, sentence in enumerate(sentences(300)):
        words = ["".join(sentence[:3]), *sentence[3:]]
        outputs = model.networks.run([sentence], [[3, 1, 1, 1, 1]])
        drawn = TreeDistribution(outputs.inter, [5]).sample(1, seed=number)
        treebank.append(WordTree(tuple(words), tuple(drawn.heads[0, 0, 1:].tolist()), ("obj",) * 5))
    assert calibrate(model, treebank).trees.temperature == pytest.approx(1.0, rel=0.15)


@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_the_loss_is_that_of_enumerated_trees(temperature):
    model = made_up()
    model = replace(model, settings=replace(model.settings, temperature=temperature))
    gold = WordTree(("上海", "好", "吗"), (2, 0, 2), ("obj", "root", "obj"))
    outputs = model.networks.run([gold.chars])
    inter, intra = (scores[0] / temperature for scores in (outputs.inter, outputs.intra))

    def total(trees):
        return oracle.log_sum_exp([oracle.score(tree, inter, intra) for tree in trees])

    expected = total(oracle.typed_trees(4, [0] * 4)) - total(oracle.forest_trees(gold))
    assert calibrate(model, [gold]).trees.before == pytest.approx(expected / 4, rel=1e-5)


def test_a_temperature_divides_the_scores_and_keeps_the_best_trees():
    model, divided = made_up(), made_up(scale=1 / 2.5)
    hot = replace(model, settings=replace(model.settings, temperature=2.5))
    texts = [sentence[:5] for sentence in sentences(20)]
    for decoding in ("mbr", "viterbi"):
        cold, warm, same = (
            m.parse(all_chars(texts), confidence=True, decoding=decoding) for m in (model, hot, divided)
        )
        assert [a.tree for a in warm] == [a.tree for a in same]
        for one, two in zip(warm, same, strict=True):
            assert one.prob == pytest.approx(two.prob, rel=1e-4)
            assert head_probs(one) == pytest.approx(head_probs(two), rel=1e-4)
            assert boundary_probs(one) == pytest.approx(boundary_probs(two), rel=1e-4)
        # Words are those of the best tree. Their heads follow sums over trees, unless decoding is "viterbi".
        assert [a.tree.forms for a in cold] == [a.tree.forms for a in warm]
        if decoding == "viterbi":
            assert [a.tree for a in cold] == [a.tree for a in warm]
        assert [a.prob for a in cold] != [a.prob for a in warm]
    words = all_words([["上", "海", "好"]])
    cold, warm = ({a.tree.heads: a.prob for a in m.k_best(words, 100)[0]} for m in (model, hot))
    total = sum(p ** (1 / 2.5) for p in cold.values())
    assert len(warm) == 7
    for heads, probability in warm.items():
        assert probability == pytest.approx(cold[heads] ** (1 / 2.5) / total, rel=1e-4)


MORE_LABELS = (*LABELS, "nmod", "nsubj")


@dataclass(frozen=True)
class Labelling(MadeUp):
    """Add random scores of relations, the same for all words of a sentence."""

    def run(self, sentences, word_lengths=None):
        outputs = super().run(sentences, word_lengths)
        ends = np.zeros((*outputs.inter.shape[:2], self.labels))
        for row, sentence in zip(ends, sentences, strict=True):
            row[:] = self.label_scores(sentence)
        return replace(outputs, label_dep=ends).with_labels(self.score_labels)

    def label_scores(self, sentence):
        return np.random.default_rng([1, *map(ord, sentence)]).normal(scale=2 * self.scale, size=self.labels)

    def score_labels(self, dependents, heads):
        return dependents


def labelling(task="parse", roles=2, scale=1.0) -> Model:
    labels = MORE_LABELS if task == "parse" else MORE_LABELS[1:]
    return Model(Settings(task=task, roles=roles, labels=labels), Labelling(roles, len(labels), scale))


def relations(model: Model, sentence, temperature: float) -> dict[str, float]:
    """Return the probabilities of the relations between words, which are neither INTRA nor root."""
    scores = dict(zip(model.settings.labels, model.networks.label_scores(sentence), strict=True))
    weights = {name: math.exp(scores[name] / temperature) for name in MORE_LABELS[2:]}
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("task", ["parse", "parse-words"])
def test_relations_have_a_temperature_of_their_own(task, temperature):
    model = labelling(task, roles=2 if task == "parse" else 1)
    random = np.random.default_rng(0)
    treebank = []
    for tree in draw(made_up(), 1.0, 400):
        likely = relations(model, tree.chars, temperature)
        drawn = random.choice(list(likely), len(tree.heads), p=list(likely.values()))
        deprels = ("root" if head == 0 else str(name) for head, name in zip(tree.heads, drawn, strict=True))
        treebank.append(replace(tree, deprels=tuple(deprels)))
    found = calibrate(model, treebank).labels
    assert found.temperature == pytest.approx(temperature, rel=0.1)
    assert found.after <= found.before
    assert found.units == sum(len(tree.heads) for tree in treebank)


def test_the_loss_of_relations_by_hand():
    model = replace(labelling(), settings=replace(labelling().settings, label_temperature=1.7))
    gold = WordTree(("上海", "好", "吗"), (2, 0, 2), ("nsubj", "root", "nmod"))
    likely = relations(model, gold.chars, 1.7)
    expected = -(math.log(likely["nsubj"]) + math.log(likely["nmod"])) / 3  # root is certain
    assert calibrate(model, [gold]).labels.before == pytest.approx(expected)
    # A relation that the model does not know, and one that it gives to no such arc:
    foreign = replace(gold, deprels=("topic", "root", "root"))
    assert calibrate(model, [foreign]).labels.units == 1
    assert calibrate(model, [replace(gold, deprels=("a", "b", "c"))]).labels == Fit(1.7, 0.0, 0.0, 0)


class Tagging(MadeUp):
    """Parts of speech that depend on the character alone."""

    def run(self, sentences, word_lengths=None):
        found = super().run(sentences, word_lengths)
        width = found.inter.shape[1]
        scores = np.zeros((len(sentences), width, 3))
        for b, sentence in enumerate(sentences):
            for k, char in enumerate(sentence, 1):
                scores[b, k] = self.tag_scores(char)
        return replace(found, upos=scores - np.log(np.exp(scores).sum(axis=2, keepdims=True)))

    def tag_scores(self, char):
        return np.random.default_rng([2, ord(char)]).normal(scale=2 * self.scale, size=3)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_parts_of_speech_have_a_temperature_of_their_own(temperature):
    tags = ("NOUN", "VERB", "PUNCT")
    model = Model(Settings(task="parse", roles=2, labels=LABELS, upos=tags), Tagging(2, len(LABELS)))
    random = np.random.default_rng(0)
    treebank = []
    for tree in draw(made_up(), 1.0, 400):
        upos = []
        for form in tree.forms:
            scores = np.mean([model.networks.tag_scores(char) for char in form], axis=0)
            # The mean of log-probabilities is that of scores up to a constant.
            weights = np.exp(scores / temperature)
            upos.append(str(random.choice(tags, p=weights / weights.sum())))
        treebank.append(replace(tree, upos=tuple(upos)))
    found = calibrate(model, treebank).upos
    assert found.temperature == pytest.approx(temperature, rel=0.1)
    assert found.after <= found.before
    assert found.units == sum(len(tree.heads) for tree in treebank)
    untagged = [replace(tree, upos=None) for tree in treebank[:2]]
    assert calibrate(model, untagged).upos == Fit(1.0, 0.0, 0.0, 0)
    told = reliability(
        replace(model, settings=replace(model.settings, upos_temperature=temperature)), treebank
    )
    assert abs(told["parts of speech"].sure - told["parts of speech"].right) < 0.05
    assert "parts of speech" not in reliability(model, untagged)


@pytest.mark.parametrize(("roles", "decoding"), [(2, "mbr"), (1, "viterbi"), (1, "vanilla")])
def test_relations_are_told_at_their_temperature_and_stay(roles, decoding):
    cold = labelling(roles=roles)
    hot = replace(cold, settings=replace(cold.settings, label_temperature=2.5))
    texts = [sentence[:5] for sentence in sentences(20)]
    before, after = (m.parse(all_chars(texts), confidence=True, decoding=decoding) for m in (cold, hot))
    told = 0
    for text, old, new in zip(texts, before, after, strict=True):
        assert old.tree == new.tree
        assert head_probs(old) == head_probs(new)
        for head, name, sure in zip(new.tree.heads, new.tree.deprels, label_probs(new), strict=True):
            if (
                head and decoding != "vanilla"
            ):  # vanilla decoding can give INTRA as a relation, and repairs add others
                assert sure == pytest.approx(relations(hot, text, 2.5)[name])
                told += 1
        if decoding == "vanilla":
            told += label_probs(old) != label_probs(new)
    assert told > 10


def test_a_model_with_one_role(tmp_path):
    found = calibrate(made_up(roles=1), [WordTree(("上海", "好"), (2, 0), ("obj", "root"))])
    assert math.isfinite(found.trees.before)
    vanilla = made_up(roles=1)
    hot = replace(vanilla, settings=replace(vanilla.settings, temperature=3.0))
    [cold], [warm] = (
        m.parse([chars("上海好吗")], confidence=True, decoding="vanilla") for m in (vanilla, hot)
    )
    assert cold.tree == warm.tree
    assert cold.prob > warm.prob


def test_trees_that_cross_are_left_out():
    crossing = WordTree(tuple("上海好吗"), (3, 4, 0, 3), ("obj", "obj", "root", "obj"))
    plain = WordTree(tuple("上海"), (2, 0), ("obj", "root"))
    assert calibrate(made_up(), [crossing, plain]) == calibrate(made_up(), [plain])
    assert isinstance(calibrate(made_up(), [plain]), Calibration)
    with pytest.raises(InputError, match="no projective sentence"):
        calibrate(made_up(), [crossing])
    with pytest.raises(InputError, match="no temperature"):
        calibrate(made_up("segment", 1), [plain])


def test_reliability_by_hand():
    """In sentences of one word of one character, the word and its head are certain and right."""
    gold = [WordTree((char,), (0,), ("root",)) for char in "上海"]
    found = reliability(made_up(), gold)
    for name in ("words", "heads", "relations"):
        assert (found[name].sure, found[name].right, found[name].decisions) == (pytest.approx(1), 1.0, 2)
        assert found[name].error == pytest.approx(0, abs=1e-6)
    wrong = [WordTree((char,), (0,), ("obj",)) for char in "上海"]
    assert reliability(made_up(), wrong)["relations"].error == pytest.approx(1, abs=1e-6)
    assert set(reliability(made_up("parse-words", 1), gold)) == {"heads", "relations"}


def test_reliability_of_true_probabilities():
    """For trees drawn from the model itself, confidence equals accuracy."""
    model = made_up()
    treebank = draw(model, 1.0, 600)
    found = reliability(model, treebank)
    assert abs(found["heads"].sure - found["heads"].right) < 0.03
    # The probability of a word's boundaries is that of its least certain edge or join, which bounds its own
    # probability.
    assert 0 < found["words"].sure - found["words"].right < 0.1
    sure = replace(model, networks=MadeUp(2, len(LABELS), scale=3.0))
    assert reliability(sure, treebank)["heads"].error > 3 * found["heads"].error


@pytest.fixture
def copied(tmp_path):
    """Copy the bundled model, with links instead of its large files."""
    folder = tmp_path / "model"
    folder.mkdir()
    for path in find_model().iterdir():
        if path.name == CONFIG:
            (folder / CONFIG).write_bytes(path.read_bytes())
        else:
            (folder / path.name).symlink_to(path)
    return folder


def test_the_command(copied, tmp_path, capsys):
    treebank = tiny.write(tmp_path / "dev.conllu")
    cold = Fit(1.0, 0.0, 0.0, 0)
    set_temperatures(copied, Calibration(cold, cold, cold))
    assert cli.run(["calibrate", str(copied), treebank]) == 0
    trees, labels, upos = capsys.readouterr().out.splitlines()
    settings = json.loads((copied / CONFIG).read_text(encoding="utf-8"))
    assert trees.startswith(f"temperature {settings['temperature']}: loss ")
    assert labels.startswith(f"of relations {settings['label_temperature']}: loss ")
    assert upos.startswith(f"of parts of speech {settings['upos_temperature']}: loss ")
    assert 1.0 not in (settings["temperature"], settings["label_temperature"])
    assert cli.run(["calibrate", str(copied), treebank, "--check"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "words", "heads", "relations", "parts"
    ]  # fmt: skip
    assert cli.run(["info", str(copied)]) == 0
    assert (
        f"{settings['temperature']}, of relations {settings['label_temperature']}" in capsys.readouterr().out
    )


@pytest.mark.parametrize("name", ["temperature", "label_temperature", "upos_temperature"])
@pytest.mark.parametrize("value", [0, -1.0, "hot", True])
def test_temperatures_that_are_none(name, value):
    data = Settings(task="parse", labels=LABELS).to_json()
    assert data[name] == 1.0
    del data[name]  # as in the models of earlier versions
    assert getattr(Settings.from_json(data), name) == 1.0
    with pytest.raises(InputError, match="temperature"):
        Settings.from_json({**data, name: value})
