"""Pre-train an encoder on text before it sees a treebank.

    zishu pretrain configs/default.toml      # writes the folder that `encoder.pretrained` names

The text is tagged (`zishu.train.tagged_text`). Some characters of each sentence are hidden, and the encoder learns from
one of two objectives:

    masked      guess the hidden characters (Devlin et al., 2019)
    replaced    a small generator guesses them; the encoder predicts for every character whether it is original
                (ELECTRA, Clark et al., 2020)

and, if `word_weight` is not 0, from the words: the position of every character in its word (BMES) and the tag of its
word. The folder gets the encoder's weights and the vocabularies of characters and bigrams, which include those of the
training treebanks. Section 3.4 of the paper uses a BERT; this trains small replacements for it.

Cost: one pass of the encoder per character. It runs on the CPU only.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from zishu.errors import ConfigError, ZishuError
from zishu.model.files import BIGRAMS, CHARS, CONFIG, find_model, write_json
from zishu.train.checkpoint import load_checkpoint, restore_training, save_checkpoint, training_state
from zishu.train.config import Config, EncoderConfig, check_unchanged, config_from_dict
from zishu.train.data import random_batches
from zishu.train.encoders import BiLSTM, Transformer, build_encoder
from zishu.train.exported import WEIGHTS, load_pretrained
from zishu.train.optimisation import Muon, denormals_flushed, set_learning_rates, split_weights
from zishu.train.tagged_text import IGNORED, PairTable, TaggedText, read_tagged_text

if TYPE_CHECKING:
    from collections.abc import Callable

LAST = "last.safetensors"
_PLACES = 4  # B M E S
_BEGINS = (0, 3)  # those that begin a word
_REPORT = 50  # steps between two reports


@denormals_flushed()
def pretrain(
    config: Config,
    *,
    resume: bool = False,
    report: Callable[[int, int, float, dict[str, float]], None] = lambda *_: None,
) -> Path:
    """Pre-train the configured encoder and return its folder; `report` gets step, steps, seconds, mean losses.

    A folder with finished weights is returned unchanged with `resume`, and is an error otherwise.
    """
    settings, folder = config.pretrain, _folder(config)
    if (folder / WEIGHTS).exists() and not (folder / LAST).exists():
        if resume:
            return folder
        raise ConfigError(
            f"encoder.pretrained: {folder} holds a finished encoder: remove it or choose another folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if config.run.threads:
        torch.set_num_threads(config.run.threads)
    torch.manual_seed(config.seed)
    initial = load_pretrained(settings.initial) if settings.initial else None
    text = read_tagged_text(config, initial[1:] if initial else None)
    network = Pretraining(config, text, initial[0] if initial else None)
    optimisers = _optimisers(config, network)
    batches = random_batches(text.lengths, settings.batch_chars, seed=config.seed, epoch=0)
    batches = batches[: settings.steps or len(batches)]
    step = 0
    if resume and (folder / LAST).exists():
        tensors, state = load_checkpoint(folder / LAST)
        check_unchanged(_what_counts(config), _what_counts(config_from_dict(state["config"])))
        restore_training(tensors, network, optimisers)
        step = state["step"]

    sums: dict[str, float] = defaultdict(float)
    started = saved = time.monotonic()
    network.train()
    while step < len(batches):
        rising, falling = settings.warmup, settings.decay
        set_learning_rates(optimisers.values(), step, len(batches), warmup=rising, decay=falling)
        network.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=config.run.precision == "bfloat16"):
            losses = network(text.batch(batches[step]))
        torch.stack([network.weights[name] * loss for name, loss in losses.items()]).sum().backward()  # type: ignore[no-untyped-call]
        if settings.clip:
            nn.utils.clip_grad_norm_(network.parameters(), settings.clip)
        for optimiser in optimisers.values():
            optimiser.step()
        step += 1
        for name, loss in losses.items():
            sums[name] += float(loss.detach())
        if not math.isfinite(sum(sums.values())):
            raise ZishuError(f"the loss is not finite (step {step}): lower pretrain.learning_rate")
        if step % _REPORT == 0 or step == len(batches):
            count = (step - 1) % _REPORT + 1
            means = {name: value / count for name, value in sums.items()}
            report(step, len(batches), time.monotonic() - started, means)
            sums.clear()
        if time.monotonic() - saved >= config.run.checkpoint_seconds:
            state = {"step": step, "config": asdict(config)}
            save_checkpoint(folder / LAST, training_state(network, optimisers), state)
            saved = time.monotonic()
    write_json(folder / CHARS, text.chars.to_json())
    if text.pairs is not None:
        write_json(folder / BIGRAMS, text.pairs.to_json())
    # In half precision, because fine-tuning moves the weights by far more than the rounding.
    weights = {name: tensor.half() for name, tensor in network.encoder.state_dict().items()}
    # Written last, because a folder with weights counts as finished.
    save_checkpoint(folder / WEIGHTS, weights, {"config": asdict(config)})
    (folder / LAST).unlink(missing_ok=True)
    return folder


def _folder(config: Config) -> Path:
    """Check that a configuration can be pre-trained, and return the folder to write."""
    folder = Path(config.encoder.pretrained)
    if config.encoder.kind == "bert" or not config.pretrain.text or not config.encoder.pretrained:
        raise ConfigError(
            "pre-training needs pretrain.text, encoder.pretrained (the folder to write) and an encoder other "
            "than BERT"
        )
    if config.run.device not in ("", "cpu"):
        raise ConfigError(f"run.device: {config.run.device}: pre-training runs on the CPU only")
    if (find_model(config.encoder.pretrained) / CONFIG).exists():
        raise ConfigError(
            f"encoder.pretrained: {folder} is a trained model: choose another folder for the encoder"
        )
    return folder


class Pretraining(nn.Module):
    """Combine an encoder with the output layers of the objectives; only the encoder is kept."""

    def __init__(self, config: Config, text: TaggedText, initial: dict[str, Tensor] | None = None) -> None:
        super().__init__()
        settings = config.pretrain
        bare = _bare_encoder(config)
        encoder = build_encoder(bare, text.chars, text.pairs, weights=initial)
        assert isinstance(encoder, BiLSTM | Transformer)
        self.encoder = encoder
        self.settings = settings
        self.unknown = text.chars.unknown
        self.pairs = PairTable(text.chars, text.pairs) if text.pairs is not None else None
        self.weights = {"hidden": 1.0}
        guesser: BiLSTM | Transformer = encoder
        if settings.objective == "replaced":
            if not isinstance(encoder, Transformer):
                raise ConfigError("pretrain.objective = 'replaced' needs encoder.kind = 'transformer'")
            # It shares the encoder's embeddings.
            layers, heads = max(1, bare.layers // 3), max(1, bare.heads // 2)
            hidden, feed_forward = bare.hidden // 2, bare.feed_forward // 2
            half = replace(bare, layers=layers, heads=heads, hidden=hidden, feed_forward=feed_forward)
            self.generator = guesser = Transformer(encoder.embeddings, half)
            self.detector = nn.Sequential(
                nn.Linear(encoder.width, encoder.width), nn.GELU(), nn.Linear(encoder.width, 1)
            )
            self.weights["replaced"] = settings.detection_weight
        # The embedding of a character is also used to predict it.
        width = bare.char_width
        self.hidden = nn.Sequential(nn.Linear(guesser.width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(len(text.chars)))
        if settings.word_weight:
            self.places = nn.Linear(encoder.width, _PLACES)
            self.tags = nn.Linear(encoder.width, len(text.tags))
            self.weights |= dict.fromkeys(("places", "tags"), settings.word_weight)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the losses by name; `weights` gives the weight of each."""
        chars, inside = batch["chars"], batch["places"] != IGNORED
        hidden = self._choose(batch["places"]) & inside
        seen = chars.masked_fill(hidden, self.unknown)
        losses: dict[str, Tensor] = {}
        if self.settings.objective == "replaced":
            guesses = self._guess(self._encode(self.generator, seen, batch["lengths"])[hidden])
            # A sample from the generator's distribution, with the Gumbel trick.
            noise = -torch.empty_like(guesses).exponential_().log()
            seen = chars.clone()
            seen[hidden] = (guesses.detach() + noise).argmax(-1)
        encoded = self._encode(self.encoder, seen, batch["lengths"])
        if self.settings.objective == "replaced":
            replaced = (seen != chars).float()
            found = self.detector(encoded).squeeze(-1).float()
            losses["replaced"] = F.binary_cross_entropy_with_logits(found[inside], replaced[inside])
        else:
            guesses = self._guess(encoded[hidden])
        losses["hidden"] = F.cross_entropy(guesses, chars[hidden]) if len(guesses) else guesses.sum()
        if self.settings.word_weight:
            for name, layer in (("places", self.places), ("tags", self.tags)):
                scores = layer(encoded).flatten(0, 1).float()
                losses[name] = F.cross_entropy(scores, batch[name].flatten(), ignore_index=IGNORED)
        return losses

    def _choose(self, places: Tensor) -> Tensor:
        """Choose characters to hide, one by one or by whole words."""
        random = torch.rand(places.shape)
        if self.settings.whole_words:
            begins = (places == _BEGINS[0]) | (places == _BEGINS[1])
            random = random.gather(1, begins.long().cumsum(1))
        return random < self.settings.mask

    def _encode(self, encoder: nn.Module, chars: Tensor, lengths: Tensor) -> Tensor:
        pairs = self.pairs(chars) if self.pairs is not None else None
        encoded: Tensor = encoder(chars, lengths, pairs)
        return encoded

    def _guess(self, encoded: Tensor) -> Tensor:
        embeddings = self.encoder.embeddings.chars.get_parameter("weight")
        return F.linear(self.hidden(encoded), embeddings, self.bias).float()


