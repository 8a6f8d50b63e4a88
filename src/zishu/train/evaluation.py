"""Score a network in training through the same interface as users' models.

`TorchNetworks` replaces the ONNX networks, so a network in training is an ordinary `Model` and parses with the code
that users run. It uses the paper's decoding, so that scores are comparable with its tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from zishu import metrics
from zishu.model.decode import paper_decoding
from zishu.model.features import features, pooling
from zishu.model.model import Model, parse_trees
from zishu.model.outputs import Outputs
from zishu.train.export import settings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zishu.chart import Floats
    from zishu.metrics import Evaluation
    from zishu.model.networks import Sentences
    from zishu.train.data import Inventory
    from zishu.train.systems import Network
    from zishu.tree import WordTree


@dataclass(frozen=True, slots=True, eq=False)
class TorchNetworks:
    """Wrap a network in training as a `zishu.model.networks.Scorer`."""

    network: Network
    inventory: Inventory
    style: int | None = None

    @torch.inference_mode()
    def run(self, sentences: Sentences, word_lengths: Sequence[Sequence[int]] | None = None) -> Outputs:
        """Return the scores of one batch; a word-level parser needs `word_lengths`."""
        device = self._device
        arrays = features(sentences, self.inventory.chars, self.inventory.bigrams, self.style)
        inputs = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        pool = None if word_lengths is None else torch.from_numpy(pooling(word_lengths)).to(device)
        raw = self.network(
            inputs["chars"], inputs.get("bigrams"), inputs["lengths"], pool, inputs.get("styles")
        )
        absent = self.network.settings.absent(self.style)
        known = {name: value.cpu().numpy() for name, value in raw.items() if name not in absent}
        return Outputs.from_mapping(known)

    @torch.inference_mode()
    def score_labels(self, dependents: Floats, heads: Floats) -> Floats:
        """Return the log-probabilities `[m, labels]` of the labels of m arcs."""
        ends = (torch.from_numpy(np.ascontiguousarray(end)).to(self._device) for end in (dependents, heads))
        scored: Floats = self.network.label_scorer(*ends).cpu().numpy()
        return scored

    @property
    def structures(self) -> None:
        """Return None: a structure scorer is trained later, for a finished model."""

    def in_style(self, number: int) -> TorchNetworks:
        """Return the same network for the style with this number."""
        return replace(self, style=number)

    @property
    def _device(self) -> torch.device:
        return next(self.network.parameters()).device


def evaluate_network(
    network: Network,
    inventory: Inventory,
    gold: Sequence[WordTree],
    *,
    given_words: bool = False,
    style: str = "",
) -> Evaluation:
    """Score the network on gold trees: from raw characters or, if its task or the caller requires it, gold words."""
    settings = settings_of(network)
    model = Model(settings, TorchNetworks(network, inventory)).in_style(style or None)
    training = network.training
    network.eval()
    decoding = paper_decoding(settings, given_words=given_words)
    predicted = parse_trees(model, gold, given_words=given_words, decoding=decoding)
    network.train(training)
    return metrics.evaluate(zip(gold, predicted, strict=True))
