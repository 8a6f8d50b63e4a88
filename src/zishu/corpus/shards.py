"""Parse many files into many: find the inputs, keep the manifest, write one shard. Independent of Ray.

Every input file becomes one shard, a file below the output folder: `news/a.txt.gz` of the pattern `corpus/**/*.gz`
becomes `news/a.txt.conllu.gz`, compressed like the input. Different inputs have different shards, and the name of a
shard does not depend on the other inputs. Files are not split: a worker writes what a single process would write for
that file, including sentence numbers.

`manifest.json` beside the shards has the size and stamp (time or ETag) of each input, and the bytes, sentences and
characters of its shard, or the error. A shard is done if the manifest says so, the input is unchanged, and the shard
exists with the recorded size. Parsing a shard again is harmless: it is replaced atomically, with the same content.

    {"zishu": "0.1.0", "options": {"format": "conllu", ...}, "shards": [
      {"input": "corpus/a.txt", "size": 1048576, "stamp": "1763262000000000000", "shard": "a.txt.conllu", "bytes": 31457280,
       "sentences": 12345, "characters": 349525, "seconds": 41.5, "attempts": 1, "error": null}, ...]}
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from typing import Any, Final

from zishu import __version__
from zishu.compression import plain_name
from zishu.corpus.claim import check_options
from zishu.corpus.documents import RawDocument
from zishu.corpus.storage import inside, join, read, storage, write
from zishu.errors import InputError, ZishuError, explain, one_line
from zishu.reading import Errors, Input
from zishu.writing import Output

MANIFEST: Final = "manifest.json"

_INTERVAL: Final = 1.0  # minimum number of seconds between two manifests
_SHARE: Final = 0.05  # maximum share of the time spent on writing manifests


class CannotWrite(ZishuError):
    """Signal that the output cannot be written: not the document's fault, and the next one would fail, too."""


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """Hold an input file, the name of its shard in the output folder, and the result: a line of the manifest."""

    input: str
    size: int  # bytes of the input
    stamp: str
    shard: str
    # The result; zeros if there is none.
    bytes: int = 0
    sentences: int = 0
    characters: int = 0
    seconds: float = 0.0
    attempts: int = 1
    error: str | None = None


# A function that parses a document: for each chunk of it, the formatted analyses of every sentence.
Work = Callable[[RawDocument], Iterable[list[list[str]]]]


def find_shards(inputs: Sequence[str], output: str, ending: str) -> list[ShardEntry]:
    """Return the shards of names, folders and patterns, those of the largest files first.

    A large file that started last would delay the end of the run. The output folder may lie inside an input folder;
    files in it are not inputs.
    """
    entries: dict[str, ShardEntry] = {}
    for pattern in inputs:
        found = storage(pattern).find(pattern)
        if not found:
            raise InputError(f"{pattern}: no such file")
        outside = [file for file in found if not inside(file.path, output)]
        if not outside:
            raise InputError(f"{found[0].path}: is in the output folder {output}")
        for file in outside:
            name = shard_name(file.name, ending)
            other = entries.setdefault(name, ShardEntry(file.path, file.size, file.stamp, name))
            if other.input != file.path:
                raise InputError(f"{other.input} and {file.path}: both would be {join(output, name)}")
    return sorted(entries.values(), key=lambda entry: (-entry.size, entry.shard))


def shard_name(name: str, ending: str) -> str:
    """Return the name of an input's shard: `a.txt.gz` becomes `a.txt.conllu.gz`."""
    plain = plain_name(name)
    return plain + ending + name[len(plain) :]


