"""Build the network that a run starts from: a new one for its treebank, or that of another run or of an exported model.

A network that is trained further gets the styles and relations that are new. A new style starts as a copy of the first
one. A new relation starts as a copy of the relation that it refines (`discourse` for `discourse:sp`), otherwise as the
mean of all relations. At first it is improbable.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from zishu import __version__
from zishu.errors import ConfigError, one_line
from zishu.model.files import CONFIG, find_model
from zishu.model.settings import Settings, read_settings
from zishu.model.vocabulary import Vocabulary, bigrams
from zishu.partial import known_words
from zishu.tags import COLUMNS
from zishu.train.checkpoint import BEST, load_checkpoint, under
from zishu.train.encoders import build_encoder
from zishu.train.exported import (
    LABEL_WEIGHT,
    STYLES,
    Weights,
    load_pretrained,
    read_vocabularies,
    read_weights,
)
from zishu.train.network import Network
from zishu.train.stand_ins import stand_ins
from zishu.tree import INTRA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zishu.train.config import Config
    from zishu.train.data import TrainingTree

# The score of a new relation starts lower by this than that of the relation it is copied from.
_IMPROBABLE: Final = 3.0


def new_network(config: Config, treebank: Sequence[TrainingTree]) -> Network:
    """Return a network for the characters, labels, tags and styles of a treebank.

    Its encoder is pre-trained if the configuration names one; then the vocabularies are the encoder's.
    """
    kind, source = config.encoder.kind, config.encoder.pretrained
    chars: Vocabulary | None = None
    pairs: Vocabulary | None = None
    weights = None
    if kind == "bert":
        # Imported here because only this kind needs transformers, which takes seconds to import.
        from zishu.train._hf import hf_vocabulary

        chars = hf_vocabulary(source)
    elif source:
        weights, chars, pairs = load_pretrained(source)
    sentences = [list(item.tree.chars) for item in treebank]
    if chars is None:
        chars = Vocabulary.build(Counter(char for sentence in sentences for char in sentence))
    if kind == "bert" or not config.encoder.bigram_width:
        pairs = None
    elif pairs is None:
        counts = Counter(pair for sentence in sentences for pair in bigrams(sentence))
        pairs = Vocabulary.build(counts, min_count=config.encoder.bigram_min_count)
    chars = replace(chars, stand_ins=stand_ins(chars.symbols, lowercase=chars.lowercase))
    settings = _extended(config, Settings("segment"), treebank)  # which has no symbols yet
    return build_network(config, settings, chars, pairs, weights=weights)


def _extended(config: Config, known: Settings, treebank: Sequence[TrainingTree]) -> Settings:
    """Return the settings of the configured network for what is known before and for the symbols of a treebank.

    A style has the tag columns that it had before and those of the treebank.
    """
    counts: dict[str, Counter[str]] = {column: Counter() for column in ("labels", *COLUMNS)}
    present = set()
    for tree, style, _ in treebank:
        for word in known_words(tree):
            if word.deprel is not None:
                counts["labels"][word.deprel] += 1
            for column, tag in word.tags.items():
                counts[column][tag] += 1
                present.add((style, column))
    # The most frequent symbols first.
    found = {
        name: tuple(symbol for symbol, _ in sorted(seen.items(), key=lambda item: (-item[1], item[0])))
        for name, seen in counts.items()
    }
    inside = (INTRA,) if config.can.finds_structures else ()
    labels = tuple(dict.fromkeys((*known.labels, *inside, *found["labels"])))
    tags = {c: known.tags.get(c) or found[c] for c in COLUMNS if c in known.tags or found[c]}
    styles = tuple(dict.fromkeys((*known.styles, *filter(None, config.styles))))
    absent = {
        style: tuple(
            column
            for column in tags
            if (style, column) not in present
            and (column not in known.tags or column in known.absent_tags.get(style, ()))
        )
        for style in styles
    }
    return settings_for(config, labels, tags, styles, absent)


def settings_for(
    config: Config,
    labels: Sequence[str],
    tags: Mapping[str, Sequence[str]],
    styles: Sequence[str],
    absent_tags: Mapping[str, Sequence[str]],
) -> Settings:
    """Return the settings of the configured network with these labels, tags by column, and styles."""
    can, structure = config.can, config.structure
    learned: dict[str, Any] = {
        column: tuple(known) for column, known in tags.items() if can.parses and config.scorer.weight(column)
    }
    transition = can.finds_structures and config.objective == "transition"
    return Settings(
        task=config.task,
        roles=(2 if transition else structure.roles) if can.finds_structures else 1,
        beam=structure.beam if transition else 0,
        root_as_head=structure.root_as_head,
        chain=structure.policy if structure.chain and can.finds_structures else "",
        release_recovery=structure.release_recovery and can.finds_structures,
        labels=tuple(labels) if can.parses else (),
        **learned,
        absent_tags={style: tuple(columns) for style, columns in absent_tags.items() if columns},
        encoder=config.encoder.kind,
        styles=tuple(styles),
        name=config.name,
        version=__version__,
    )


def build_network(
    config: Config,
    settings: Settings,
    chars: Vocabulary,
    pairs: Vocabulary | None,
    **options: Any,
) -> Network:
    """Return a network with these settings and vocabularies; `options` say how its encoder starts (`build_encoder`)."""
    encoder = build_encoder(config.encoder, chars, pairs, styles=len(settings.styles), **options)
    return Network(settings, chars, pairs, encoder, scorer=config.scorer, objective=config.objective)


def describe_network(network: Network) -> dict[str, Any]:
    """Return all that a checkpoint must have besides the configuration and the weights, as plain objects."""
    settings, pairs = network.settings, network.bigram_vocabulary
    return {
        "inventory": {
            "chars": network.vocabulary.to_json(),
            "bigrams": pairs.to_json() if pairs else None,
            **{name: getattr(settings, name) for name in ("labels", "tags", "styles", "absent_tags")},
        },
        "encoder": network.encoder.hf_config,
    }


def read_description(config: Config, state: dict[str, Any]) -> tuple[Settings, Vocabulary, Vocabulary | None]:
    """Return the settings and vocabularies of a checkpoint, for `build_network`."""
    symbols = dict(state["inventory"])
    chars, pairs = (symbols.pop(name) for name in ("chars", "bigrams"))
    return (
        settings_for(config, **symbols),
        Vocabulary.from_json(chars),
        Vocabulary.from_json(pairs) if pairs else None,
    )


# --- a network that is trained further ----------------------------------------------------------------------------


def load_initial(config: Config, treebank: Sequence[TrainingTree]) -> Network:
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
    if any(config.styles) != bool(settings.styles):
        has = f"the styles {', '.join(settings.styles)}" if settings.styles else "no styles"
        raise ConfigError(f"initial: {config.initial} has {has}: data.train and data.partial must agree")
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