def _optimisers(config: Config, network: Pretraining) -> dict[str, torch.optim.Optimizer]:
    """Return the optimisers under their names in a checkpoint."""
    settings, decay = config.pretrain, config.pretrain.weight_decay
    found: list[torch.optim.Optimizer] = []
    others: list[Tensor] = list(network.parameters())
    if settings.optimiser == "muon":
        if not isinstance(network.encoder, Transformer):
            raise ConfigError("pretrain.optimiser = 'muon' needs encoder.kind = 'transformer'")
        matrices, others = split_weights(network.encoder.blocks, network)
        rate = settings.matrix_learning_rate
        dtype = torch.bfloat16 if config.run.precision == "bfloat16" else torch.float32
        found.append(Muon([{"params": matrices, "peak": rate}], lr=rate, weight_decay=decay, dtype=dtype))
    rate, betas = settings.learning_rate, (settings.beta1, settings.beta2)
    group = {"params": others, "peak": rate}
    found.append(torch.optim.AdamW([group], lr=rate, betas=betas, weight_decay=decay, fused=True))
    return {f"{number}.": optimiser for number, optimiser in enumerate(found)}


def _bare_encoder(config: Config) -> EncoderConfig:
    """Return the encoder without the parts that only a treebank can train."""
    return replace(
        config.encoder, top=0, dropout=config.pretrain.dropout, embedding_dropout=0.0, character_dropout=0.0
    )


def _what_counts(config: Config) -> tuple[object, ...]:
    """Return the settings that must stay the same if a run is resumed; its length may change."""
    settings = replace(config.pretrain, steps=0)
    return config.seed, config.data.train, settings, _bare_encoder(config), config.run.precision
