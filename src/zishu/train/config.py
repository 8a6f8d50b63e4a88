"""Read the configuration of a training run from a TOML file, and check every key and value.

A configuration is a tree of frozen dataclasses: `Config` with one section for each concern. Their fields document the
keys: the key `layers` of the table `[encoder]` is the field `EncoderConfig.layers`. The defaults are the paper's
(section 4, Appendix A.4), or sensible ones where the paper only uses BERT.

    config = load_config("configs/latent-c2f.toml", ["seed=3", "encoder.kind=bilstm"])

A file may extend another one, `extends = "other.toml"` (relative to itself), and then gives only the differences. Later
values win: first the extended file, then the file, then the overrides.

This module neither opens data nor builds anything, and needs no torch. Paths of data stay as written, that is, relative
to the current directory.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from zishu.errors import ConfigError
from zishu.model.settings import TASKS, WIDEST_BEAM, Task

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence


TrainedTask = Literal["parse", "parse-words", "segment", "pipeline"]
TreeObjective = Literal["tree-crf", "head-selection", "transition"]


class Range(NamedTuple):
    """Hold the numbers that a key may take, the ends included, with a description for the user."""

    words: str
    low: float = 0.0
    high: float = 1e300  # not infinity: no range contains that, or an integer too large for a float


Natural = Annotated[int, Range("a whole number from 0")]
Size = Annotated[int, Range("a whole number from 1", low=1)]
Seed = Annotated[int, Range("a whole number from 0 to 4294967295", high=2**32 - 1)]
Share = Annotated[float, Range("a number from 0 to 1", high=1)]
Rate = Annotated[float, Range("a number from 0 up to, but not including, 1", high=math.nextafter(1, 0))]
Positive = Annotated[float, Range("a number above 0", low=math.ulp(0.0))]
NonNegative = Annotated[float, Range("a number from 0")]


_Value = tuple[object, str]  # a value, and where the user wrote it
Files = str | dict[str, tuple[str, ...]]  # one file, or files by style
StyleWeights = dict[str, float]  # by style


def by_style(files: Files) -> dict[str, tuple[str, ...]]:
    """Return the files of every style; without styles there is one with an empty name."""
    if isinstance(files, str):
        return {"": (files,)} if files else {}
    return files


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Define the files to learn from: `[data]`. Paths are relative to the current directory."""

    train: Files
    """CoNLL-U file to learn from, or a table with one file or a list of files per style:
    `{gsd = "gsd.conllu", hk = ["hk.conllu", "cfl.conllu"]}`. Non-projective trees are skipped and counted. The first
    style is the model's default."""
    dev: Files
    """The same for the files that are scored after every epoch; the epoch with the best LF, averaged over styles, is
    kept."""
    test: Files = ""
    """The same for the files that are scored once, at the end; empty for none."""
    weights: StyleWeights = field(default_factory=dict)
    """How often an epoch sees the sentences of a style, by style: `{hk = 3}`; the default is 1. A fraction
    takes a random part."""
    partial: Files = ""
    """Files like those of `train` of which something is known, but not all: CoNLL-U with `_`, text with spaces between
    words, JSON lines of the page (`zishu.annotations`). For the task `parse` with the objective `tree-crf`. A sentence
    that contradicts itself is named and left out."""
    partial_weight: NonNegative = 1.0
    """How often an epoch sees the sentences of `partial`, times the weight of their style."""
    structures: str = ""
    """WIST-format file of annotated words; read by the policy `annotated` only."""
    pseudo_projective: bool = False
    """Whether non-projective trees are made projective and learned from, with labels that let the parser restore
    them (Nivre and Nilsson 2005), instead of left out."""


