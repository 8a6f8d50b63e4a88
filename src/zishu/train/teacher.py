"""Learn from the probabilities that another parser assigns to raw text (`[teacher]` of a configuration).

A tree predicted by a teacher does not show its uncertainty. Here a student is trained towards the teacher's whole
distribution instead. For trees this is exact: the divergence of the student's distribution q from the teacher's p

    KL(p || q) = log Z_q - E_p[score_q] - (log Z_p - E_p[score_p])

needs only the probabilities of arcs under p, because scores are sums over arcs. Its derivative with respect to an arc's
score is the student's probability of the arc minus the teacher's. The distributions over the labels of an arc are weighted
by the arc's probability; arcs below `PROBABLE` are ignored. Tags count once per character.

The teacher is any model folder that parses characters with two roles, or an ensemble of these. It runs again in every
epoch, so nothing is stored. Cost per sentence: the teacher's networks and one chart, then that of a training sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from zishu.errors import ConfigError
from zishu.model.batch import no_gaps
from zishu.model.files import find_model
from zishu.model.model import Model
from zishu.model.runtime import load_model
from zishu.model.scores import tree_distribution
from zishu.reading import read_lines
from zishu.text import characters
from zishu.train.config import Config, by_style
from zishu.train.data import Example
from zishu.train.torch_chart import log_partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from zishu.chart import Floats, Marginals
    from zishu.model.outputs import Outputs
    from zishu.model.settings import Settings
    from zishu.train.network import Network

PROBABLE: Final = 0.02
_LONGEST: Final = 128  # number of characters; longer sentences are skipped


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """Hold a teaching model, and the mapping of its labels and tags to the student's."""

    model: Model
    labels: NDArray[np.int64]  # for each label of the student its number in the teacher, -1 if it is new
    tags: dict[str, NDArray[np.int64]]  # the same for the tag columns that both know

    def loss(self, network: Network, sentences: Sequence[Example]) -> Tensor:
        """Return the divergence of a network from the teacher on sentences of one style, per character."""
        chars = [sentence.chars for sentence in sentences]
        styles = network.settings.styles
        style = sentences[0].style if styles else None
        model = self.model if style is None else self.model.in_style(styles[style])
        lengths = np.array([len(sentence) for sentence in chars])
        outputs = network.run(chars, style)
        given = model.networks.run(chars)
        assert given.inter is not None
        assert given.intra is not None
        gaps = no_gaps(*given.inter.shape[:2])
        trees = tree_distribution(given, lengths, model.settings, gaps)
        found = trees.marginals()
        loss = tree_divergence(
            outputs["inter"],
            outputs["intra"],
            torch.from_numpy(lengths).to(network.device),
            (given.inter, given.intra, found),
            root_as_head=network.settings.root_as_head,
        ).sum()
        loss = loss + self._labels(network, outputs, given, found)
        inside = np.arange(given.inter.shape[1]) <= lengths[:, None]
        inside[:, 0] = False
        for column, numbers in self.tags.items():
            theirs = getattr(given, column)
            if theirs is not None:  # the style has such tags
                found_tags = torch.from_numpy(theirs[..., numbers][inside]).to(network.device)
                divergence = _divergence(found_tags, outputs[column][torch.from_numpy(inside)]).sum()
                loss = loss + network.tag_weights[column] * divergence
        return loss / int(lengths.sum())

    def _labels(
        self,
        network: Network,
        outputs: dict[str, Tensor],
        given: Outputs,
        found: Marginals,
    ) -> Tensor:
        """Return the divergence of the distributions over labels, weighted by the probabilities of the arcs."""
        assert given.labels is not None
        assert found.intra is not None
        probable = found.inter + found.intra
        b, d, h = np.nonzero(probable >= PROBABLE)
        theirs = given.labels(b, d, h)[:, self.labels]
        theirs[:, self.labels < 0] = -np.inf
        device = outputs["inter"].device
        sentence, dependent, head = (torch.from_numpy(part).to(device) for part in (b, d, h))
        own = network.label_scorer(
            outputs["label_dep"][sentence, dependent], outputs["label_head"][sentence, head]
        )
        weight = torch.tensor(probable[b, d, h], device=device)
        return (weight * _divergence(torch.from_numpy(theirs).to(device), own)).sum()


