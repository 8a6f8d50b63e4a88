"""The objective of the paper's graph-based ancestors: every character chooses its head by itself."""

from __future__ import annotations

import math

import pytest
from test_partial_loss import LABEL, LABELS, make_network, make_outputs

from zishu.train.config import StructureConfig
from zishu.train.data import TrainingTree, collate, make_example
from zishu.tree import INTRA, WordTree

# 上海 depends on 计划; its characters are chains to the right.
TREE = WordTree(("上海", "计划"), (2, 0), (LABEL, "root"))
LEFTWARD = {1: (2, INTRA), 2: (4, LABEL), 3: (4, INTRA), 4: (0, "root")}


@pytest.mark.parametrize("roles", [1, 2])
def test_the_loss_is_a_softmax_over_heads_and_the_cross_entropy_of_labels(roles):
    network = make_network(roles)
    network.objective = "head-selection"
    structure = StructureConfig(policy="leftward", roles=roles)
    targets = collate([make_example(TrainingTree(TREE), network, structure)], network.device)
    outputs = make_outputs(4, roles)
    inter = outputs["inter"][0].tolist()
    intra = outputs.get("intra", outputs["inter"])[0].tolist()
    expected = 0.0
    for d, (head, label) in LEFTWARD.items():
        choices = [inter[d][h] for h in range(5) if h != d]
        if roles == 2:
            choices += [intra[d][h] for h in range(1, 5) if h != d]
        right = (intra if label == INTRA else inter)[d][head]
        labels = network.label_scorer(outputs["label_dep"][:, d], outputs["label_head"][:, head])[0].tolist()
        expected += math.log(sum(map(math.exp, choices))) - right - labels[LABELS.index(label)]
    assert network._selection_loss(outputs, targets).item() == pytest.approx(expected, abs=1e-9)
