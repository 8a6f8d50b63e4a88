"""Training of the structure scorer: its loss against enumeration, padding, and the whole command on the bundled model."""

from __future__ import annotations

import hashlib
import math
import shutil

import numpy as np
import pytest

import tiny
from oracle import trees
from zishu import cli
from zishu.errors import InputError
from zishu.model.files import MODELS
from zishu.model.inner import best_structures
from zishu.model.runtime import load_model
from zishu.model.vocabulary import Vocabulary
from zishu.parser import load
from zishu.structures import CLASSES, RELATIONS, is_chinese, load_structures
from zishu.tree import projective_trees

torch = pytest.importorskip("torch")

from zishu.train.structure_data import Occurrence  # noqa: E402 (needs torch)
from zishu.train.structure_network import (  # noqa: E402 (needs torch)
    StructureNetwork,
    structure_loss,
)
from zishu.train.structures import _groups, _held_out, _pairs, is_held_out, train_structures  # noqa: E402


def _network(seed: int = 0) -> StructureNetwork:
    torch.manual_seed(seed)
    network = StructureNetwork(torch.randn(50, 6), torch.randn(20, 4), tuple(RELATIONS), hidden=8)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.5)
    return network.eval()


def _inputs(lengths: list[int]) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    size = (len(lengths), max(lengths))
    inside = torch.arange(size[1]) < torch.tensor(lengths)[:, None]
    return {
        "encoded": torch.randn(*size, 6) * inside[..., None],
        "chars": torch.randint(20, size) * inside,
        "pairs": (torch.rand(size) < 0.5)
        * torch.randint(1, len(RELATIONS) + 1, size)
        * (torch.arange(size[1]) < torch.tensor(lengths)[:, None] - 1),
        "lengths": torch.tensor(lengths),
    }


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_the_enumerated_trees_are_those_of_the_oracle(length):
    assert sorted(projective_trees(length)) == sorted(trees(length))


def test_the_loss_is_minus_the_log_probability_of_the_labelled_tree():
    arcs, relations = _network()(**_inputs([3, 3]))
    tree = torch.tensor([2, 5])
    heads = [projective_trees(3)[k] for k in tree.tolist()]
    gold = torch.tensor([[3, 1, 4], [7, 2, 0]])
    found = structure_loss(arcs, relations, tree, gold).tolist()
    for w in range(2):
        weights = {t: math.exp(sum(arcs[w, d, h].item() for d, h in enumerate(t))) for t in trees(3)}
        expected = math.log(weights[heads[w]] / sum(weights.values()))
        expected += sum(relations[w, d, h - 1, gold[w, d]].item() for d, h in enumerate(heads[w]) if h)
        assert found[w] == pytest.approx(-expected, rel=1e-4)


def test_relations_stand_on_their_side_of_the_head_and_add_up_to_one():
    _, relations = _network()(**_inputs([4]))
    probs = relations.exp()
    before = torch.tensor([name in ("att", "adv", "sbj", "pre") for name in RELATIONS])
    for d in range(4):
        for h in range(4):
            if d != h:
                legal = before if d < h else ~before
                assert probs[0, d, h][legal].sum().item() == pytest.approx(1, abs=1e-4)
                assert probs[0, d, h][~legal].max().item() == 0


def test_a_word_does_not_depend_on_the_padding_of_its_batch():
    network, inputs = _network(), _inputs([2, 4, 3])
    arcs, relations = network(**inputs)
    for w, n in enumerate([2, 4, 3]):
        alone = {name: tensor[w : w + 1, :n] for name, tensor in inputs.items() if name != "lengths"}
        own_arcs, own_relations = network(**alone, lengths=inputs["lengths"][w : w + 1])
        assert torch.allclose(own_arcs[0], arcs[w, :n, : n + 1], atol=1e-5)
        assert torch.allclose(own_relations[0].exp(), relations[w, :n, :n].exp(), atol=1e-5)


def test_the_arc_of_a_known_part_gets_a_bonus():
    """In 科学家, the known structure 科 < 学 (`att`) raises this arc, and no other, by its weight in `known`."""
    network, inputs = _network(), _inputs([3])
    number = tuple(RELATIONS).index("att")
    inputs["pairs"] = torch.tensor([[number + 1, 0, 0]])

    def scores() -> torch.Tensor:
        arcs, relations = network(**inputs)
        return arcs[:, :, 1:, None] + relations

    before = scores()
    with torch.no_grad():
        network.known += 2.0
    change = (scores() - before)[0]
    assert change[0, 1, number].item() == pytest.approx(2, abs=1e-4)
    change[0, 1, number] = 0
    assert change.abs().max().item() < 1e-3


