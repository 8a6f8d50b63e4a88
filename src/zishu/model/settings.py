"""Define the settings of a trained parser: the content of config.json in a model directory (`zishu.model.files`).

The settings have a format number: a reader rejects newer formats instead of misreading them, and ignores unknown keys of
its own format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, takewhile
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal

from zishu.errors import InputError
from zishu.model.files import CONFIG, MEMBER, SEGMENTER, TREECRF, read_json
from zishu.tags import COLUMNS
from zishu.transitions import ACTIONS
from zishu.tree import INTRA

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1

TaskName = Literal["parse", "parse-words", "segment", "pipeline", "ensemble"]


@dataclass(frozen=True, slots=True)
class Task:
    """Describe what models for a task read and predict."""

    units: Literal["characters", "words"] = "characters"  # what the chart or the chain runs over
    finds_words: bool = True  # in raw text; otherwise they must be given
    parses: bool = True  # predicts arcs and relations
    finds_structures: bool = False  # predicts the trees inside words, too
    of_models: bool = False  # consists of other models instead of networks


TASKS: Final[dict[TaskName, Task]] = {
    "parse": Task(finds_structures=True),
    "parse-words": Task(units="words", finds_words=False),
    "segment": Task(parses=False),
    "pipeline": Task(of_models=True),
    "ensemble": Task(of_models=True),
}

# A model may be untrusted. Our models stay far below these limits.
MOST_MEMBERS: Final = 64
WIDEST_BEAM: Final = 1024
_LARGEST_NUMBER: Final = 1e9
_TEMPERATURES: Final = (1e-3, 1e3)
_LISTS: Final = (list, tuple)  # JSON has one kind


@dataclass(frozen=True)
class Settings:
    """Hold what the runtime must know about a trained parser, and the parser's origin."""

    task: TaskName
    roles: int = 1  # 2: the network scores arcs inside words separately
    root_as_head: bool = True
    chain: str = ""  # "leftward" or "rightward": the only trees inside words are chains in this direction
    release_recovery: bool = False  # vanilla decoding recovers words by `zishu.tree.keep_pieces`
    labels: tuple[str, ...] = ()  # INTRA is one of them if the task is "parse"
    # The tags of each column (`zishu.tags`); empty if the network has none.
    upos: tuple[str, ...] = ()
    xpos: tuple[str, ...] = ()
    feats: tuple[str, ...] = ()
    lemma: tuple[str, ...] = ()
    # By style: the columns missing in its treebank.
    absent_tags: Mapping[str, Any] = field(default_factory=dict)
    styles: tuple[str, ...] = ()  # the first one is the default; empty: the model has no styles
    encoder: str = ""  # kind of encoder
    bigrams: bool = False  # the encoder also reads bigrams
    # Number of characters that the encoder reads at once (0: any number), and the minimum overlap of two windows of a
    # longer sentence.
    window: int = 0
    window_overlap: int = 0
    # The scores of trees, relations and parts of speech are divided by these before they become probabilities.
    temperature: float = 1.0
    label_temperature: float = 1.0
    upos_temperature: float = 1.0
    # Only for a segmenter: the finite scores of tag transitions (from, to), of the first tag and of the last one, in
    # the order of zishu.chart.chain.TAGS. Empty before training.
    transitions: tuple[tuple[float, ...], ...] = ()
    starts: tuple[float, ...] = ()
    ends: tuple[float, ...] = ()
    # Only for a transition parser (`zishu.model.beam`): the size of its beam, and the weights of its last layer, one
    # row per action with the bias at its end. 0: the parser uses a chart.
    beam: int = 0
    actions: tuple[tuple[float, ...], ...] = ()
    name: str = ""
    version: str = ""
    # Configuration and scores of the run; for display only.
    training: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise InputError(f"settings of a model: {problem}")

    def _problem(self) -> str:
        """Say what is wrong with the settings; return an empty string if nothing is."""
        if self.task not in TASKS:
            return f"unknown task {self.task!r:.40}: choose from {', '.join(TASKS)}"
        if self.roles not in (1, 2) or (self.roles == 2 and not self.can.finds_structures):
            return f"{self.roles} roles for the task {self.task!r}"
        if (INTRA in self.labels) != self.can.finds_structures:
            return f"the label {INTRA} is only for the task 'parse'"
        if self.chain not in ("", "leftward", "rightward") or (
            self.chain and (not self.can.finds_structures or self.beam)
        ):
            return (
                f"a chain {self.chain!r:.40}: it must be leftward or rightward, for a chart over characters"
            )
        if not 0 <= self.beam <= WIDEST_BEAM or (
            self.beam and (not self.can.finds_structures or self.roles != 2)
        ):
            return f"a beam of {self.beam}: it must be from 1 to {WIDEST_BEAM}, for a character-level parser with two roles"
        if self.actions and (len(self.actions) != ACTIONS or len({*map(len, self.actions)}) != 1):
            return f"a transition parser has {ACTIONS} actions"
        lowest, highest = _TEMPERATURES
        for temperature in (self.temperature, self.label_temperature, self.upos_temperature):
            if not lowest <= temperature <= highest:
                return f"a temperature must be from {lowest:g} to {highest:g}, not {temperature}"
        for style, columns in self.absent_tags.items():
            if (
                style not in self.styles
                or not isinstance(columns, Sequence)
                or not all(column in COLUMNS for column in columns)
            ):
                return f"absent_tags says {columns!r:.40} for the style {style!r:.40}"
        if not all(re.fullmatch(r"\d+:\d+", tag) for tag in self.lemma):
            return "a tag of lemma must be two numbers, such as 0:1"
        for name in ("labels", *COLUMNS, "styles"):
            values: tuple[str, ...] = getattr(self, name)
            if len(set(values)) != len(values):
                return f"{name} has a duplicate"
            for value in values:
                # They are written to CoNLL-U columns and to terminals.
                if not value or not value.isprintable() or " " in value:
                    return f"{name} contains {value!r:.40}, which is not a word of printable characters"
        for name in ("name", "version", "encoder"):
            if not getattr(self, name).isprintable():
                return f"{name!r} contains characters that cannot be printed"
        if min(self.window, self.window_overlap) < 0 or 0 < self.window <= self.window_overlap:
            return f"windows of {self.window} characters cannot overlap by {self.window_overlap}"
        if self.can.parses and not self.can.of_models and not set(self.labels) - {INTRA}:
            return "no labels"
        if not self.can.parses and (self.transitions or self.starts or self.ends):
            # The four tags of zishu.chart.chain, which is not imported because it would load the compiler.
            sizes = [len(self.starts), len(self.ends), len(self.transitions), *map(len, self.transitions)]
            if set(sizes) != {4}:
                return "a segmenter needs 4 x 4 transitions, 4 starts and 4 ends"
            numbers = [*self.starts, *self.ends, *chain.from_iterable(self.transitions)]
            if not all(map(isfinite, numbers)):
                # Decoding knows what is illegal, and JSON has no infinity.
                return "the scores of a segmenter's tags must be finite"
        return ""

    @property
    def can(self) -> Task:
        """Return what a model for this task reads and predicts."""
        return TASKS[self.task]

    @property
    def tags(self) -> dict[str, tuple[str, ...]]:
        """Return the tags of the columns that the network predicts."""
        columns: dict[str, tuple[str, ...]] = {name: getattr(self, name) for name in COLUMNS}
        return {name: tags for name, tags in columns.items() if tags}

    def absent(self, style: int | None) -> tuple[str, ...]:
        """Return the tag columns that stay empty in the style with this number."""
        return () if style is None else tuple(self.absent_tags.get(self.styles[style], ()))

    def to_json(self) -> dict[str, Any]:
        """Convert the settings to plain objects for JSON."""
        names = ["format", *(f.name for f in fields(self) if f.name != "format")]
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_json(cls, data: object) -> Settings:
        """Rebuild settings from the output of `to_json`."""
        if not isinstance(data, dict) or "format" not in data or "task" not in data:
            raise InputError("not the settings of a Zishu model")
        number = data["format"]
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise InputError(f"format {number!r:.40} is not a format of Zishu models")
        if number > FORMAT:
            raise InputError(
                f"the model has format {number!r:.40}, but this version of Zishu reads up to {FORMAT}: update Zishu"
            )
        values = {}
        for f in fields(cls):
            if f.name in data:
                values[f.name] = _checked(f.name, f.type, data[f.name])
        return cls(**values)


