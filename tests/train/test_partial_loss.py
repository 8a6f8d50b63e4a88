"""The loss of a partial tree is minus the log-probability of all that agrees with it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

import oracle
from forests import KINDS, LABEL, agrees, known
from zishu.errors import InputError
from zishu.model.settings import Settings
from zishu.model.vocabulary import Vocabulary
from zishu.partial import KnownWord
from zishu.train.config import ScorerConfig, StructureConfig
from zishu.train.data import TrainingTree, collate, make_example
from zishu.train.encoders import Encoder
from zishu.train.network import Network
from zishu.tree import INTRA

LABELS = (INTRA, "root", LABEL, "other")
CPU = torch.device("cpu")


def make_network(roles=2, *, root_as_head=True):
    vocabulary = Vocabulary.build(dict.fromkeys("上海计划发展", 1))
    settings = Settings("parse", roles=roles, root_as_head=root_as_head, labels=LABELS, upos=("NOUN", "VERB"))
    scorer = ScorerConfig(arc=4, label=3, dropout=0.0)
    torch.manual_seed(0)
    encoder = Encoder()
    encoder.width = 5
    network = Network(settings, vocabulary, None, encoder, scorer=scorer).double()
    nn.init.normal_(network.label_scorer.weight)
    return network


def example_of(partial, network):
    return make_example(TrainingTree(partial), network, StructureConfig())


def make_outputs(n, roles, seed=1):
    random = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float64).requires_grad_()

    outputs = {"inter": normal(1, n + 1, n + 1)}
    if roles == 2:
        outputs["intra"] = normal(1, n + 1, n + 1)
    return {**outputs, "label_dep": normal(1, n + 1, 3), "label_head": normal(1, n + 1, 3)}


def by_enumeration(network, outputs, partial, *, root_as_head):
    """Add up all labelled trees that agree with what is known, and divide by all labelled trees."""
    n = len(partial.chars)
    inter = outputs["inter"][0].tolist()
    intra = outputs.get("intra", outputs["inter"])[0].tolist()
    labels = {
        (d, h): network.label_scorer(outputs["label_dep"][:, d], outputs["label_head"][:, h])[0].tolist()
        for d, h in itertools.product(range(1, n + 1), range(n + 1))
    }
    at = {word.span: word for word in partial.words}
    right = []
    for tree in oracle.typed_trees(n, None, root_as_head=root_as_head):
        if not agrees(tree, partial):
            continue
        total = oracle.score(tree, inter, intra)
        for d, (h, inside) in enumerate(zip(*tree, strict=True), start=1):
            word = next((word for span, word in at.items() if d in range(*span)), None)
            allowed = ["root"] if h == 0 else [LABEL, "other"]
            if inside:
                allowed = [INTRA]
            elif word is not None and word.deprel is not None:
                allowed = [word.deprel]
            total += math.log(sum(math.exp(labels[d, h][LABELS.index(name)]) for name in allowed))
        right.append(total)
    if network.settings.roles == 2:
        logz = oracle.log_partition(inter, n, intra, root_as_head=root_as_head)
    else:
        logz = oracle.log_partition(inter, n)
    return logz - oracle.log_sum_exp(right)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("roles", "root_as_head"), [(2, True), (2, False), (1, True)])
def test_the_loss_is_that_of_enumeration(kind, roles, root_as_head):
    network = make_network(roles, root_as_head=root_as_head)
    partial = KINDS[kind]
    batch = collate([example_of(partial, network)], CPU)
    outputs = make_outputs(4, roles)
    loss = network._tree_loss(outputs, batch)
    expected = by_enumeration(network, outputs, partial, root_as_head=root_as_head)
    assert loss.item() == pytest.approx(expected, abs=1e-9)
    assert loss.item() > 0


@pytest.mark.parametrize(
    "kind", ["nothing", "some words", "a relation without its head", "a head in the open"]
)
def test_gradients_are_those_of_finite_differences(kind):
    network = make_network()
    batch = collate([example_of(KINDS[kind], network)], CPU)
    outputs = make_outputs(4, 2)
    names = list(outputs)

    def loss(*tensors):
        return network._tree_loss(dict(zip(names, tensors, strict=True)), batch)

    assert torch.autograd.gradcheck(loss, tuple(outputs.values()), eps=1e-5, atol=1e-6)


def test_sentences_with_different_knowledge_share_a_batch():
    network = make_network()
    examples = [example_of(partial, network) for partial in KINDS.values()]
    together = collate(examples, CPU)
    single = make_outputs(4, 2)
    outputs = {name: tensor.repeat(len(examples), 1, 1) for name, tensor in single.items()}
    losses = network._tree_loss(outputs, together).tolist()
    for loss, example in zip(losses, examples, strict=True):
        alone = network._tree_loss(single, collate([example], CPU)).item()
        assert loss == pytest.approx(alone, abs=1e-9)


def test_tags_count_where_they_are_known():
    network = make_network()
    example = example_of(KINDS["tags only"], network)
    assert example.columns.tolist() == [[-1, 0, 0, -1, -1]]
    assert example.shares.tolist() == [0, 0.5, 0.5, 0, 0]


def test_what_no_tree_agrees_with_is_named():
    network = make_network()
    # Neither of the two words is the root, and there is no third.
    words = [KnownWord((1, 3), None, LABEL), KnownWord((3, 5), None, "other")]
    with pytest.raises(InputError, match="no projective tree agrees"):
        example_of(known("上海计划", "+|+", *words), network)
    with pytest.raises(InputError, match="label 'strange' is not in"):
        example_of(known("上海计划", "+|+", KnownWord((1, 3), None, "strange")), network)


def test_knowing_more_costs_more():
    network = make_network()
    outputs = make_outputs(4, 2)
    kinds = ["nothing", "a boundary", "some words", "all words", "a head", "everything"]
    batch = [collate([example_of(KINDS[kind], network)], CPU) for kind in kinds]
    losses = [network._tree_loss(outputs, one).item() for one in batch]
    assert np.all(np.diff(losses) > 0)