@dataclass(frozen=True, kw_only=True)
class StructureConfig:
    """Define the trees inside words: `[structure]`. No effect on word-level and segmentation tasks."""

    policy: Literal["latent", "leftward", "rightward", "annotated"] = "latent"
    """Which trees inside a gold word count as correct: all of them (`latent`), one fixed pattern (`leftward`,
    `rightward`), or the annotated one (`annotated`; latent where a word has none)."""
    roles: Literal[1, 2] = 2
    """2: intra-word and inter-word arcs have their own scores and inference is coarse-to-fine.
    1: one score for both, distinguished by the label alone; inference is the vanilla Eisner algorithm."""
    single_root: bool = True
    """Whether a word's characters must form one subtree (the ablation "- single-root" turns it off)."""
    root_as_head: bool = True
    """Whether a word's dependents must depend on its root character (the ablation "- root-as-head")."""
    chain: bool = False
    """For the policies `leftward` and `rightward`: whether a parser finds only that pattern inside words, as the paper's
    release does, and not any tree."""
    release_recovery: bool = False
    """For one role: whether all pieces of a word that another one interrupts take its head and relation, as in the
    paper's release, instead of arcs `dep` between them. Only the paper's decoding makes such words."""
    beam: Size = 8
    """For the objective `transition`: the size of the beam; 1 is greedy search."""


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Define how characters become vectors: `[encoder]`. A key concerns only the kinds that it names."""

    kind: Literal["bilstm", "transformer", "bert"]
    """`bilstm` and `transformer` learn from scratch, `bert` continues from a pre-trained model."""
    char_width: Size = 128
    """bilstm, transformer: width of a character's embedding."""
    bigram_width: Natural = 128
    """bilstm, transformer: width of bigram embeddings; 0 for none."""
    bigram_min_count: Size = 2
    """bilstm, transformer: rarer bigrams share the embedding of the unknown bigram."""
    layers: Size = 2
    """bilstm, transformer: number of layers."""
    hidden: Size = 300
    """bilstm: units in each direction; transformer: width of the model, a multiple of `heads`."""
    heads: Size = 4
    """transformer: attention heads."""
    neighbours: bool = False
    """transformer: whether a convolution mixes each character with its neighbours before the first layer."""
    feed_forward: Size = 1024
    """transformer: width of the feed-forward layer."""
    activation: Literal["gelu", "relu"] = "gelu"
    """transformer: the function between its linear layers; `relu` is faster."""
    top: Natural = 0
    """Units in each direction of a recurrent layer on top, which is not pre-trained; 0: none."""
    dropout: Rate = 0.33
    """bilstm, transformer: dropout between and after the layers; all: dropout on `top`. A BERT has its own
    (usually 0.1) in its config.json, so without `top` this key is an error."""
    embedding_dropout: Rate = 0.33
    """bilstm, transformer: dropout of the embeddings."""
    character_dropout: Rate = 0.0
    """bilstm, transformer: share of characters replaced by the unknown one, in training only."""
    pretrained: str = ""
    """bert: local folder, or `hub:` and a name on the Hugging Face hub; others: folder that `zishu pretrain` writes and
    `zishu train` starts from, or a trained model whose encoder it starts from (`default`, `fast` or a folder), or
    empty."""
    window_overlap: Natural = 64
    """bert: characters shared by neighbouring windows of a sentence longer than the model's positions."""
    first_layers: Natural = 0
    """bert: number of layers that are used, counted from the first; 0: all. The last layers of a model that was
    fine-tuned for another task serve that task; without them training is also faster."""
    mixed_layers: Size = 1
    """bert: number of last layers whose outputs are averaged with learned weights; 1: the last layer alone. The paper
    does not mention a mix; its release mixes 4."""
    output_dropout: Rate = 0.0
    """bert: dropout of its output, in addition to its own. The paper does not mention it; its release uses 0.1."""
    separator: bool = True
    """bert: whether [SEP] follows the last character. The paper's release adds none."""


