"""Load a model directory into ONNX Runtime.

Loading runs no code of the model. Every problem raises an `InputError` of one line that names the file: missing or
broken files, a newer format, networks that do not match the settings or the vocabulary. A model may be untrusted: the
size of files is limited, networks may contain only operators that our exporter writes (`zishu.model.operators`), and
loading has a time limit.

Cost: creating ONNX Runtime's sessions, running one character through the networks, and loading the chart's kernels,
which the first parse would do otherwise.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from zishu.chart._compiled import load_kernels
from zishu.errors import InputError
from zishu.model.files import (
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
    read_json,
)
from zishu.model.inner import InnerSettings, StructureScorer
from zishu.model.model import Model, Pipeline
from zishu.model.networks import COMMON, Ensemble, Networks, check_members
from zishu.model.sessions import Session, at_work, first_line
from zishu.model.settings import Settings, part_names, read_settings
from zishu.model.vocabulary import Vocabulary
from zishu.transitions import FEATURES

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

_Result = TypeVar("_Result")

PATIENCE: Final = 120.0  # seconds to load the networks of a model; a large BERT takes a few


def load_model(path: str | os.PathLike[str], *, threads: int = 0) -> Model | Pipeline:
    """Load a model directory; the networks run on `threads` threads (0: one per core)."""
    folder = Path(path)
    if not folder.exists():
        raise InputError(f"{folder}: no such model")
    if not folder.is_dir():
        raise InputError(f"{folder}: a model is a directory, not a file")
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder}: not a model (it has no {CONFIG})")
    settings = read_settings(folder)
    if settings.task == "pipeline":
        return _load_pipeline(folder, settings, threads)
    if settings.task == "ensemble":
        return _load_ensemble(folder, settings, threads)
    return Model(settings, _load_networks(folder, settings, threads))


def _load_pipeline(folder: Path, settings: Settings, threads: int) -> Pipeline:
    parts = []
    for name, task in ((SEGMENTER, "segment"), (TREECRF, "parse-words")):
        own = read_settings(folder / name, part=True)
        if own.task != task:
            raise InputError(f"{folder / name}: the task must be {task!r}, not {own.task!r}")
        parts.append(Model(own, _load_networks(folder / name, own, threads)))
    return Pipeline(settings, *parts)


def _load_ensemble(folder: Path, settings: Settings, threads: int) -> Model:
    """Load the members; the ensemble takes its settings from what they share."""
    folders = [folder / name for name in part_names(folder, settings.task)]
    members = [read_settings(member, part=True) for member in folders]
    try:
        check_members(members)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error
    networks = [_load_networks(*member, threads) for member in zip(folders, members, strict=True)]
    common = {name: getattr(members[0], name) for name in COMMON}
    return Model(replace(settings, **common), Ensemble(networks))


def _load_networks(folder: Path, settings: Settings, threads: int) -> Networks:
    """Load the networks of one model, within the time limit."""
    found: list[Networks | BaseException] = []

    def load() -> None:
        try:
            with at_work():
                found.append(_load_networks_now(folder, settings, threads))
        except BaseException as error:
            found.append(error)

    # ONNX Runtime cannot be stopped: the thread of a model that takes too long ends with the process.
    thread = threading.Thread(target=load, name="load-model", daemon=True)
    thread.start()
    if settings.can.parses and not settings.beam:
        load_kernels()  # takes as long as the networks, which are loading at the same time
    thread.join(PATIENCE)
    if not found:
        raise InputError(f"{folder}: loading took more than {PATIENCE:g} seconds and was given up")
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def _load_networks_now(folder: Path, settings: Settings, threads: int) -> Networks:
    if settings.beam and not settings.actions:
        raise InputError(f"{folder / CONFIG}: the weights of a transition parser's actions are missing")
    if not settings.can.parses and not settings.transitions:
        raise InputError(f"{folder / CONFIG}: the scores of a segmenter's tag pairs are missing")
    read_by_encoder = {"chars", "lengths"}
    if settings.bigrams:
        read_by_encoder |= {"bigrams"}
    if settings.styles:
        read_by_encoder |= {"styles"}
    read_by_scorer = {"encoded", "pool"} if settings.can.units == "words" else {"encoded"}
    labels = None
    if settings.can.parses:
        labels = _session(folder / LABELS, {"dep", "head"}, {"labels"}, threads)
    networks = Networks(
        settings,
        chars=_read(folder / CHARS, Vocabulary.from_json),
        bigrams=_read(folder / BIGRAMS, Vocabulary.from_json) if settings.bigrams else None,
        encoder=_session(folder / ENCODER, read_by_encoder, {"encoded"}, threads),
        scorer=_session(folder / SCORER, read_by_scorer, _scored(settings), threads),
        labels=labels,
        style=0 if settings.styles else None,
    )
    _try(networks, folder)
    if settings.can.finds_structures and (folder / STRUCTURES).is_file():
        networks = replace(networks, structures=_load_structures(folder, networks.chars, threads))
        _try_structures(networks, folder)
    return networks


def _scored(settings: Settings) -> set[str]:
    """Return the names of what the scorer of a model returns."""
    if not settings.can.parses:
        return {"tags"}
    arcs = {"states"} if settings.beam else {"inter", "intra"} if settings.roles == 2 else {"inter"}
    return {*arcs, "label_dep", "label_head", *settings.tags}


def _load_structures(folder: Path, vocabulary: Vocabulary, threads: int) -> StructureScorer:
    settings = _read(folder / STRUCTURES_CONFIG, InnerSettings.from_json)
    names = {"encoded", "chars", "pairs", "lengths"}
    session = _session(folder / STRUCTURES, names, {"arcs", "relations"}, threads)
    return StructureScorer(settings, vocabulary, session)


def _read(path: Path, make: Callable[[object], _Result]) -> _Result:
    """Read a JSON file and build an object from it; every error names the file."""
    data = read_json(path)
    try:
        return make(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _session(path: Path, inputs: set[str], outputs: set[str], threads: int) -> Session:
    """Open a network and check its inputs and outputs."""
    session = Session(path, threads=threads)
    for kind, wanted, found in (
        ("reads", inputs, session.inputs),
        ("returns", outputs, session.outputs),
    ):
        if set(found) != wanted:
            names = ", ".join(sorted(found)), ", ".join(sorted(wanted))
            raise InputError(
                f"{path}: the network {kind} {names[0]}; according to {CONFIG} it should be {names[1]}"
            )
    return session


def _last_character(networks: Networks) -> dict[str, Any]:
    """Return the last character of the vocabulary as a sentence; networks with a smaller vocabulary do not have it."""
    inputs = {"lengths": np.array([1])}
    for name, vocabulary in (("chars", networks.chars), ("bigrams", networks.bigrams)):
        if vocabulary is not None:
            inputs[name] = np.array([[vocabulary.bos, len(vocabulary) - 1]])
    if networks.settings.styles:
        inputs["styles"] = np.array([len(networks.settings.styles) - 1])
    return inputs


def _try(networks: Networks, folder: Path) -> None:
    """Run one character through new networks to detect files that do not belong together."""
    settings = networks.settings
    # The last axis of each output, if the settings say how long it is.
    sizes = {"inter": 2, "intra": 2, "tags": 4, "labels": len(settings.labels)}
    sizes |= {name: len(tags) for name, tags in settings.tags.items()}
    if settings.beam:
        sizes["states"] = FEATURES * (len(settings.actions[0]) - 1)
    try:
        encoded = networks.encode(_last_character(networks))
        outputs = networks.score(encoded, [[1]] if settings.can.units == "words" else None)
        arrays = {name: getattr(outputs, name) for name in networks.scorer.outputs}
        if networks.labels is not None:
            arrays["labels"] = networks.score_labels(arrays["label_dep"][0], arrays["label_head"][0])[None]
        fitting = all(x.shape == (1, 2, sizes.get(name, x.shape[-1])) for name, x in arrays.items())
        sound = all(x.dtype == np.float32 and np.isfinite(x).all() for x in arrays.values())
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        raise InputError(f"{folder}: the files of this model do not match: {first_line(error)}") from error
    if not fitting:
        raise InputError(f"{folder}: {CONFIG} and the networks have different labels")
    if not sound:
        raise InputError(f"{folder}: the networks return scores that are not finite numbers")


def _try_structures(networks: Networks, folder: Path) -> None:
    """Run one word through the structure scorer to detect files that do not belong together."""
    scorer = networks.structures
    assert scorer is not None
    try:
        encoded = networks.encode(_last_character(networks))[0]
        arcs, relations = scorer.score(encoded, [networks.chars.symbols[-1] * 2])
    except Exception as error:  # as above
        raise InputError(f"{folder / STRUCTURES}: does not match the model: {first_line(error)}") from error
    if arcs.shape != (1, 2, 3) or relations.shape != (1, 2, 2, len(scorer.settings.relations)):
        raise InputError(f"{folder}: {STRUCTURES} and {STRUCTURES_CONFIG} do not match")