def part_names(folder: Path, task: TaskName) -> list[str]:
    """Return the names of the model directories inside a pipeline or an ensemble, in order."""
    if task == "pipeline":
        return [SEGMENTER, TREECRF]
    if task != "ensemble":
        return []
    members = [
        *takewhile(
            lambda name: (folder / name).is_dir(), (f"{MEMBER}{k}" for k in range(1, MOST_MEMBERS + 2))
        )
    ]
    if len(members) > MOST_MEMBERS:
        raise InputError(f"{folder}: an ensemble has at most {MOST_MEMBERS} members")
    return members


def read_settings(folder: Path, *, part: bool = False) -> Settings:
    """Read the settings of a model directory; a `part` of another model cannot have parts itself."""
    path = folder / CONFIG
    try:
        settings = Settings.from_json(read_json(path))
    except InputError as error:
        raise InputError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    if part and settings.task in ("pipeline", "ensemble"):
        raise InputError(f"{folder}: a part of a model cannot be {settings.task!r} itself")
    return settings


def _checked(name: str, kind: object, value: Any) -> Any:
    """Check a value of the JSON file against the field's type, and convert lists to tuples."""
    good: bool
    match kind:
        case "int":
            good = isinstance(value, int) and _are_numbers([value])
        case "bool":
            good = isinstance(value, bool)
        case "str" | "TaskName":
            good = isinstance(value, str)
        case "tuple[str, ...]":
            good = isinstance(value, _LISTS) and all(isinstance(item, str) for item in value)
        case "float":
            good = _are_numbers([value])
            value = float(value) if good else value
        case "tuple[float, ...]":
            good = _are_numbers(value)
        case "tuple[tuple[float, ...], ...]":
            good = isinstance(value, _LISTS) and all(_are_numbers(row) for row in value)
        case _:
            good = isinstance(value, dict)
    if not good:
        raise InputError(f"settings of a model: {name!r} has a wrong value")
    return _frozen(value)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, _LISTS) and all(
        isinstance(x, (int, float)) and not isinstance(x, bool) and -_LARGEST_NUMBER <= x <= _LARGEST_NUMBER
        for x in value
    )


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, _LISTS) else value
