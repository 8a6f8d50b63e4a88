"""Load a model directory into ONNX Runtime.

Reading one runs no code of it, and what is wrong with it is an `InputError` in one line that names the file: missing
or broken files, a newer format, networks that do not fit the settings or the vocabulary.

Cost: that of ONNX Runtime's sessions, and of one character through the networks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnxruntime

from zishu.errors import InputError
from zishu.model.inner import InnerSettings, StructureScorer
from zishu.model.networks import COMMON, Ensemble, Networks, check_members
from zishu.model.parsers import Model, Pipeline
from zishu.model.settings import (
    BIGRAMS,
    CHARS,
    CONFIG,
    ENCODER,
    LABELS,
    SCORER,
    SEGMENTER,
    STRUCTURES,
    STRUCTURES_CONFIG,
    TREECRF,
    Settings,
    part_names,
    read_json,
)
from zishu.model.vocabulary import Vocabulary

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

__all__ = ["Model", "Pipeline", "load_model"]

_Result = TypeVar("_Result")


def load_model(path: str | os.PathLike[str], *, threads: int = 0) -> Model | Pipeline:
    """Load a model directory; the networks run on `threads` threads, 0 means one for each core."""
    folder = Path(path)
    if not folder.exists():
        raise InputError(f"{folder}: no such model")
    if not folder.is_dir():
        raise InputError(f"{folder}: a model is a directory, not a file")
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder}: no {CONFIG} in it, so this is not a model")
    settings = _read(folder / CONFIG, Settings.from_json)
    if settings.task == "pipeline":
        return _load_pipeline(folder, settings, threads)
    if settings.task == "ensemble":
        return _load_ensemble(folder, settings, threads)
    return Model(settings, _load_networks(folder, settings, threads))


def _load_pipeline(folder: Path, settings: Settings, threads: int) -> Pipeline:
    parts = []
    for name, task in ((SEGMENTER, "segment"), (TREECRF, "parse-words")):
        part = load_model(folder / name, threads=threads)
        if not isinstance(part, Model) or part.settings.task != task:
            raise InputError(f"{folder / name}: the task must be {task!r}, not {part.settings.task!r}")
        parts.append(part)
    return Pipeline(settings, *parts)


def _load_ensemble(folder: Path, settings: Settings, threads: int) -> Model:
    """Load the members; what they have in common, the ensemble has."""
    folders = [folder / name for name in part_names(folder, settings.task)]
    members = [_read(member / CONFIG, Settings.from_json) for member in folders]
    try:
        check_members(members)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error
    networks = [_load_networks(*member, threads) for member in zip(folders, members, strict=True)]
    common = {name: getattr(members[0], name) for name in COMMON}
    return Model(replace(settings, **common), Ensemble(networks))


def _load_networks(folder: Path, settings: Settings, threads: int) -> Networks:
    parses = settings.task != "segment"
    outputs = {"tags"}
    if parses:
        outputs = {"inter", "label_dep", "label_head"}
        outputs |= {"intra"} if settings.roles == 2 else set()
        outputs |= set(settings.tags)
    elif not settings.transitions:
        raise InputError(f"{folder / CONFIG}: the scores of a segmenter's tag pairs are missing")
    networks = Networks(
        settings,
        chars=_read(folder / CHARS, Vocabulary.from_json),
        bigrams=_read(folder / BIGRAMS, Vocabulary.from_json) if settings.bigrams else None,
        encoder=_session(
            folder / ENCODER,
            {"chars", "lengths"}
            | ({"bigrams"} if settings.bigrams else set())
            | ({"styles"} if settings.styles else set()),
            {"encoded"},
            threads,
        ),
        scorer=_session(
            folder / SCORER,
            {"encoded"} | ({"pool"} if settings.task == "parse-words" else set()),
            outputs,
            threads,
        ),
        labels=_session(folder / LABELS, {"dep", "head"}, {"labels"}, threads) if parses else None,
        style=0 if settings.styles else None,
    )
    _try(networks, folder)
    if settings.task == "parse" and (folder / STRUCTURES).is_file():
        networks = replace(networks, structures=_load_structures(folder, networks.chars, threads))
        _try_structures(networks, folder)
    return networks


def _load_structures(folder: Path, vocabulary: Vocabulary, threads: int) -> StructureScorer:
    settings = _read(folder / STRUCTURES_CONFIG, InnerSettings.from_json)
    names = {"encoded", "chars", "pairs", "lengths"}
    session = _session(folder / STRUCTURES, names, {"arcs", "relations"}, threads)
    return StructureScorer(settings, vocabulary, session, frozenset(settings.words))


def _read(path: Path, make: Callable[[object], _Result]) -> _Result:
    """Read a JSON file and make something of it; every complaint names the file."""
    data = read_json(path)
    try:
        return make(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _session(path: Path, inputs: set[str], outputs: set[str], threads: int) -> Any:
    """Open a network and check that it reads and returns what it should."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # A network's threads would go on spinning for a while, waiting for its next run, when the chart or another
    # process needs the cores.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # only what is fatal: errors are raised, too
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common class of their own
        raise InputError(f"{path}: not a network that ONNX Runtime can read: {_first_line(error)}") from error
    for kind, wanted, nodes in (
        ("reads", inputs, session.get_inputs()),
        ("returns", outputs, session.get_outputs()),
    ):
        found = {node.name for node in nodes}
        if found != wanted:
            names = ", ".join(sorted(found)), ", ".join(sorted(wanted))
            raise InputError(f"{path}: the network {kind} {names[0]}; by {CONFIG} it should be {names[1]}")
    return session


