"""Build a network from a configuration, with its vocabularies.

This is the only place where configuration, vocabularies, encoder and scorer meet: for a new run, and for one that is
restored from a checkpoint without its original files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zishu import __version__
from zishu.errors import ConfigError
from zishu.model.settings import Settings
from zishu.model.stand_ins import stand_ins
from zishu.model.vocabulary import Vocabulary
from zishu.train.config import by_style
from zishu.train.data import Inventory, take_inventory, take_tags
from zishu.train.encoders import build_encoder
from zishu.train.pretrain import load_pretrained
from zishu.train.systems import Network
from zishu.treebank.wist import read_wist

if TYPE_CHECKING:
    from torch import Tensor

    from zishu.forest import Structures
    from zishu.train.config import Config
    from zishu.train.data import Treebank


def build_network(
    config: Config,
    treebank: Treebank | None,
    *,
    inventory: Inventory | None = None,
    hf_config: dict[str, Any] | None = None,
) -> tuple[Network, Inventory]:
    """Return a network and its inventory, from a treebank or as given; then the caller loads the weights."""
    encoder_config = config.encoder
    restored = inventory is not None
    weights: dict[str, Tensor] | None = None
    if inventory is None:
        assert treebank is not None
        is_bert = encoder_config.kind == "bert"
        chars, pairs = None, None
        if is_bert:
            if not encoder_config.pretrained:
                raise ConfigError("encoder.pretrained must name a model when encoder.kind is bert")
            # Imported here because only this kind needs transformers, which takes seconds to import.
            from zishu.train._hf import hf_vocabulary

            chars = hf_vocabulary(encoder_config.pretrained)
        elif encoder_config.pretrained:
            weights, chars, pairs = load_pretrained(encoder_config.pretrained)
        styles = tuple(style for style in styles_of(config) if style)
        tags, absent_tags = take_tags(treebank, styles)
        inventory = take_inventory(
            treebank,
            chars,
            pairs,
            bigram_min_count=encoder_config.bigram_min_count
            if encoder_config.bigram_width and not is_bert
            else 0,
            joint=config.can.finds_structures,
            tags=tags,
            styles=styles,
            absent_tags=absent_tags,
        )
        known = inventory.chars
        table = stand_ins(known.symbols, lowercase=known.lowercase)
        inventory = replace(inventory, chars=replace(known, stand_ins=table))
    parses = config.can.parses
    learned: dict[str, Any] = {
        c: tags for c, tags in inventory.tags.items() if parses and config.scorer.weight(c)
    }
    inventory = replace(inventory, tags=learned)
    transition = config.can.finds_structures and config.objective == "transition"
    settings = Settings(
        task=config.task,
        roles=(2 if transition else config.structure.roles) if config.can.finds_structures else 1,
        beam=config.structure.beam if transition else 0,
        root_as_head=config.structure.root_as_head,
        chain=config.structure.policy if config.structure.chain and config.can.finds_structures else "",
        labels=inventory.labels if parses else (),
        **learned,
        absent_tags=inventory.absent_tags,
        encoder=encoder_config.kind,
        bigrams=inventory.bigrams is not None,
        styles=inventory.styles,
        name=config.name,
        version=__version__,
    )
    encoder = build_encoder(
        encoder_config,
        inventory.chars,
        inventory.bigrams,
        styles=len(inventory.styles),
        pretrained=not restored,
        hf_config=hf_config,
        weights=weights,
    )
    network = Network(
        settings,
        inventory,
        encoder,
        width=encoder.width,
        scorer=config.scorer,
        objective=config.objective,
    )
    return network, inventory


def styles_of(config: Config) -> tuple[str, ...]:
    """Return the styles of the training files in their order; one empty name if they have none."""
    return tuple({**by_style(config.data.train), **by_style(config.data.partial)})


def read_annotated(config: Config) -> Structures | None:
    """Read the structures of words that the policy `annotated` needs."""
    if not config.can.finds_structures or config.structure.policy != "annotated":
        return None
    if not config.data.structures:
        raise ConfigError("data.structures must name a file when structure.policy is annotated")
    return read_wist(config.data.structures)


def inventory_to_json(inventory: Inventory) -> dict[str, Any]:
    """Convert an inventory to plain objects for a checkpoint."""
    return {
        "chars": inventory.chars.to_json(),
        "bigrams": inventory.bigrams.to_json() if inventory.bigrams else None,
        "labels": list(inventory.labels),
        "tags": {column: list(tags) for column, tags in inventory.tags.items()},
        "styles": list(inventory.styles),
        "absent_tags": {style: list(columns) for style, columns in inventory.absent_tags.items()},
    }


def inventory_from_json(data: dict[str, Any]) -> Inventory:
    """Rebuild an inventory from the output of `inventory_to_json`."""
    # Older checkpoints have no other columns.
    tags = data["tags"] if "tags" in data else {"upos": data["upos"]}
    return Inventory(
        Vocabulary.from_json(data["chars"]),
        Vocabulary.from_json(data["bigrams"]) if data["bigrams"] else None,
        tuple(data["labels"]),
        {column: tuple(tags) for column, tags in tags.items() if tags},
        tuple(data["styles"]),
        {style: tuple(columns) for style, columns in data.get("absent_tags", {}).items()},
    )
