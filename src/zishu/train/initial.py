"""Start from a trained parser: from the best checkpoint of a run or from an exported model.

New styles and relations are added. A new style starts as a copy of the first one. A new relation starts as a copy of the
relation that it refines (`discourse` for `discourse:sp`), otherwise as the mean of all relations. At first it is
improbable.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from zishu.errors import ConfigError
from zishu.model.settings import CONFIG, read_settings
from zishu.parser import find_model
from zishu.train.checkpoint import BEST, load_checkpoint, under
from zishu.train.data import Inventory, add_tags
from zishu.train.exported import LABEL_WEIGHT, STYLES, Weights, read_vocabularies, read_weights
from zishu.train.setup import build_network, inventory_from_json, styles_of
from zishu.tree import INTRA

if TYPE_CHECKING:
    from zishu.train.config import Config
    from zishu.train.data import Treebank
    from zishu.train.systems import Network

_IMPROBABLE: Final = (
    3.0  # by which the score of a new relation starts lower than that of the one it is copied from
)


def load_initial(config: Config, treebank: Treebank) -> tuple[Network, Inventory]:
    """Return the network of the run or model that a configuration starts from, ready to learn from a treebank.

    Tag columns that it does not know are added, with random weights.
    """
    folder = Path(config.initial)
    if (folder / BEST).is_file():
        tensors, state = load_checkpoint(folder / BEST)
        inventory = inventory_from_json(state["inventory"])
        hf_config = state["encoder"]
        weights = {**under("model.", tensors), **under("average.", tensors)}
    elif (find_model(config.initial) / CONFIG).is_file():
        folder = find_model(config.initial)
        inventory, weights, hf_config = _model_inventory(folder), read_weights(folder), None
    else:
        raise ConfigError(f"initial: {config.initial}: neither a finished run ({BEST}) nor a model")
    known = inventory.tags
    grown = _extended(config, inventory, treebank)
    network, grown = build_network(config, None, inventory=grown, hf_config=hf_config)
    _grow(weights, inventory, grown)
    for column in grown.tags.keys() - known.keys():
        weights |= network.get_submodule(column).state_dict(prefix=f"{column}.")
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"initial: the weights of {config.initial} do not match: {reason}") from error
    return network, grown


def _model_inventory(folder: Path) -> Inventory:
    settings = read_settings(folder)
    return Inventory(
        *read_vocabularies(folder),
        settings.labels,
        settings.tags,
        settings.styles,
        {style: tuple(columns) for style, columns in settings.absent_tags.items()},
    )


# --- more styles, more relations --------------------------------------------------------------------------------


def _extended(config: Config, inventory: Inventory, treebank: Treebank) -> Inventory:
    """Return an inventory with the styles, relations and tag columns of a treebank, too."""
    styles = tuple(style for style in styles_of(config) if style)
    if bool(styles) != bool(inventory.styles):
        has = f"the styles {', '.join(inventory.styles)}" if inventory.styles else "no styles"
        raise ConfigError(f"initial: {config.initial} has {has}: data.train and data.partial must agree")
    counts = treebank.deprels
    new = sorted(counts.keys() - set(inventory.labels), key=lambda label: (-counts[label], label))
    labels = (*inventory.labels, *new) if config.can.parses else inventory.labels
    more = (*inventory.styles, *(style for style in styles if style not in inventory.styles))
    return add_tags(replace(inventory, labels=labels, styles=more), treebank)


def _grow(weights: Weights, before: Inventory, after: Inventory) -> None:
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
