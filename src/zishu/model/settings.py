"""Say what a trained parser is: the content of config.json in a model directory.

A model directory holds

    config.json      these settings
    chars.json       the vocabulary of characters
    bigrams.json     the vocabulary of pairs of characters, if the encoder uses them
    encoder.onnx     characters -> encodings
    scorer.onnx      encodings -> scores
    labels.onnx      representations of dependents and heads -> log-probabilities of labels; not in a segmenter
    structures.onnx  encodings of the characters of words -> scores of the trees inside them; optional
    structures.json  the settings of the structure scorer (`zishu.model.inner`)

and nothing that runs code when it is read. A pipeline is a directory with a config.json whose task is
"pipeline" and two model directories, `segmenter` and `treecrf`; an ensemble one whose task is "ensemble", with model
directories `member-1`, `member-2` and so on. The settings have a format number: a reader
refuses what is newer than itself instead of misreading it, and unknown keys of its own format are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, count, takewhile
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from zishu.errors import InputError
from zishu.tags import COLUMNS
from zishu.tree import INTRA

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1

Task = Literal["parse", "parse-words", "segment", "pipeline", "ensemble"]
TASKS: Final[tuple[Task, ...]] = get_args(Task)

CONFIG: Final = "config.json"
CHARS: Final = "chars.json"
BIGRAMS: Final = "bigrams.json"
ENCODER: Final = "encoder.onnx"
SCORER: Final = "scorer.onnx"
LABELS: Final = "labels.onnx"
STRUCTURES: Final = "structures.onnx"
STRUCTURES_CONFIG: Final = "structures.json"
SEGMENTER: Final = "segmenter"
TREECRF: Final = "treecrf"
MEMBER: Final = "member-"


@dataclass(frozen=True)
class Settings:
    """What the runtime must know of a trained parser, and where the parser came from."""

    task: Task
    roles: int = 1  # 2: the network has a score of its own for arcs inside words
    root_as_head: bool = True
    labels: tuple[str, ...] = ()  # INTRA is one of them if the task is "parse"
    # The tags of each column (`zishu.tags`); empty: the network has none.
    upos: tuple[str, ...] = ()
    xpos: tuple[str, ...] = ()
    feats: tuple[str, ...] = ()
    lemma: tuple[str, ...] = ()
    absent_tags: Mapping[str, Any] = field(
        default_factory=dict
    )  # style -> columns its treebank does not have
    styles: tuple[str, ...] = ()  # the first one is the default; empty: the model has no styles
    encoder: str = ""  # the kind
    bigrams: bool = False  # the encoder reads pairs of characters, too
    # Characters that the encoder reads at once (0: any number), and how many two windows of a longer sentence
    # share at least.
    window: int = 0
    window_overlap: int = 0
    # The scores of trees, of relations and of parts of speech are divided by these before they become probabilities.
    temperature: float = 1.0
    label_temperature: float = 1.0
    upos_temperature: float = 1.0
    # Of a segmenter: the scores of tag pairs (from, to), of the first tag and of the last one, all finite, in
    # the order of zishu.chart.chain.TAGS. Empty before training.
    transitions: tuple[tuple[float, ...], ...] = ()
    starts: tuple[float, ...] = ()
    ends: tuple[float, ...] = ()
    name: str = ""
    version: str = ""
    training: Mapping[str, Any] = field(
        default_factory=dict
    )  # the run's configuration and scores; only shown
    format: int = FORMAT

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise InputError(f"settings of a model: {problem}")

    def _problem(self) -> str:
        """Say what is wrong with the settings, the empty string if nothing is."""
        if self.task not in TASKS:
            return f"unknown task {self.task!r}, known are {', '.join(TASKS)}"
        if self.roles not in (1, 2) or (self.roles == 2 and self.task != "parse"):
            return f"{self.roles} roles for the task {self.task!r}"
        if (INTRA in self.labels) != (self.task == "parse"):
            return f"the label {INTRA} belongs to the task 'parse' and to no other"
        for temperature in (self.temperature, self.label_temperature, self.upos_temperature):
            if not (isfinite(temperature) and temperature > 0):
                return f"a temperature must be above 0, not {temperature}"
        for style, columns in self.absent_tags.items():
            if style not in self.styles or not isinstance(columns, Sequence) or set(columns) - set(COLUMNS):
                return f"absent_tags says {columns!r} for the style {style!r}"
        if not all(re.fullmatch(r"\d+:\d+", tag) for tag in self.lemma):
            return "a tag of lemma is two numbers, such as 0:1"
        for name in ("labels", *COLUMNS, "styles"):
            values: tuple[str, ...] = getattr(self, name)
            if len(set(values)) != len(values):
                return f"{name} holds a value twice"
        if self.task in ("parse", "parse-words") and not set(self.labels) - {INTRA}:
            return "no labels"
        if self.task == "segment" and (self.transitions or self.starts or self.ends):
            # The four tags of zishu.chart.chain, not asked because it would bring the compiler along.
            sizes = [len(self.starts), len(self.ends), len(self.transitions), *map(len, self.transitions)]
            if set(sizes) != {4}:
                return "a segmenter needs 4 x 4 transitions, 4 starts and 4 ends"
            numbers = [*self.starts, *self.ends, *chain.from_iterable(self.transitions)]
            if not all(map(isfinite, numbers)):
                # Decoding knows what is illegal by itself, and JSON has no infinity.
                return "the scores of a segmenter's tags must be finite"
        return ""

    @property
    def tags(self) -> dict[str, tuple[str, ...]]:
        """Return the tags of the columns that the network knows."""
        columns: dict[str, tuple[str, ...]] = {name: getattr(self, name) for name in COLUMNS}
        return {name: tags for name, tags in columns.items() if tags}

    def absent(self, style: int | None) -> tuple[str, ...]:
        """Return the tag columns that stay empty in the style with this number."""
        return () if style is None else tuple(self.absent_tags.get(self.styles[style], ()))

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain objects, for JSON."""
        names = ["format", *(f.name for f in fields(self) if f.name != "format")]
        return {name: _plain(getattr(self, name)) for name in names}

    @classmethod
    def from_json(cls, data: object) -> Settings:
        """Rebuild settings from what `to_json` gave."""
        if not isinstance(data, dict) or "format" not in data or "task" not in data:
            raise InputError("not the settings of a Zishu model")
        number = data["format"]
        if not isinstance(number, int) or number < 1:
            raise InputError(f"format {number!r} is not a format of Zishu models")
        if number > FORMAT:
            raise InputError(
                f"the model has format {number}, this version of Zishu reads up to {FORMAT}: update it"
            )
        values = {}
        for f in fields(cls):
            if f.name in data:
                values[f.name] = _checked(f.name, f.type, data[f.name])
        return cls(**values)