@dataclass(frozen=True, kw_only=True)
class ScorerConfig:
    """Define how vectors become scores of arcs, labels and tags: `[scorer]`."""

    arc: Size = 500
    """Width of the arc MLPs."""
    label: Size = 100
    """Width of the label MLPs."""
    dropout: Rate = 0.33
    """Dropout of the MLPs; an error for a segmenter, which has none."""
    upos: bool = True
    """Whether to learn parts of speech, too, if the training file has them."""
    upos_weight: NonNegative = 1.0
    """Weight of the part-of-speech loss beside the tree loss."""
    tag_weight: NonNegative = 0.1
    """Weight of the losses of XPOS, FEATS and LEMMA, each; 0 for not learning them. A column that a file leaves empty is
    not learned from its sentences, and stays empty in a style whose files all leave it empty."""

    def weight(self, column: str) -> float:
        """Return the weight of the loss of a tag column; 0 if it is not learned."""
        return self.upos * self.upos_weight if column == "upos" else self.tag_weight


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """Define how the weights are learned: `[optimiser]`. AdamW, linear warm-up, then linear decay to 0."""

    epochs: Size = 10
    """Passes over the training file."""
    batch_chars: Size = 1000
    """Approximate number of characters in a batch; a longer sentence is a batch by itself."""
    batch_by_words: bool = False
    """Whether `batch_chars` counts words instead of characters where words are given: in the task `parse-words` and in
    the parser of a `pipeline`. The paper's release counts words there."""
    learning_rate: Positive = 1e-3
    """Peak learning rate of the scorer and of an encoder that starts from scratch."""
    encoder_learning_rate: Positive = 5e-5
    """Peak learning rate of a pre-trained encoder."""
    style_learning_rate: NonNegative = 0.0
    """Peak learning rate of the embeddings of styles; 0 for that of the encoder."""
    beta1: Rate = 0.9
    """AdamW's decay of the mean gradient."""
    beta2: Rate = 0.9
    """AdamW's decay of the mean squared gradient."""
    eps: Positive = 1e-12
    """AdamW's guard against division by zero."""
    weight_decay: NonNegative = 0.0
    """AdamW's decoupled weight decay."""
    warmup: Share = 0.1
    """Share of all steps in which the learning rate rises from 0 to its peak."""
    clip: NonNegative = 5.0
    """Maximum norm of the gradient of all weights together; 0 for no clipping."""
    averaging: Rate = 0.0
    """Decay of an exponential moving average of the weights. The averages are scored and exported.
    0 for the weights themselves."""


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Define how an encoder is pre-trained: `[pretrain]`. Only `zishu pretrain` reads it."""

    text: str = ""
    """Text file, one sentence per line, words with tags (`上海/ns 计划/v`)."""
    initial: str = ""
    """Encoder to continue from, with its vocabularies: a folder as in `encoder.pretrained`, or the name of a bundled model;
    empty to start from scratch."""
    objective: Literal["masked", "replaced"] = "masked"
    """`masked`: guess hidden characters; `replaced`: tell which characters a small generator has replaced."""
    whole_words: bool = False
    """Whether the characters of a word are hidden together."""
    mask: Rate = 0.15
    """Share of the characters that are hidden or replaced."""
    word_weight: NonNegative = 1.0
    """Weight of the word losses (place in the word, tag of the word); 0 for none."""
    detection_weight: NonNegative = 25.0
    """`replaced`: weight of the detection loss beside the generator's loss."""
    min_count: Size = 5
    """Characters that are rarer than this are unknown, unless the training treebank has them."""
    bigrams: Size = 40000
    """Number of the most frequent pairs of characters that get an embedding, beside those of the treebank."""
    longest: Size = 128
    """Longest sentence, in characters; longer ones are read in pieces."""
    batch_chars: Size = 4000
    """Characters per batch, approximately."""
    steps: Natural = 0
    """Number of batches; 0 for one pass over the text."""
    optimiser: Literal["adamw", "muon"] = "adamw"
    """`muon` orthogonalises the updates of the matrices inside the layers; everything else uses AdamW."""
    learning_rate: Positive = 1e-3
    """Peak learning rate of AdamW."""
    matrix_learning_rate: Positive = 0.02
    """Peak learning rate of Muon."""
    warmup: Share = 0.04
    """Share of the steps in which the learning rate rises to its peak."""
    decay: Share = 0.96
    """Share of the steps, at the end, in which the learning rate falls to 0; between the two it is constant."""
    beta1: Rate = 0.9
    """AdamW's decay of the mean gradient."""
    beta2: Rate = 0.98
    """AdamW's decay of the mean squared gradient."""
    weight_decay: NonNegative = 0.01
    """Decoupled weight decay."""
    clip: NonNegative = 1.0
    """Largest norm of the gradient of all weights together; 0 for no clipping."""
    dropout: Rate = 0.1
    """Dropout between and after the layers."""