class Manifest:
    """Keep track of finished shards, in memory and in a file beside the shards."""

    def __init__(self, output: str, options: Mapping[str, Any], entries: Iterable[ShardEntry] = ()) -> None:
        self.path: Final = join(output, MANIFEST)
        self._output = output
        # Converted to plain JSON values, to compare them with those of a file.
        self._options = json.loads(json.dumps(dict(options)))
        self._entries = {entry.shard: entry for entry in entries}
        # One listing: asking cloud storage about each of very many shards would take hours.
        self._sizes = storage(output).sizes(output) if self._entries else {}
        self._next = 0.0

    @classmethod
    def open(cls, output: str, options: Mapping[str, Any], *, resume: bool) -> Manifest:
        """Begin a manifest, or continue one, which must have the same options and version."""
        path = join(output, MANIFEST)
        content = read(path)
        if content is None:
            return cls(output, options)
        if not resume:
            raise InputError(f"{output}: contains an earlier run: use --resume or another output folder")
        known = {field.name for field in fields(ShardEntry)}
        try:
            data = json.loads(content.decode("utf-8", "surrogatepass"))
            entries = [ShardEntry(**{key: row[key] for key in row.keys() & known}) for row in data["shards"]]
            before = {"zishu": data["zishu"], **data["options"]}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(f"{path}: not a Zishu manifest") from None
        manifest = cls(output, options, entries)
        check_options(before, {"zishu": __version__, **manifest._options}, path)
        return manifest

    def done(self, entry: ShardEntry) -> bool:
        """Tell whether an earlier run finished this shard, and its input is unchanged."""
        before = self._entries.get(entry.shard)
        if before is None or before.error is not None:
            return False
        same = (before.input, before.size, before.stamp) == (entry.input, entry.size, entry.stamp)
        return same and self._sizes.get(entry.shard) == before.bytes

    def add(self, entry: ShardEntry) -> None:
        """Add the result of an input; the file is written soon after, or by `save`."""
        self._entries[entry.shard] = entry
        if time.monotonic() >= self._next:
            self.save()

    def save(self) -> None:
        """Write the manifest. After a crash, the next run parses again what is missing from it."""
        began = time.monotonic()
        lines = [
            json.dumps(asdict(self._entries[name]), ensure_ascii=False) for name in sorted(self._entries)
        ]
        head = json.dumps({"zishu": __version__, "options": self._options}, ensure_ascii=False)
        rows = ",\n".join(lines)
        text = f'{head[:-1]}, "shards": [\n{rows}\n]}}\n'
        # A file name may contain bytes that are not UTF-8, which Python represents as lone surrogates.
        content = text.encode("utf-8", "surrogatepass")
        with _writing(self.path):
            write(self.path, content, self._output)
        now = time.monotonic()
        # A manifest of very many shards takes longer to write, so it is written less often.
        self._next = now + max(_INTERVAL, (now - began) / _SHARE)


def write_shard(
    entry: ShardEntry, output: str, work: Work, *, errors: Errors = "strict", encoding: str = "utf-8"
) -> ShardEntry:
    """Parse an input into its shard, which appears when it is complete, and return the result.

    An error of the input or of the parser is recorded in the result. Only `CannotWrite` is raised.
    """
    began = time.monotonic()
    local, target = entry.input, join(output, entry.shard)
    count = 0
    try:
        with contextlib.ExitStack() as stack:
            local = str(stack.enter_context(storage(entry.input).local(entry.input)))
            text = stack.enter_context(Input(local, errors=errors, encoding=encoding))
            with _writing(target):
                file = stack.enter_context(_guarded(storage(output).staged(target, output), target))
                out = stack.enter_context(Output(file))
            for sentences in work(RawDocument(text.name, text.blocks())):
                with _writing(target):
                    out.write("".join(chain.from_iterable(sentences)))
                count += len(sentences)
            with _writing(target):
                out.close()
            size = file.stat().st_size
        entry = replace(entry, bytes=size, sentences=count, characters=text.characters)
    except CannotWrite:
        raise
    except Exception as error:
        # Not only `InputError`: one document must not end a run of thousands, whatever it does to the parser.
        entry = replace(entry, error=explain(error).replace(local, entry.input))
    return replace(entry, seconds=round(time.monotonic() - began, 3))


@contextlib.contextmanager
def _writing(target: str, errors: type[Exception] = OSError) -> Iterator[None]:
    try:
        yield
    except errors as error:
        reason = getattr(error, "strerror", None) or one_line(str(error))
        raise CannotWrite(f"{target}: {reason}") from error


@contextlib.contextmanager
def _guarded(staged: contextlib.AbstractContextManager[Any], target: str) -> Iterator[Any]:
    """Distinguish errors of moving the file into place, at the end of the block, from those of the block."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(staged)
        yield file
        with _writing(target, Exception):  # fsspec plug-ins raise all kinds of errors
            stack.close()