def _try(networks: Networks, folder: Path) -> None:
    """Run one character through fresh networks, so that files that do not belong together are found out now.

    It is the last one of the vocabulary, which a network that was trained with a smaller one does not know.
    """
    settings = networks.settings
    inputs = {"lengths": np.array([1])}
    for name, vocabulary in (("chars", networks.chars), ("bigrams", networks.bigrams)):
        if vocabulary is not None:
            inputs[name] = np.array([[vocabulary.bos, len(vocabulary) - 1]])
    if settings.styles:
        inputs["styles"] = np.array([len(settings.styles) - 1])
    sizes = {**{name: len(tags) for name, tags in settings.tags.items()}, "tags": 4}
    try:
        outputs = networks.score(networks.encode(inputs), [[1]] if settings.task == "parse-words" else None)
        fitting = [
            getattr(outputs, name) is None or getattr(outputs, name).shape[2] == size
            for name, size in sizes.items()
        ]
        if outputs.label_dep is not None and outputs.label_head is not None:
            scored = networks.score_labels(outputs.label_dep[0], outputs.label_head[0])
            fitting.append(scored.shape[1] == len(settings.labels))
    except Exception as error:  # as above
        raise InputError(f"{folder}: the files of this model do not fit: {_first_line(error)}") from error
    if not all(fitting):
        raise InputError(f"{folder}: {CONFIG} has other labels than the networks")


def _try_structures(networks: Networks, folder: Path) -> None:
    """Run one word through the structure scorer, so that files that do not belong together are found out now."""
    scorer = networks.structures
    assert scorer is not None
    inputs = {"lengths": np.array([1]), "chars": np.array([[networks.chars.bos, len(networks.chars) - 1]])}
    if networks.bigrams is not None:
        inputs["bigrams"] = np.array([[networks.bigrams.bos, len(networks.bigrams) - 1]])
    if networks.settings.styles:
        inputs["styles"] = np.array([0])
    try:
        encoded = networks.encode(inputs)[0]
        arcs, relations = scorer.score(encoded, [networks.chars.symbols[-1] * 2])
    except Exception as error:  # as above
        raise InputError(f"{folder / STRUCTURES}: does not fit the model: {_first_line(error)}") from error
    if arcs.shape != (1, 2, 3) or relations.shape != (1, 2, 2, len(scorer.settings.relations)):
        raise InputError(f"{folder}: {STRUCTURES} and {STRUCTURES_CONFIG} do not fit each other")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