@dataclass(frozen=True, kw_only=True)
class TeacherConfig:
    """Define a parser that teaches this one on raw text, in addition to the treebanks: `[teacher]`."""

    model: str = ""
    """Folder of a parser of characters with two roles, or an ensemble of such; it must know the same styles, labels
    and tags. Empty for none."""
    text: Files = ""
    """Raw text, one sentence per line, or a table of files by style as in `data.train`; the teacher parses each file
    in its style. Every epoch reads all of it."""
    weight: NonNegative = 1.0
    """Weight of the loss on raw text beside that on the treebanks."""


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Define how the trained model is written: `[export]`."""

    compact: bool = False
    """bilstm, transformer: whether embeddings are stored as 8-bit numbers, a quarter of their size."""
    precision: Literal["float32", "int8"] = "float32"
    """`int8` computes the products with weights in 8 bits, which is smaller and faster; the scales of activations are
    found on training sentences. result.json has the dev scores before and after."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Define where and how the program runs: `[run]`. Only `patience` changes what is computed."""

    directory: str = ""
    """Folder of the run; empty for `runs/NAME/seed-SEED`."""
    device: str = ""
    """Where to train, as named by torch: `cpu`, `cuda`, `cuda:1`; empty for a GPU if there is one."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """`bfloat16` computes matrix products in 16 bits; weights, sums and the optimiser stay in 32 bits. It is faster
    only on processors and GPUs with instructions for it (AVX-512 BF16, AMX)."""
    threads: Natural = 0
    """Processor threads; 0 for all cores."""
    checkpoint_seconds: Natural = 120
    """Seconds between checkpoints inside an epoch; 0 for one after every batch."""
    patience: Natural = 0
    """Epochs with a worse dev LF than the best before after which training stops; 0 for never."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Hold everything that defines a training run."""

    name: str
    """Name of the experiment and of its folder: letters, digits, `_`, `-` and `.`."""
    task: TrainedTask = "parse"
    """`parse`: characters to words and trees; `parse-words`: given words to trees; `segment`: characters to
    words; `pipeline`: the last two, each trained on its own, and chained."""
    objective: TreeObjective = "tree-crf"
    """`tree-crf`: the probability of the gold trees among all trees, as in the paper; `head-selection`: the head of
    every character by itself, among all heads, with the same decoding; `transition`: the next action of a transition
    system over characters, with a beam instead of a chart, for the task `parse`. The last two need one
    tree for every word: a `structure.policy` other than `latent`, and `annotated` words without an entry
    are leftward. No effect on segmentation."""
    seed: Seed = 0
    """Random seed."""
    initial: str = ""
    """Run or model to start from instead of random weights: a folder, or the name of a bundled model. The run takes over
    its weights, characters, labels and styles. The encoder and the scorer must be the same. New styles and labels are
    added. A new style starts as a copy of the model's first style, and a new label as improbable."""
    data: DataConfig
    structure: StructureConfig = field(default_factory=StructureConfig)
    encoder: EncoderConfig
    scorer: ScorerConfig = field(default_factory=ScorerConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    run: RunConfig = field(default_factory=RunConfig)

    @property
    def can(self) -> Task:
        """Return what models for its task read and predict."""
        return TASKS[self.task]

    @property
    def folder(self) -> Path:
        """Return the folder of the run: the configured one, or its default below `runs`."""
        return Path(self.run.directory or f"runs/{self.name}/seed-{self.seed}")

    @property
    def styles(self) -> tuple[str, ...]:
        """Return the styles of the training files in their order; one empty name if they have none."""
        return tuple({**by_style(self.data.train), **by_style(self.data.partial)})


def load_config(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file, apply overrides such as `encoder.layers=3`, and check everything."""
    values = _read_toml(Path(path), ())
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.strip()
        source = f"--set {override}"
        if not equals or not key:
            raise ConfigError(f"{source}: expected key=value")
        table, _, entry = key.rpartition(".")
        value = _parse_override(key, text.strip())
        if table in _TABLES:
            before, _ = values.get(table, ({}, ""))
            key, value = table, {**(before if isinstance(before, dict) else {}), entry: value}
        values[key] = value, source
    config = _build(values, str(path))
    own = {str(path), *(f"--set {override}" for override in overrides)}
    _check_effect(config, {key: source for key, (_, source) in values.items() if source in own})
    return config


def config_from_dict(data: Mapping[str, Any], *, source: str = "configuration") -> Config:
    """Build a configuration from a nested dictionary and check it; errors name `source`."""
    return _build({key: (value, source) for key, value in _flatten(data)}, source)


def check_unchanged(now: object, before: object) -> None:
    """Raise an error if a run is resumed with another configuration (or a different relevant part of it)."""
    if now != before:
        raise ConfigError(
            "the configuration differs from the one this run was started with: "
            "use the same one, or start in another folder"
        )


def _read_toml(path: Path, extended_by: tuple[Path, ...]) -> dict[str, _Value]:
    """Return the keys of a file and of those it extends, dotted: `encoder.layers`."""
    if path.resolve() in extended_by:
        raise ConfigError(f"{path}: extends itself")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from error
    values = {}
    if "extends" in data:
        base = data.pop("extends")
        if not isinstance(base, str) or not base:
            raise ConfigError(f"{path}: extends = {base!r}: expected the name of a TOML file")
        if not (path.parent / base).is_file():
            raise ConfigError(f"{path}: extends = {base!r}: no such file: {path.parent / base}")
        values = _read_toml(path.parent / base, (*extended_by, path.resolve()))
    return values | {key: (value, str(path)) for key, value in _flatten(data)}


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the dotted keys of nested tables; an empty table counts, so that its name is checked."""
    for key, value in table.items():
        if isinstance(value, dict) and value and f"{prefix}{key}" not in _TABLES:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _parse_override(key: str, text: str) -> object:
    """Parse the right side of an override: a TOML value, or else a string without quotation marks."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A text such as "1\nother = 2" is not one value, and a name of digits is a string without quotation marks.
    value = parsed.pop("value")
    is_text = _KEYS.get(key) in (str, Files) and not isinstance(value, str | dict)
    return text if parsed or is_text else value


_SECTIONS: dict[str, type] = {
    name: kind
    for name, kind in get_type_hints(Config).items()
    if isinstance(kind, type) and is_dataclass(kind)
}
# The dotted keys with their types.
_KEYS: dict[str, Any] = {
    f"{section}.{name}".removeprefix("."): kind
    for section, owner in {"": Config, **_SECTIONS}.items()
    for name, kind in get_type_hints(owner, include_extras=True).items()
    if section or name not in _SECTIONS
}
# Keys whose value may be a table.
_TABLES = {key for key, kind in _KEYS.items() if kind in (Files, StyleWeights)}


def _build(values: Mapping[str, _Value], source: str) -> Config:
    """Check dotted keys and their values and build the dataclasses."""
    parts: dict[str, dict[str, Any]] = {section: {} for section in ("", *_SECTIONS)}
    for key, (value, origin) in values.items():
        if key in _SECTIONS:
            if value == {}:
                continue
            keys = ", ".join(known for known in _KEYS if known.startswith(f"{key}."))
            raise ConfigError(f"{origin}: {key} is a section, its keys are {keys}")
        if key not in _KEYS:
            raise ConfigError(f"{origin}: unknown key {key}; {_suggest(key)}")
        section, _, name = key.rpartition(".")
        parts[section][name] = _check_value(key, value, _KEYS[key], origin)
    for name, kind in _SECTIONS.items():
        parts[""][name] = _make(kind, parts[name], source, f"{name}.")
    config: Config = _make(Config, parts[""], source)
    for message in _contradictions(config):
        raise ConfigError(f"{source}: {message}")
    return config


def _make(kind: type, given: Mapping[str, Any], source: str, prefix: str = "") -> Any:
    """Build a dataclass; keys without a default must be given."""
    for item in fields(kind):
        optional = item.default is not MISSING or item.default_factory is not MISSING
        if not optional and item.name not in given:
            raise ConfigError(f"{source}: {prefix}{item.name} is missing")
    return kind(**given)


def _suggest(key: str) -> str:
    """Return the known key that the user most likely meant, as a question."""
    name = key.rpartition(".")[2]
    # Backwards, so that the first of two sections with the same name wins.
    by_name = {known.rpartition(".")[2]: known for known in reversed(list(_KEYS))}
    # First the right name in the wrong section, then the most similar key or, without a section, name.
    nearest = (
        difflib.get_close_matches(key, [k for k in _KEYS if k.rpartition(".")[2] == name], n=1, cutoff=0)
        or (difflib.get_close_matches(key, _KEYS, n=1) if "." in key else [])
        or [by_name[near] for near in difflib.get_close_matches(name, by_name, n=1)]
    )
    return f"did you mean {nearest[0]}?" if nearest else f"the keys are {', '.join(_KEYS)}"


def _check_value(key: str, value: object, kind: Any, origin: str) -> object:
    """Return a value converted to its key's type; raise ConfigError with what was expected."""
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        # Compare types, too, because True == 1.
        if not any(value == choice and type(value) is type(choice) for choice in choices):
            raise _wrong(key, value, f"one of {', '.join(map(repr, choices))}", origin)
        return value
    if get_origin(kind) is Annotated:
        kind, limits = get_args(kind)
        is_number = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
        if not is_number or not limits.low <= value <= limits.high:
            raise _wrong(key, value, limits.words, origin)
        return kind(value)
    if kind == Files:
        return _check_files(key, value, origin)
    if kind == StyleWeights:
        if not isinstance(value, dict):
            raise _wrong(key, value, "a table of numbers by style", origin)
        return {style: _check_value(f"{key}.{style}", x, Positive, origin) for style, x in value.items()}
    if type(value) is not kind:
        raise _wrong(key, value, "true or false" if kind is bool else "a string", origin)
    return value


def _check_files(key: str, value: object, origin: str) -> Files:
    if isinstance(value, str):
        return value
    table = {}
    for style, files in value.items() if isinstance(value, dict) else ():
        found = tuple(files) if isinstance(files, list | tuple) else (files,)
        if not found or not all(isinstance(file, str) and file for file in found):
            raise _wrong(f"{key}.{style}", files, "a file or a list of files", origin)
        if not re.fullmatch(r"[\w-]*", style):
            raise _wrong(key, style, "names of styles of letters, digits, '_' and '-'", origin)
        table[style] = found
    if not table:
        raise _wrong(key, value, "a file, or a table of files by style", origin)
    return table


def _wrong(key: str, value: object, expected: str, origin: str) -> ConfigError:
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    # The override itself already shows key and value.
    where = origin if origin.startswith("--set") else f"{origin}: {key} = {shown}"
    return ConfigError(f"{where}: expected {expected}")


def _check_effect(config: Config, sources: Mapping[str, str]) -> None:
    """Reject settings that have no effect; an extended file may contain more than needed."""
    if config.encoder.kind == "bert":
        ours = ["encoder.embedding_dropout", "encoder.character_dropout"]
        ours += [] if config.encoder.top else ["encoder.dropout"]
        idle = dict.fromkeys(ours, "a BERT has its own dropout, in its config.json")
    else:
        switches = ("first_layers", "mixed_layers", "output_dropout", "separator")
        idle = dict.fromkeys((f"encoder.{key}" for key in switches), "it is for encoder.kind = 'bert'")
    if not config.can.parses:
        idle["scorer.dropout"] = "a segmenter has no MLPs"
    transition = config.objective == "transition"
    if config.structure.policy not in ("leftward", "rightward") or transition:
        idle["structure.chain"] = "it is for charts and the policies 'leftward' and 'rightward'"
    one_role = config.task == "parse" and not transition and config.structure.roles == 1
    if config.structure.release_recovery and not one_role:
        idle["structure.release_recovery"] = "only parsers with structure.roles = 1 find illegal trees"
    if config.task not in ("parse-words", "pipeline"):
        idle["optimiser.batch_by_words"] = "it is for the tasks 'parse-words' and 'pipeline'"
    if transition:
        idle["structure.roles"] = "a transition parser has actions for both roles"
        idle["scorer.arc"] = "a transition parser scores actions, not arcs"
    else:
        idle["structure.beam"] = "it is for objective = 'transition'"
    for key, why in idle.items():
        if key in sources:
            raise ConfigError(f"{sources[key]}: {key} has no effect: {why}; remove it")


def _contradictions(config: Config) -> Iterator[str]:
    """Yield what is wrong with a combination of keys."""
    data, structure, encoder, styles = config.data, config.structure, config.encoder, config.styles
    transition = config.objective == "transition"
    if not re.fullmatch(r"[\w-][\w.-]*", config.name):
        yield f"name = {config.name!r}: expected letters, digits, '_', '-' and '.'"
    if data.partial and not (
        config.task == "parse" and config.objective == "tree-crf" and structure.single_root
    ):
        yield "data.partial is for the task 'parse', the objective 'tree-crf' and structure.single_root"
    if not data.train and not data.partial:
        yield "data.train is empty: expected a CoNLL-U file"
    if not data.dev and not config.initial:  # otherwise there may be too little data for a dev set
        yield "data.dev is empty: expected a CoNLL-U file"
    if "" in styles and len(styles) > 1:
        yield "data.partial: give the style of each file, as in data.train"
    dev, test, text = map(by_style, (data.dev, data.test, config.teacher.text))
    parts: dict[str, Mapping[str, object]]
    parts = {"data.dev": dev, "data.test": test, "data.weights": data.weights, "teacher.text": text}
    for name, part in parts.items():
        for style in part:
            if style not in styles and not config.initial:
                named = f"style {style!r}" if style else "a file without a style"
                yield f"{name}: {named} is not in data.train: {', '.join(styles)}"
    if bool(config.teacher.model) != bool(config.teacher.text):
        yield "teacher.model and teacher.text must be set together"
    if structure.policy == "annotated" and not data.structures:
        yield "structure.policy = 'annotated' needs data.structures, a WIST-format file"
    if transition and config.task != "parse":
        yield "objective = 'transition' is for the task 'parse'"
    if transition and structure.policy == "latent":
        yield "objective = 'transition' needs a structure.policy other than 'latent'"
    if transition and not (structure.single_root and structure.root_as_head):
        yield "objective = 'transition' needs structure.single_root and structure.root_as_head"
    if transition and structure.beam > WIDEST_BEAM:
        yield f"structure.beam = {structure.beam}: at most {WIDEST_BEAM}"
    if encoder.kind == "bert" and not encoder.pretrained:
        key = "encoder.pretrained"
        yield f"encoder.kind = 'bert' needs {key}, a folder or hub:NAME: --set {key}=FOLDER"
    if encoder.kind == "transformer" and encoder.hidden % encoder.heads:
        yield f"encoder.hidden = {encoder.hidden}: expected a multiple of the {encoder.heads} heads"