def part_names(folder: Path, task: Task) -> list[str]:
    """Return the names of the model directories that a pipeline or an ensemble consists of, in their order."""
    if task == "pipeline":
        return [SEGMENTER, TREECRF]
    members = takewhile(lambda name: (folder / name).is_dir(), (f"{MEMBER}{number}" for number in count(1)))
    return [*members] if task == "ensemble" else []


def read_json(path: Path) -> object:
    """Read a JSON file; what is wrong with it is one clear line."""
    try:
        return cast("object", json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:  # neither UTF-8 nor JSON
        raise InputError(f"{path}: not JSON: {error}") from error


def write_json(path: Path, data: object) -> None:
    """Write a JSON file that people can read, too."""
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """Turn tuples and mappings into lists and dictionaries, all the way down."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _checked(name: str, kind: object, value: Any) -> Any:
    """Check a value of the JSON file against the field's type, and turn lists into tuples."""
    good: bool
    match kind:
        case "int":
            good = isinstance(value, int) and not isinstance(value, bool)
        case "bool":
            good = isinstance(value, bool)
        case "str" | "Task":
            good = isinstance(value, str)
        case "tuple[str, ...]":
            good = isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "float":
            good = _are_numbers([value])
        case "tuple[float, ...]":
            good = _are_numbers(value)
        case "tuple[tuple[float, ...], ...]":
            good = isinstance(value, list) and all(_are_numbers(row) for row in value)
        case _:
            good = isinstance(value, dict)
    if not good:
        raise InputError(f"settings of a model: {name!r} has a wrong value")
    return _frozen(value) if isinstance(value, list) else value


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(x, (int, float)) and not isinstance(x, bool) for x in value
    )


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
