"""Encode with a pre-trained BERT from Hugging Face: the only file that knows `transformers`.

Each character is one token of the tokeniser's vocabulary. The tokeniser's own splitting is not used, so characters and
encodings stay aligned (section 3.4 of the paper). [CLS] is position 0 and represents ROOT; [SEP] is added internally
after the last character, unless `separator` is off. A sentence longer than the model's positions is read in overlapping
windows (`zishu.model.windows`). The encoding is the last layer's output, or with `mixed_layers` a learned average of
the last layers. `first_layers` leaves out the layers above.

A pre-trained model is a local folder, which is read without network access, or `hub:NAME`, a model of the Hugging Face
hub. Either may be untrusted: none of its code is run, and weights are read from safetensors only.

Cost: that of the model. Its dropout comes from its own configuration; `output_dropout` adds one after it.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from zishu.errors import ConfigError, MissingExtra
from zishu.model.vocabulary import Vocabulary
from zishu.model.windows import plan_windows
from zishu.train.encoders import Dropout, Encoder, Recurrence, style_embedding

try:
    from huggingface_hub import get_session
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.constants import HF_HUB_OFFLINE as OFFLINE
    from transformers import AutoConfig, AutoModel, AutoTokenizer
    from transformers.utils import logging
except ModuleNotFoundError as error:
    # If transformers is installed but something inside it is missing, keep the original message.
    if error.name not in ("transformers", "huggingface_hub"):
        raise
    raise MissingExtra("transformers", "train") from error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zishu.train.config import EncoderConfig

HUB = "hub:"  # prefix of the name of a model on the Hugging Face hub
_PATIENCE = 5.0  # seconds for the hub to answer


class Bert(Encoder):
    """Encode sentences of any length with a pre-trained model, one token per character."""

    def __init__(
        self, model: nn.Module, vocabulary: Vocabulary, config: EncoderConfig, *, styles: int = 0
    ) -> None:
        super().__init__()
        described = cast("Any", model.config)
        layers = described.num_hidden_layers
        if config.mixed_layers > layers:
            raise ConfigError(
                f"encoder.mixed_layers: this model has {layers} layers, not {config.mixed_layers}"
            )
        self.core = CharacterBert(model, vocabulary, config, styles=styles)
        self.output_dropout = Dropout(config.output_dropout)
        # Part of each window, not of the sentence, so that an exported graph that reads windows gives the same result.
        self.top = Recurrence(self.core.width, 1, config.top, dropout=config.dropout) if config.top else None
        self.width = self.core.width if self.top is None else self.top.width
        self.longest = _capacity(model)
        self.overlap = config.window_overlap
        self.hf_config = json.loads(described.to_json_string(use_diff=False))
        del self.hf_config["_name_or_path"]  # do not record where it was loaded from
        if self.longest is not None and not self.overlap < self.longest:
            raise ConfigError(
                f"encoder.window_overlap: must be less than the {self.longest} characters that this model reads "
                f"at once, not {self.overlap}"
            )

    def forward(
        self,
        chars: Tensor,
        lengths: Tensor,
        bigrams: Tensor | None = None,  # noqa: ARG002
        styles: Tensor | None = None,
    ) -> Tensor:
        """Encode sentences; bigrams are not used."""
        # An exported graph reads one window; its caller plans the windows, which is cheaper outside.
        if torch.onnx.is_in_onnx_export() or self.longest is None or chars.shape[1] <= self.longest + 1:
            return self._read_window(chars, lengths, styles)
        plan = plan_windows(lengths.cpu().numpy(), self.longest, self.overlap)
        sentence, inner, position, window, place = (
            torch.from_numpy(array).to(chars.device)
            for array in (plan.sentence, plan.lengths, plan.position, plan.window, plan.place)
        )
        own_styles = None if styles is None else styles[sentence]
        encoded = self._read_window(chars[sentence[:, None], position], inner, own_styles)
        merged = encoded[window, place]
        # Positions beyond the longest sentence of the batch are the caller's padding.
        return nn.functional.pad(merged, (0, 0, 0, chars.shape[1] - merged.shape[1]))

    def _read_window(self, chars: Tensor, lengths: Tensor, styles: Tensor | None) -> Tensor:
        encoded: Tensor = self.output_dropout(self.core(chars, lengths, styles))
        return encoded if self.top is None else self.top(encoded, lengths)


class CharacterBert(nn.Module):
    """Read [CLS], the characters and [SEP], and return a vector for all but [SEP]."""

    def __init__(
        self, model: nn.Module, vocabulary: Vocabulary, config: EncoderConfig, *, styles: int
    ) -> None:
        super().__init__()
        self.model = model
        self.separator = vocabulary.eos if config.separator else None
        self.mix = LayerMix(config.mixed_layers) if config.mixed_layers > 1 else None
        self.width = int(cast("Any", model.config).hidden_size)
        self.styles = style_embedding(styles, cast("Any", model).get_input_embeddings().embedding_dim)

    def forward(self, chars: Tensor, lengths: Tensor, styles: Tensor | None = None) -> Tensor:
        """Encode sentences that fit into the model."""
        tokens, last = chars, lengths[:, None]
        position = torch.arange(tokens.shape[1], device=chars.device)
        if self.separator is not None:
            last = last + 1
            tokens = nn.functional.pad(chars, (0, 1))  # space for [SEP] after the longest sentence
            position = torch.arange(tokens.shape[1], device=chars.device)
            tokens = torch.where(position == last, self.separator, tokens)
        inputs = {"input_ids": tokens}
        if self.styles is not None:
            embedded = cast("Any", self.model).get_input_embeddings()(tokens)
            inputs = {"inputs_embeds": embedded + self.styles(styles)[:, None]}
        output = self.model(
            **inputs,
            attention_mask=(position <= last).long(),
            output_hidden_states=self.mix is not None,
            return_dict=True,
        )
        encoded: Tensor = output.last_hidden_state if self.mix is None else self.mix(output.hidden_states)
        return encoded[:, : chars.shape[1]]


class LayerMix(nn.Module):
    """Average the outputs of the last layers with learned weights, and scale the result (Peters et al. 2018)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))  # before the softmax: equal at first
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """Mix the states of all layers, the embeddings first, `[batch, n, width]` each."""
        shares = self.weights.softmax(0)
        last = torch.stack(tuple(states[-len(shares) :]), dim=-1)
        return self.scale * (last * shares).sum(-1)  # not a product of matrices, which would become 8 bits


