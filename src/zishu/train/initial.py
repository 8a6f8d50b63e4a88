"""Start from a trained parser: from the best checkpoint of a run or from an exported model.

New styles and relations are added. A new style starts as a copy of the first one. A new relation starts as a copy of the
relation that it refines (`discourse` for `discourse:sp`), otherwise as the mean of all relations. At first it is
improbable.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from zishu.errors import ConfigError, one_line
from zishu.model.settings import CONFIG, read_settings
from zishu.parser import find_model
from zishu.tags import COLUMNS
from zishu.train.checkpoint import BEST, load_checkpoint, under
from zishu.train.data import by_count
from zishu.train.exported import LABEL_WEIGHT, STYLES, Weights, read_vocabularies, read_weights
from zishu.train.network import build_network, read_description, settings_for
from zishu.tree import INTRA

if TYPE_CHECKING:
    from zishu.model.settings import Settings
    from zishu.train.config import Config
    from zishu.train.data import Treebank
    from zishu.train.network import Network

_IMPROBABLE: Final = (
    3.0  # by which the score of a new relation starts lower than that of the one it is copied from
)


def load_initial(config: Config, treebank: Treebank) -> Network:
    """Return the network of the run or model that a configuration starts from, ready to learn from a treebank.

    Tag columns that it does not know are added, with random weights.
    """
    folder = Path(config.initial)
    hf_config = None
    if (folder / BEST).is_file():
        tensors, state = load_checkpoint(folder / BEST)
        weights = {**under("model.", tensors), **under("average.", tensors)}
        settings, chars, pairs = read_description(config, state)
        hf_config = state["encoder"]
    elif ((folder := find_model(config.initial)) / CONFIG).is_file():
        settings, weights = read_settings(folder), read_weights(folder)
        chars, pairs = read_vocabularies(folder)
    else:
        raise ConfigError(f"initial: {config.initial}: neither a finished run ({BEST}) nor a model")
    extended = _extended(config, settings, treebank)
    network = build_network(config, extended, chars, pairs, hf_config=hf_config)
    _grow(weights, settings, extended)
    for column in extended.tags.keys() - settings.tags.keys():
        weights |= network.get_submodule(column).state_dict(prefix=f"{column}.")
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        reason = one_line(str(error))
        raise ConfigError(f"initial: the weights of {config.initial} do not match: {reason}") from error
    return network


def _extended(config: Config, known: Settings, treebank: Treebank) -> Settings:
    """Return settings with the styles, relations and tag columns of a treebank, too."""
    own = tuple(style for style in config.styles if style)
    if bool(own) != bool(known.styles):
        has = f"the styles {', '.join(known.styles)}" if known.styles else "no styles"
        raise ConfigError(f"initial: {config.initial} has {has}: data.train and data.partial must agree")
    labels = by_count({label: n for label, n in treebank.deprels.items() if label not in known.labels})
    styles = (*known.styles, *(style for style in own if style not in known.styles))
    counts, present = treebank.count_tags()
    new = {column: by_count(found) for column, found in counts.items() if found and column not in known.tags}
    both = known.tags | new
    tags = {str(column): both[column] for column in COLUMNS if column in both}
    # A style has the columns that it had before and those of the treebank.
    absent = {
        style: tuple(
            column
            for column in tags
            if (style, column) not in present
            and (column in new or column in known.absent_tags.get(style, ()))
        )
        for style in styles
    }
    return settings_for(config, labels=(*known.labels, *labels), tags=tags, styles=styles, absent_tags=absent)


def _grow(weights: Weights, before: Settings, after: Settings) -> None:
    """Make room in the weights for styles and relations that are new, in place."""
    extra = len(after.styles) - len(before.styles)
    if extra:
        name = next(name for name in weights if name.endswith(STYLES))
        weights[name] = torch.cat([weights[name], weights[name][:1].repeat(extra, 1)])
    if len(after.labels) > len(before.labels):
        # width+1 labels width+1
        blocks = weights[LABEL_WEIGHT].view(len(weights[LABEL_WEIGHT]), len(before.labels), -1)
        between = blocks[:, [label != INTRA for label in before.labels]]
        added = []
        for label in after.labels[len(before.labels) :]:
            general = label.partition(":")[0]
            known = general in before.labels
            block = blocks[:, before.labels.index(general)] if known else between.mean(1)
            block = block.clone()
            block[-1, -1] -= _IMPROBABLE
            added.append(block)
        weights[LABEL_WEIGHT] = torch.cat([blocks, torch.stack(added, 1)], 1).flatten(1)