def test_the_parts_of_held_out_words_are_held_out():
    forms = [entry.form for entry in load_structures()]
    hidden = _held_out(forms)
    for form in forms:
        if is_held_out(form):
            assert {form, *(form[k : k + 2] for k in range(len(form) - 1))} <= hidden
    assert len(hidden & set(forms)) < len(forms) / 4


def test_training_hides_what_is_known_about_parts():
    """科学家: 科学 is in the lexicon with a relation, or just frequent, or unknown; 火车 is not a part of itself."""
    vocabulary = Vocabulary.build(dict.fromkeys("科学家火车", 1))
    entries = [next(e for e in load_structures() if e.form == form) for form in ("科学家", "火车")]
    occurrences = [Occurrence(entry, np.zeros((len(entry.form), 6), np.float16)) for entry in entries]
    pairs = _pairs({"科学": ("2:att 0",), "火车": ("2:att 0",)})
    two, three = _groups(occurrences, vocabulary, pairs)
    torch.manual_seed(0)
    frequent = len(RELATIONS) + CLASSES
    found = torch.cat([three.sample(torch.tensor([0]))["pairs"] for _ in range(500)])
    assert not found[:, 2].any()  # the last character has no next one
    shares = {number: (found[:, 0] == number).float().mean().item() for number in (0, 1, frequent)}
    assert shares == {
        0: pytest.approx(0.1, abs=0.05),
        1: pytest.approx(0.6, abs=0.08),
        frequent: pytest.approx(0.3, abs=0.08),
    }
    assert three.inputs["pairs"][0, 0] == 1
    assert not two.sample(torch.tensor([0]))["pairs"].any()


def test_a_small_network_has_no_tables_of_characters():
    torch.manual_seed(0)
    network = StructureNetwork(torch.randn(50, 6), None, tuple(RELATIONS), hidden=8).eval()
    inputs = _inputs([3, 2])
    before = network(**inputs)
    network.compact()
    for found, expected in zip(network(**inputs), before, strict=True):
        assert torch.allclose(found.exp(), expected.exp(), atol=0.05)
    inputs["chars"] = inputs["chars"].flip(0)
    assert torch.equal(network(**inputs)[0], network(**_inputs([3, 2]))[0])


def _digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A copy of the bundled model without a structure scorer, its files' digests, and what training returned."""
    folder = tmp_path_factory.mktemp("structures")
    shutil.copytree(MODELS / "default", folder / "model")
    for name in ("structures.onnx", "structures.json"):
        (folder / "model" / name).unlink(missing_ok=True)
    before = _digests(folder / "model")
    treebank = tiny.write(folder / "tiny.conllu")
    (folder / "text.txt").write_text("火车站在图书馆旁边。\n我们吃饭。\n", encoding="utf-8")
    chosen = {"火车", "图书馆", "吃饭", "我们", "上海", "金融业", "喜欢", "老师", "社会主义"}
    entries = load_structures()
    entries = [e for k, e in enumerate(entries) if k % 60 == 0 or e.form in chosen]
    settings = train_structures(
        folder / "model", [*map(type(folder), [treebank]), folder / "text.txt"], entries=entries, epochs=25
    )
    return folder / "model", before, settings, entries


def test_training_leaves_the_parser_as_it_is(trained):
    folder, before, settings, entries = trained
    after = _digests(folder)
    assert {"structures.onnx", "structures.json"} == set(after) - set(before)
    assert all(after[name] == digest for name, digest in before.items())
    assert settings.training["words"] == len({entry.form for entry in entries})
    # Each word by itself, and those that occur in the two files.
    assert settings.training["occurrences"] > settings.training["words"]


def test_the_scorer_has_learned_its_words(trained):
    folder, _, settings, entries = trained
    networks = load_model(folder).networks
    right = 0
    for entry in entries:
        encoded = networks.encode(
            {
                "chars": np.array([[networks.chars.bos, *networks.chars.ids(list(entry.form))]]),
                "lengths": np.array([len(entry.form)]),
                **_more(networks, entry.form),
            }
        )[0, 1:]
        # Without the lexicon: what the network itself has learned.
        scores = networks.structures.score(encoded, [entry.form])
        [inner] = best_structures(*scores, np.array([len(entry.form)]), settings)
        right += (inner.heads, inner.relations) == (entry.heads, entry.relations)
    assert right / len(entries) > 0.9  # a constant prediction gets less than half