def build(
    config: EncoderConfig,
    vocabulary: Vocabulary,
    *,
    styles: int,
    hf_config: Mapping[str, Any] | None,
) -> Bert:
    """Build the encoder from a name or folder or, with random weights, from a stored configuration."""
    model = _from_pretrained(config) if hf_config is None else _from_config(hf_config)
    entries = cast("Any", model).get_input_embeddings().num_embeddings
    if len(vocabulary.symbols) > entries:
        raise ConfigError(
            f"encoder.pretrained: the model has {entries} embeddings, the vocabulary {len(vocabulary.symbols)} symbols"
        )
    return Bert(model, vocabulary, config, styles=styles)


def hf_vocabulary(path: str) -> Vocabulary:
    """Read the vocabulary of a pre-trained model, by name or folder; symbols keep the model's numbers."""
    tokenizer = _load(AutoTokenizer, path)
    numbers: dict[str, int] = tokenizer.get_vocab()
    # Numbers that the tokeniser skips are filled with names that no character can have.
    symbols = [f"[free {number}]" for number in range(1 + max(numbers.values()))]
    for symbol, number in numbers.items():
        symbols[number] = symbol
    special = {
        "pad": tokenizer.pad_token_id,
        "unknown": tokenizer.unk_token_id,
        "bos": tokenizer.cls_token_id,
        "eos": tokenizer.sep_token_id,
    }
    missing = [name for name, number in special.items() if number is None]
    if missing:
        raise ConfigError(
            f"encoder.pretrained: the vocabulary of {path} has no symbol for {', '.join(missing)}"
        )
    return Vocabulary(tuple(symbols), **special, lowercase=_lowercases(tokenizer, numbers))


