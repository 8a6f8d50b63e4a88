"""Load a trained parser and run it with ONNX Runtime: characters in, trees out.

    model = load_model("path/to/model")
    analyses = model.parse([list("上海计划发展金融业"), ...])
    analyses = model.parse_words([["上海", "计划", "发展", "金融业"], ...])

Sentences are run in batches of about equal length, and results come in the order of the input. What a
sentence's neighbours in a batch are does not matter, up to the last bits of floating point. A loaded model
never changes, so several threads may use it at once. Reading a model directory runs no code of it, and what
is wrong with one is an `InputError` in one line. Cutting text into sentences and characters is
`zishu.text`.

Cost: the encoder's, then that of `zishu.model.decode`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import onnxruntime

from zishu.errors import InputError
from zishu.model.decode import Outputs, decode, decode_words, word_gaps
from zishu.model.features import batches, features, pooling
from zishu.model.settings import (
    BIGRAMS,
    CHARS,
    CONFIG,
    ENCODER,
    LABELS,
    SCORER,
    SEGMENTER,
    TREECRF,
    Settings,
    read_json,
)
from zishu.model.vocabulary import Vocabulary
from zishu.model.windows import plan_windows
from zishu.text import characters

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from zishu.model.decode import Analysis, Floats, Gaps

    Sentences = Sequence[Sequence[str]]

_Result = TypeVar("_Result")

# Characters in one run, padding counted: enough to keep the cores busy, little enough for the caches.
BATCH_CHARS: Final = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A parser of characters or of words, or a segmenter."""

    settings: Settings
    chars: Vocabulary
    bigrams: Vocabulary | None
    encoder: Any  # onnxruntime.InferenceSession, three times
    scorer: Any
    labels: Any | None  # None for a segmenter
    batch_chars: int = BATCH_CHARS

    def parse(self, sentences: Sentences, gaps: Sequence[Gaps | None] | None = None) -> list[Analysis]:
        """Parse sentences of characters; `gaps` is what is known of their words (see `zishu.model.decode`)."""
        if self.settings.task != "parse":
            raise InputError(f"a model for the task {self.settings.task!r} cannot parse characters")

        def work(batch: list[int]) -> list[Analysis]:
            units = [sentences[k] for k in batch]
            known = None if gaps is None else [gaps[k] for k in batch]
            return decode(self.run(units), units, self.settings, self.score_labels, gaps=known)

        return self._in_batches(sentences, gaps, work)

    def parse_words(self, sentences: Sentences) -> list[Analysis]:
        """Parse sentences of words; the trees have exactly these words."""
        if self.settings.task == "segment":
            raise InputError("a segmenter cannot parse")
        chars, lengths = _split(sentences)
        if self.settings.task == "parse":
            return self.parse(chars, [word_gaps(sizes) for sizes in lengths])

        def work(batch: list[int]) -> list[Analysis]:
            outputs = self.run([chars[k] for k in batch], [lengths[k] for k in batch])
            return decode(outputs, [sentences[k] for k in batch], self.settings, self.score_labels)

        return self._in_batches(chars, None, work)

    def segment(
        self, sentences: Sentences, gaps: Sequence[Gaps | None] | None = None
    ) -> list[tuple[str, ...]]:
        """Cut sentences of characters into words, with a segmenter."""
        if self.settings.task != "segment":
            raise InputError(f"a model for the task {self.settings.task!r} is no segmenter")

        def work(batch: list[int]) -> list[tuple[str, ...]]:
            units = [sentences[k] for k in batch]
            known = None if gaps is None else [gaps[k] for k in batch]
            return decode_words(self.run(units), units, self.settings, gaps=known)

        return self._in_batches(sentences, gaps, work)

    def run(self, sentences: Sentences, word_lengths: Sequence[Sequence[int]] | None = None) -> Outputs:
        """Return the network's scores for one batch; a parser of words is told the lengths of the words."""
        return self.score(self.encode(features(sentences, self.chars, self.bigrams)), word_lengths)

    def encode(self, arrays: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        """Encode a batch of sentences in numbers (see `features`), long ones in overlapping windows."""
        encoded: NDArray[np.float32]
        size, lengths = self.settings.window, arrays["lengths"]
        if not size or lengths.max() <= size:
            [encoded] = self.encoder.run(["encoded"], dict(arrays))
            return encoded
        plan = plan_windows(lengths, size, self.settings.window_overlap)
        windows = {
            name: array[plan.sentence[:, None], plan.position]
            for name, array in arrays.items()
            if name != "lengths"
        }
        [encoded] = self.encoder.run(["encoded"], {**windows, "lengths": plan.lengths})
        return encoded[plan.window, plan.place]

    def score(
        self, encoded: NDArray[np.float32], word_lengths: Sequence[Sequence[int]] | None = None
    ) -> Outputs:
        """Return the scores of what was encoded."""
        inputs = {"encoded": encoded}
        if word_lengths is not None:
            inputs["pool"] = pooling(word_lengths)
        names = [output.name for output in self.scorer.get_outputs()]
        return Outputs.from_mapping(dict(zip(names, self.scorer.run(names, inputs), strict=True)))

    def score_labels(self, dependents: Floats, heads: Floats) -> Floats:
        """Return the log-probabilities `[m, labels]` of the labels of m arcs."""
        assert self.labels is not None
        scored: Floats
        [scored] = self.labels.run(["labels"], {"dep": dependents, "head": heads})
        return scored

    def _in_batches(
        self,
        sentences: Sentences,
        gaps: Sequence[Gaps | None] | None,
        work: Callable[[list[int]], list[_Result]],
    ) -> list[_Result]:
        """Do the work on batches of sentences, given by number, and put the results in order."""
        for k, sentence in enumerate(sentences):
            if not sentence:
                raise InputError(f"sentence {k} is empty")
        if gaps is not None and len(gaps) != len(sentences):
            raise InputError(f"gaps for {len(gaps)} sentences, but there are {len(sentences)}")
        results: dict[int, _Result] = {}
        for numbers in batches([len(sentence) for sentence in sentences], self.batch_chars):
            batch = numbers.tolist()
            results.update(zip(batch, work(batch), strict=True))
        return [results[k] for k in range(len(sentences))]


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A segmenter and a parser of words, one after the other; used like a `Model`."""

    settings: Settings
    segmenter: Model
    parser: Model

    def parse(self, sentences: Sentences, gaps: Sequence[Gaps | None] | None = None) -> list[Analysis]:
        """Cut sentences of characters into words and parse these."""
        return self.parser.parse_words(self.segmenter.segment(sentences, gaps))

    def parse_words(self, sentences: Sentences) -> list[Analysis]:
        """Parse sentences of words."""
        return self.parser.parse_words(sentences)

    def segment(
        self, sentences: Sentences, gaps: Sequence[Gaps | None] | None = None
    ) -> list[tuple[str, ...]]:
        """Cut sentences of characters into words."""
        return self.segmenter.segment(sentences, gaps)


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
    if settings.task != "pipeline":
        return _load_single(folder, settings, threads)
    parts = []
    for name, task in ((SEGMENTER, "segment"), (TREECRF, "parse-words")):
        part = load_model(folder / name, threads=threads)
        if not isinstance(part, Model) or part.settings.task != task:
            raise InputError(f"{folder / name}: the task must be {task!r}, not {part.settings.task!r}")
        parts.append(part)
    return Pipeline(settings, *parts)


def _load_single(folder: Path, settings: Settings, threads: int) -> Model:
    parses = settings.task != "segment"
    outputs = {"tags"}
    if parses:
        outputs = {"inter", "label_dep", "label_head"}
        outputs |= {"intra"} if settings.roles == 2 else set()
        outputs |= {"upos"} if settings.upos else set()
    elif not settings.transitions:
        raise InputError(f"{folder / CONFIG}: the scores of a segmenter's tag pairs are missing")
    model = Model(
        settings,
        chars=_read(folder / CHARS, Vocabulary.from_json),
        bigrams=_read(folder / BIGRAMS, Vocabulary.from_json) if settings.bigrams else None,
        encoder=_session(
            folder / ENCODER,
            {"chars", "lengths"} | ({"bigrams"} if settings.bigrams else set()),
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
    )
    _try(model, folder)
    return model


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


def _try(model: Model, folder: Path) -> None:
    """Run one character through a fresh model, so that files that do not belong together are found out now.

    It is the last one of the vocabulary, which a network that was trained with a smaller one does not know.
    """
    settings = model.settings
    inputs = {"lengths": np.array([1])}
    for name, vocabulary in (("chars", model.chars), ("bigrams", model.bigrams)):
        if vocabulary is not None:
            inputs[name] = np.array([[vocabulary.bos, len(vocabulary) - 1]])
    sizes = {"upos": len(settings.upos), "tags": 4}
    try:
        outputs = model.score(model.encode(inputs), [[1]] if settings.task == "parse-words" else None)
        fitting = [
            getattr(outputs, name) is None or getattr(outputs, name).shape[2] == size
            for name, size in sizes.items()
        ]
        if outputs.label_dep is not None and outputs.label_head is not None:
            scored = model.score_labels(outputs.label_dep[0], outputs.label_head[0])
            fitting.append(scored.shape[1] == len(settings.labels))
    except Exception as error:  # as above
        raise InputError(f"{folder}: the files of this model do not fit: {_first_line(error)}") from error
    if not all(fitting):
        raise InputError(f"{folder}: {CONFIG} has other labels than the networks")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _split(sentences: Sentences) -> tuple[list[list[str]], list[list[int]]]:
    """Split sentences of words into their characters, and count those of each word."""
    chars, lengths = [], []
    for k, words in enumerate(sentences):
        parts = [characters(word) for word in words]
        for word, part in zip(words, parts, strict=True):
            if not part or word.isspace():
                raise InputError(f"sentence {k} holds an empty word")
        chars.append([char for part in parts for char in part])
        lengths.append([len(part) for part in parts])
    return chars, lengths
