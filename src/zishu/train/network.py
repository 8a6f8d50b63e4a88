"""Define the network of every system of the paper, and its loss.

One class serves them all; the systems are settings:

    segmenter               task "segment": emissions of BMES tags, a linear-chain CRF
    treecrf                 task "parse-words": units are words, an untyped chart
    latent, leftward, ...   task "parse", one role: an untyped chart; the forest defines the correct structures
    latent-c2f              task "parse", two roles: a typed chart

The loss is minus the log-likelihood of the labelled forest (Appendix A.2): log-probabilities of labels are added to the
scores of the forest's arcs before they are summed, so that label loss and tree loss are one number. Labels are scored
for the arcs that the forest allows, nowhere else. The forest of a partly known sentence has every tree that agrees with
what is known (`zishu.partial`), and the loss is the same.

The objective "head-selection" normalises over the heads of each unit instead of over trees: with leftward structures
that is the parser of Yan and others (2020), with annotated structures and parts of speech that of Wu and Zhang (2021).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from zishu.chart.chain import word_tags
from zishu.forest import ANY
from zishu.model.features import features, pooling
from zishu.model.labels import legal_labels
from zishu.train.data import collate, pad
from zishu.train.scorer import ArcBiaffine, ChainCRF, LabelBiaffine, Projection
from zishu.train.torch_chart import log_partition
from zishu.transitions import ACTIONS, FEATURES, LEAK, oracle
from zishu.tree import INTRA

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from zishu.model.settings import Settings
    from zishu.model.vocabulary import Vocabulary
    from zishu.train.config import ScorerConfig, TreeObjective
    from zishu.train.data import Example, Targets
    from zishu.train.encoders import Encoder


class Network(nn.Module):
    """Map characters to scores: this network is trained and exported. It carries its vocabularies."""

    legal: Tensor

    def __init__(
        self,
        settings: Settings,
        vocabulary: Vocabulary,
        bigram_vocabulary: Vocabulary | None,
        encoder: Encoder,
        *,
        scorer: ScorerConfig,
        objective: TreeObjective = "tree-crf",
    ) -> None:
        super().__init__()
        self.settings = replace(
            settings,
            bigrams=bigram_vocabulary is not None,
            window=encoder.longest or 0,
            window_overlap=encoder.overlap,
        )
        self.objective = objective
        self.vocabulary = vocabulary
        self.bigram_vocabulary = bigram_vocabulary
        # A forest needs a number for INTRA even if it has no such arcs.
        self.label_numbers = _numbers(dict.fromkeys((*settings.labels, INTRA)))
        self.tag_numbers = {column: _numbers(tags) for column, tags in settings.tags.items()}
        width = encoder.width
        self.encoder = encoder
        if not settings.can.parses:
            self.emissions = nn.Linear(width, 4)
            self.crf = ChainCRF()
        else:
            if settings.beam:
                self.states = nn.Linear(width, FEATURES * scorer.label)
                self.state_dropout = nn.Dropout(scorer.dropout)
                self.actions = nn.Linear(scorer.label, ACTIONS)
            else:
                self.arc_dep = Projection(width, scorer.arc, dropout=scorer.dropout)
                self.arc_head = Projection(width, scorer.arc, dropout=scorer.dropout)
                self.arcs = ArcBiaffine(scorer.arc, roles=settings.roles)
            self.label_dep = Projection(width, scorer.label, dropout=scorer.dropout)
            self.label_head = Projection(width, scorer.label, dropout=scorer.dropout)
            self.label_scorer = LabelBiaffine(scorer.label, len(settings.labels))
            for column, tags in settings.tags.items():
                self.add_module(column, nn.Linear(width, len(tags)))
            # The labels that an arc from ROOT, and any other arc between words, may have; not weights.
            legal = torch.from_numpy(np.stack(legal_labels(settings.labels)[:2]))
            self.register_buffer("legal", legal, persistent=False)
        self.tag_weights = {column: scorer.weight(column) for column in settings.tags}

    def forward(self, encoded: Tensor, pool: Tensor | None = None) -> dict[str, Tensor]:
        """Return the outputs for encoded characters (`zishu.model.outputs`): scores of arcs, ends of labelled arcs, tags.

        The encoder is not part of this, because it is exported separately.
        """
        if not self.settings.can.parses:
            return {"tags": self.emissions(encoded)}
        if pool is not None:
            encoded = pool @ encoded
        if self.settings.beam:
            outputs = {"states": self.states(encoded)}
        else:
            scores = self.arcs(self.arc_dep(encoded), self.arc_head(encoded))
            outputs = dict(zip(("inter", "intra"), scores, strict=False))
        outputs["label_dep"] = self.label_dep(encoded)
        outputs["label_head"] = self.label_head(encoded)
        for column in self.tag_weights:
            outputs[column] = torch.log_softmax(self.get_submodule(column)(encoded), dim=-1)
        return outputs

    @property
    def device(self) -> torch.device:
        """Return the device of the weights."""
        return next(self.parameters()).device

    def run(
        self,
        sentences: Sequence[Sequence[str]],
        style: int | Sequence[int] | None = None,
        word_lengths: Sequence[Sequence[int]] | None = None,
    ) -> dict[str, Tensor]:
        """Return the outputs for the characters of sentences in one style or in several.

        A word-level network needs `word_lengths`. Outputs are in single precision, whatever the precision of the matrix
        products, because they enter sums over trees.
        """
        arrays: dict[str, NDArray[Any]] = {**features(sentences, self.vocabulary, self.bigram_vocabulary)}
        if style is not None:
            arrays["styles"] = np.full(len(sentences), style)
        inputs = {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}
        pool = None if word_lengths is None else torch.from_numpy(pooling(word_lengths)).to(self.device)
        outputs: dict[str, Tensor] = self(self.encoder(**inputs), pool)
        return {name: output.float() for name, output in outputs.items()}

    def loss(self, examples: Sequence[Example]) -> Tensor:
        """Return the negative log-likelihood of a batch, per unit."""
        outputs = self.run(
            [example.chars for example in examples],
            [example.style for example in examples] if self.settings.styles else None,
            [example.word_lengths for example in examples] if self.settings.can.units == "words" else None,
        )
        if not self.settings.can.parses:
            return self._segmentation_loss(outputs["tags"][:, 1:], examples)
        targets = collate(examples, self.device)
        units = targets.units.sum()
        of_trees = {
            "tree-crf": self._tree_loss,
            "head-selection": self._selection_loss,
            "transition": self._transition_loss,
        }[self.objective]
        loss = of_trees(outputs, targets).sum() / units
        for (column, weight), tags in zip(self.tag_weights.items(), targets.columns.unbind(1), strict=True):
            # Minus the mean of log p(tag) over the characters of each word whose tag is known.
            gold = outputs[column].gather(2, tags.clamp(min=0)[..., None]).squeeze(2)
            loss = loss - weight * (gold * targets.shares * (tags >= 0)).sum() / units
        return loss

    def _segmentation_loss(self, emissions: Tensor, examples: Sequence[Example]) -> Tensor:
        """Return -log p(BMES tags) per character."""
        lengths = torch.tensor([example.length for example in examples], device=self.device)
        tags = pad([word_tags(example.word_lengths) for example in examples], 0)
        return self.crf.loss(emissions, torch.from_numpy(tags).to(self.device), lengths).sum() / lengths.sum()

    def _tree_loss(self, outputs: dict[str, Tensor], targets: Targets) -> Tensor:
        """Return -log p(forest) of every sentence (Appendix A.2)."""
        units, root_as_head = targets.units, self.settings.root_as_head
        trees = log_partition(outputs["inter"], units, outputs.get("intra"), root_as_head=root_as_head)
        inter, intra = self._forest_scores(outputs, targets)
        return trees - log_partition(inter, units, intra, targets.gaps, root_as_head=root_as_head)

    def _selection_loss(self, outputs: dict[str, Tensor], targets: Targets) -> Tensor:
        """Return -log p(head and label | unit), summed over the units of each sentence.

        Every unit chooses its head, and with two roles the role of the arc, by one softmax.
        """
        inter = outputs["inter"]
        places = torch.arange(inter.shape[1], device=inter.device)
        present = places <= targets.units[:, None]
        dependents = (present & (places >= 1)).nonzero(as_tuple=True)
        heads = present[:, None, :] & (places[:, None] != places)
        scores = [inter.masked_fill(~heads, -torch.inf)]
        if "intra" in outputs:
            scores.append(outputs["intra"].masked_fill(~(heads & (places > 0)), -torch.inf))
        everything = torch.cat(scores, dim=2)[dependents].logsumexp(dim=1)
        right = torch.cat(self._forest_scores(outputs, targets), dim=2)[dependents].logsumexp(dim=1)
        losses = everything - right
        return losses.new_zeros(len(inter)).index_add(0, dependents[0], losses)

    def _transition_loss(self, outputs: dict[str, Tensor], targets: Targets) -> Tensor:
        """Return -log p(action | state) along the oracle's path plus -log p(label | arc), summed over a sentence."""
        device = outputs["states"].device
        sentences, places, chosen, legal = [], [], [], []
        columns = (targets.units, targets.heads[:, 1:, 0], targets.intra[:, 1:, 0])
        for b, (n, heads, intra) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            for state, action in oracle(heads[:n], intra[:n]):
                possible = state.legal(n)
                sentences.append(b)
                places.append(state.features(n))
                chosen.append(action)
                legal.append([a in possible for a in range(ACTIONS)])
        rows = torch.tensor(sentences, device=device)
        by_place = outputs["states"].view(*outputs["states"].shape[:2], FEATURES, -1)
        at = torch.tensor(places, device=device)
        hidden = by_place[rows[:, None], at, torch.arange(FEATURES, device=device)].sum(1)
        scores = self.actions(self.state_dropout(nn.functional.leaky_relu(hidden, LEAK)))
        scores = scores.masked_fill(~torch.tensor(legal, device=device), -torch.inf)
        logp = torch.log_softmax(scores, dim=1)[torch.arange(len(rows)), torch.tensor(chosen, device=device)]
        labels = self._label_scores(outputs, targets).masked_fill(targets.heads < 0, 0.0).sum((1, 2))
        return -labels.index_add(0, rows, logp)

    def _forest_scores(self, outputs: dict[str, Tensor], targets: Targets) -> tuple[Tensor, Tensor]:
        """Return the arc scores plus the log-probabilities of their labels; arcs outside the forest are -inf."""
        inter = outputs["inter"]
        intra = outputs.get("intra", inter)
        label = self._label_scores(outputs, targets)
        forbidden = torch.full_like(inter, -torch.inf)
        forests = []
        for scores, chosen in ((inter, ~targets.intra), (intra, targets.intra)):
            b, d, k = torch.nonzero(chosen & (targets.heads >= 0), as_tuple=True)
            h = targets.heads[b, d, k]
            forests.append(forbidden.index_put((b, d, h), scores[b, d, h] + label[b, d, k]))
        return forests[0], forests[1]

    def _label_scores(self, outputs: dict[str, Tensor], targets: Targets) -> Tensor:
        """Return log p(gold label | arc) for every allowed arc, `[b, u+1, k]`; ANY stands for all legal labels together."""
        heads = targets.heads.clamp(min=0)
        sentence = torch.arange(len(heads), device=heads.device)[:, None, None]
        ends = outputs["label_head"][sentence, heads]
        by_label = self.label_scorer.of_heads(outputs["label_dep"].flatten(0, 1), ends.flatten(0, 1))
        labels = targets.labels.flatten(0, 1)
        gold = by_label.gather(2, labels.clamp(min=0)[..., None]).squeeze(2)
        unknown = labels == ANY
        if unknown.any():
            legal = self.legal[(heads.flatten(0, 1)[unknown] > 0).long()]
            gold = gold.masked_scatter(
                unknown, by_label[unknown].masked_fill(~legal, -torch.inf).logsumexp(1)
            )
        return gold.view(heads.shape)


def _numbers(symbols: Iterable[str]) -> dict[str, int]:
    return {symbol: number for number, symbol in enumerate(symbols)}