def _lowercases(tokenizer: Any, numbers: Mapping[str, int]) -> bool:
    """Tell whether a vocabulary has lower-case letters only, whatever the tokeniser does.

    Some models come with an uncased vocabulary and a tokeniser that keeps capitals, so every capital is unknown. Here
    their lower-case letters represent both.
    """
    normalizer = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
    if normalizer is not None and normalizer.normalize_str("A") == "a":
        return True
    return "a" in numbers and "A" not in numbers


def _from_pretrained(config: EncoderConfig) -> nn.Module:
    """Load a model in single precision, if possible without the pooling layer (for [CLS] alone)."""
    path, layers = config.pretrained, config.first_layers
    options = {"num_hidden_layers": layers} if layers else {}
    if layers and layers > (available := int(_load(AutoConfig, path).num_hidden_layers)):
        raise ConfigError(f"encoder.first_layers: this model has {available} layers, not {layers}")
    try:
        model = _load(AutoModel, path, add_pooling_layer=False, **options)
    except ConfigError as error:
        if not isinstance(error.__cause__, TypeError):
            raise
        model = _load(AutoModel, path, **options)  # a model without such a layer rejects the argument
    return cast("nn.Module", model.float().train())  # it is loaded in evaluation mode, unlike a new module


def _from_config(stored: Mapping[str, Any]) -> nn.Module:
    """Build the same kind of model with random weights."""
    config, factory = AutoConfig.for_model(**stored), cast("Any", AutoModel)
    try:
        model = factory.from_config(config, add_pooling_layer=False, trust_remote_code=False)
    except TypeError:
        model = factory.from_config(config, trust_remote_code=False)
    return cast("nn.Module", model.float())


def _load(kind: Any, source: str, **options: Any) -> Any:
    """Load an object from a folder or, with `hub:NAME`, from the hub or its local cache."""
    name = source.removeprefix(HUB)
    options |= {"trust_remote_code": False}
    if kind is AutoModel:
        options["use_safetensors"] = True
    if not source.startswith(HUB):
        _check_folder(source)
    failure: Exception | None = None
    for local in (True, False) if source.startswith(HUB) and not OFFLINE else (True,):
        if not local:
            _check_reachable(source)
        try:
            with _quiet():
                return kind.from_pretrained(name, local_files_only=local, **options)
        except (
            Exception
        ) as error:  # files may be damaged or hostile, and the loader checks few of their values
            failure = error
    reason = next(iter(str(failure).strip().splitlines()), "")
    if not reason or not isinstance(failure, OSError | ValueError):
        reason = f"{type(failure).__name__}: {reason}".removesuffix(": ")
    raise ConfigError(f"encoder.pretrained: cannot load {source}: {reason}") from failure


def _check_folder(path: str) -> None:
    """Reject a folder that does not exist, or whose weights only pickle could read."""
    folder = Path(path)
    if not path or not folder.is_dir():
        raise ConfigError(
            f"encoder.pretrained: no such folder: {path} (a model of the Hugging Face hub is written {HUB}NAME)"
        )
    others = sorted(file.name for file in folder.iterdir() if file.suffix in (".bin", ".pt", ".pth", ".ckpt"))
    if others and not any(folder.glob("*.safetensors")):
        raise ConfigError(
            f"encoder.pretrained: {path}: the weights are in {others[0]}, which could run code when it is read; "
            "convert them to model.safetensors"
        )


def _check_reachable(source: str) -> None:
    """Fail within seconds if the hub cannot be reached: the library would retry again and again."""
    try:
        get_session().head(ENDPOINT, timeout=_PATIENCE)
    except Exception as error:  # from an HTTP library that is not ours
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ConfigError(f"encoder.pretrained: {source}: the hub cannot be reached: {reason}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the loader's progress bar and its report of weights that are omitted on purpose."""
    settings = cast("Any", logging)
    verbosity, bar = settings.get_verbosity(), settings.is_progress_bar_enabled()
    settings.set_verbosity_error()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        settings.set_verbosity(verbosity)
        if bar:
            settings.enable_progress_bar()


def _capacity(model: nn.Module) -> int | None:
    """Return how many characters fit between [CLS] and [SEP]; None if the model has no table of positions."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa-like models count positions from the one after padding's.
            unused = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - unused - 2
    return None
