"""A student approaches its teacher's distribution over trees."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import oracle
import tiny
from raw_sentences import all_chars
from tiny_training import make_config
from zishu.chart import TreeDistribution
from zishu.errors import ConfigError
from zishu.model.runtime import load_model
from zishu.train.loop import train
from zishu.train.teacher import tree_divergence


@pytest.mark.parametrize("root_as_head", [True, False])
def test_the_divergence_of_trees_is_that_of_enumeration(root_as_head):
    random = np.random.default_rng(7)
    n = 4
    theirs, own = random.normal(size=(2, 2, 1, n + 1, n + 1))
    found = TreeDistribution(theirs[0], [n], theirs[1], root_as_head=root_as_head).marginals()
    divergence = tree_divergence(
        torch.tensor(own[0]),
        torch.tensor(own[1]),
        torch.tensor([n]),
        (theirs[0], theirs[1], found),
        root_as_head=root_as_head,
    )

    trees = oracle.typed_trees(n, None, root_as_head=root_as_head)
    p, q = (
        np.array([oracle.score(tree, scores[0][0], scores[1][0]) for tree in trees])
        for scores in (theirs, own)
    )
    p, q = (scores - oracle.log_sum_exp(scores) for scores in (p, q))
    assert len(trees) > 100
    assert divergence.item() == pytest.approx(float((np.exp(p) * (p - q)).sum()), abs=1e-9)


def test_the_divergence_of_equal_distributions_is_zero_and_so_is_its_gradient():
    random = np.random.default_rng(3)
    inter, intra = random.normal(size=(2, 3, 7, 7))
    lengths = [6, 2, 4]
    found = TreeDistribution(inter, lengths, intra).marginals()
    own = [torch.tensor(scores, requires_grad=True) for scores in (inter, intra)]
    divergence = tree_divergence(*own, torch.tensor(lengths), (inter, intra, found), root_as_head=True)
    divergence.sum().backward()
    assert divergence.detach().numpy() == pytest.approx(0, abs=1e-9)
    for scores in own:
        assert scores.grad.abs().max() < 1e-9


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("treebank")
    tiny.write(folder / "all.conllu")
    tiny.write(folder / "projective.conllu")
    (folder / "text.txt").write_text(
        "\n\n".join("".join(tree.forms) for tree in tiny.TREES) + "\n", encoding="utf-8"
    )
    return folder


def in_styles(folder):
    files = {"a": str(folder / "all.conllu"), "b": str(folder / "all.conllu")}
    return {"train": files, "dev": files}


def test_a_student_learns_from_its_teacher_alone(treebank, tmp_path):
    train(make_config(treebank, tmp_path / "teacher", data=in_styles(treebank)))
    # Of the treebank the student sees one sentence in a million; the text has no trees.
    data = {**in_styles(treebank), "weights": {"a": 1e-6, "b": 1e-6}}
    text = {"a": str(treebank / "text.txt"), "b": str(treebank / "text.txt")}
    teacher = {"model": str(tmp_path / "teacher" / "model"), "text": text}
    scores = train(make_config(treebank, tmp_path / "student", data=data, teacher=teacher))
    assert scores["dev-a.lf"] == scores["dev-b.lf"] == 100
    student = load_model(tmp_path / "student" / "model")
    teacher = load_model(tmp_path / "teacher" / "model")
    units = all_chars(tree.chars for tree in tiny.TREES)
    # Not only the trees are the same, but also the probabilities.
    own, theirs = ([a.prob for a in model.parse(units, confidence=True)] for model in (student, teacher))
    assert own == pytest.approx(theirs, abs=0.1)


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        ({"model": "somewhere"}, "must be set together"),
        ({"text": "somewhere.txt"}, "must be set together"),
        ({"model": "somewhere", "text": {"hk": "x.txt"}}, "teacher.text: style 'hk' is not in data.train"),
    ],
)
def test_a_teacher_needs_text_in_known_styles(teacher, message, treebank, tmp_path):
    with pytest.raises(ConfigError, match=message):
        make_config(treebank, tmp_path, teacher=teacher)


def test_a_teacher_with_one_role_is_refused(treebank, tmp_path):
    structure = {"policy": "latent", "roles": 1}
    train(make_config(treebank, tmp_path / "one", structure=structure, optimiser={"epochs": 1}))
    teacher = {"model": str(tmp_path / "one" / "model"), "text": str(treebank / "text.txt")}
    with pytest.raises(ConfigError, match="expected a character-level parser with two roles"):
        train(make_config(treebank, tmp_path / "two", teacher=teacher))


def test_a_teacher_with_other_labels_is_refused(treebank, tmp_path):
    train(make_config(treebank, tmp_path / "one", optimiser={"epochs": 1}))
    tiny.write(treebank / "some.conllu", tiny.TREES[:1])
    teacher = {"model": str(tmp_path / "one" / "model"), "text": str(treebank / "text.txt")}
    data = {"train": str(treebank / "some.conllu"), "dev": str(treebank / "some.conllu")}
    with pytest.raises(ConfigError, match=r"labels differ from data\.train: "):
        train(make_config(treebank, tmp_path / "two", data=data, teacher=teacher))