def tree_divergence(
    inter: Tensor,
    intra: Tensor,
    lengths: Tensor,
    teacher: tuple[Floats, Floats, Marginals],
    *,
    root_as_head: bool,
) -> Tensor:
    """Return KL(teacher || student) over the typed trees of every sentence, with gradients for the student.

    `teacher` has the scores of inter-word and intra-word arcs, and their marginals.
    """
    *scores, found = teacher
    assert found.intra is not None
    divergence: Tensor = log_partition(inter, lengths, intra, root_as_head=root_as_head)
    divergence = divergence - torch.tensor(found.logz, device=inter.device)
    for own, theirs, probable in ((inter, scores[0], found.inter), (intra, scores[1], found.intra)):
        weight = torch.tensor(probable, dtype=torch.float64, device=own.device)
        known = torch.tensor(theirs, dtype=torch.float64, device=own.device)
        divergence = divergence - (weight * (own.double() - known)).sum((1, 2))
    return divergence


def load_teacher(config: Config, student: Settings) -> Teacher | None:
    """Load the teacher of a configuration, if any, for a student with these settings."""
    if not config.teacher.model:
        return None
    model = load_model(find_model(config.teacher.model))
    settings = model.settings
    if not isinstance(model, Model) or settings.roles != 2 or settings.beam:
        raise ConfigError(
            f"teacher.model: {config.teacher.model}: expected a character-level parser with two roles and a chart"
        )
    if student.roles != 2 or student.beam:
        raise ConfigError(
            "teacher.model: only a character-level parser with two roles can learn from a teacher"
        )
    styles = set(by_style(config.teacher.text)) if settings.styles else set(student.styles)
    if not styles <= set(settings.styles):
        raise ConfigError(
            f"teacher.model: {config.teacher.model} has the styles {settings.styles}, data.train {student.styles}"
        )

    def numbers(
        name: str, theirs: Sequence[str], own: Sequence[str], *, more: bool = False
    ) -> NDArray[np.int64]:
        """Return the teacher's number of each name of the student; only with `more` may the student know others."""
        if set(theirs) - set(own) or (set(own) - set(theirs) and not more):
            different = ", ".join(sorted(set(theirs) ^ set(own)))
            raise ConfigError(
                f"teacher.model: {config.teacher.model}: {name} differ from data.train: {different}"
            )
        return np.array([theirs.index(symbol) if symbol in theirs else -1 for symbol in own])

    # A student that started from its teacher may have learned more relations since.
    labels = numbers("labels", settings.labels, student.labels, more=bool(config.initial))
    shared = {column: own for column, own in student.tags.items() if column in settings.tags}
    tags = {
        column: numbers(f"tags of {column}", settings.tags[column], own) for column, own in shared.items()
    }
    return Teacher(model, labels, tags)


def read_raw_text(config: Config, styles: Sequence[str]) -> list[Example]:
    """Read the raw text of a teacher, one sentence per line; empty lines and long ones are left out."""
    sentences = []
    for style, paths in by_style(config.teacher.text).items():
        for path in paths:
            for line in read_lines(path, path):
                chars = tuple(characters("".join(line.split())))
                if 0 < len(chars) <= _LONGEST:
                    sentences.append(Example(chars, styles.index(style) if style else 0, raw=True))
    return sentences


def _divergence(theirs: Tensor, own: Tensor) -> Tensor:
    """Return KL(theirs || own) of log-probabilities, `[m, k]` to `[m]`."""
    return (theirs.exp() * (theirs - own)).nan_to_num(0.0).sum(-1)