def _more(networks, form):
    """Return the inputs that some models read: pairs of characters, and the style."""
    from zishu.model.features import features

    arrays = features([list(form)], networks.chars, networks.bigrams, networks.style)
    return {name: array for name, array in arrays.items() if name in ("bigrams", "styles")}


def test_files_of_a_scorer_that_do_not_fit_are_refused(trained, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(trained[0], folder)
    (folder / "structures.json").write_text('{"format": 2}', encoding="utf-8")
    with pytest.raises(InputError, match=r"structures\.json: 'relations'"):
        load_model(folder)
    (folder / "structures.json").unlink()
    with pytest.raises(InputError, match=r"structures\.json: no such file"):
        load_model(folder)
    shutil.copy(trained[0] / "structures.json", folder)
    (folder / "structures.onnx").write_bytes(b"x")
    with pytest.raises(InputError, match=r"structures\.onnx: not an? "):
        load_model(folder)


def test_a_parser_returns_structures_or_latent_trees(trained):
    folder = trained[0]
    parser, latent = load(folder), load(folder, inner="latent")
    text = "科学家在火车站用iPhone吃饭，2024年。"
    found, before = parser(text)[0], latent(text)[0]
    same = ("form", "start", "end", "upos", "head", "deprel", "boundary_prob", "head_prob", "label_prob")
    for ours, theirs in zip(found, before, strict=True):
        assert [getattr(ours, name) for name in same] == [getattr(theirs, name) for name in same]
        assert theirs.char_heads is not None
        assert theirs.char_rels is None
        assert theirs.structure_prob is None
        if len(ours.form) == 1:
            assert (ours.char_heads, ours.char_rels) == ((0,), ("root",))
        elif is_chinese(ours.form):
            assert len(ours.char_rels) == len(ours.char_heads) == len(ours.form)
            assert ours.char_rels[ours.char_heads.index(0)] == "root"
            assert 0 < ours.structure_prob <= 1
        else:
            assert (ours.char_heads, ours.char_rels, ours.structure_prob) == (None, None, None)
    words = {word.form: word for word in found}
    assert (words["吃饭"].char_heads, words["吃饭"].char_rels) == ((0, 1), ("root", "obj"))
    # The arc that enters a word ends in the root character of its structure.
    tree = found.char_tree
    assert tree.labels[text.index("吃")] == words["吃饭"].deprel
    assert tree.labels[text.index("饭")] == "INTRA"
    assert parser(text, inner="latent")[0].words == before.words
    assert parser(text, confidence=False)[0][0].structure_prob is None
    ranked = parser.k_best(text, 2)[0]
    assert [word.char_rels for word in ranked[0]] == [word.char_rels for word in found]


def test_a_model_without_a_scorer_has_latent_trees(trained, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(trained[0], folder, ignore=shutil.ignore_patterns("structures.*"))
    text = "我们在火车站吃饭。"
    assert load(folder)(text)[0].words == load(trained[0], inner="latent")(text)[0].words


def test_unknown_inner_trees_are_refused(trained):
    with pytest.raises(InputError, match="choose from structure, latent"):
        load(trained[0])("好", inner="gold")


def test_the_command_prints_how_words_are_formed(trained, capsys):
    assert cli.run(["structure", "金融业", "吃饭", "iPhone", "--model", str(trained[0])]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "金融业: [[金 融] 业] attribute  2:att 3:att 0  1.00"
    assert second.startswith("吃饭: [吃 饭] object  0 1:obj  ")
    assert third.startswith("iPhone: no structure")


def test_the_command_needs_a_scorer(trained, tmp_path, capsys):
    folder = tmp_path / "model"
    shutil.copytree(trained[0], folder, ignore=shutil.ignore_patterns("structures.*"))
    assert cli.run(["structure", "吃饭", "--model", str(folder)]) == 2
    assert "train-structures" in capsys.readouterr().err


def test_parse_has_options_for_inner_trees_and_granularity(trained, capsys):
    def run(*options: str) -> str:
        arguments = ["parse", "我们吃饭。", "--model", str(trained[0]), "--format", "conllu", *options]
        assert cli.run(arguments) == 0
        return capsys.readouterr().out

    assert "CharHeads=0,1|CharRels=root,obj|" in run()
    assert "CharRels" not in run("--inner", "latent")
    assert run("--granularity", "coarse") == run()  # nothing to join here
