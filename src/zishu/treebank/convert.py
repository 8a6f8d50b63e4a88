"""Convert bracketed treebanks into CoNLL-U files for training, and report what was converted.

`convert_ctb` reads a copy of the Penn Chinese Treebank and writes train, dev and test files by the published splits.
`convert_brackets` converts one file from any source. A sentence that cannot be converted is skipped and listed with
file, line and reason. Output files are written completely, after everything succeeded, or not at all.

A scheme defines where heads and labels come from: `zc` uses head rules, `sd` the user's Stanford parser, `conllx` files
that the user converted with another program. `zc` keeps one sentence in memory at a time; the others keep the trees of
one output file.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from zishu.errors import FormatError, InputError
from zishu.formats.brackets import Bracketed, ByteSource, read_brackets, remove_empty
from zishu.formats.conllu import format_sentence, from_tree
from zishu.treebank.converted import find_converted, match_trees, read_converted
from zishu.treebank.ctb import dependencies, find_files
from zishu.treebank.labels import LABEL_SCHEMES, Labels
from zishu.treebank.splits import PARTS, PUBLISHED, as_ranges, file_numbers
from zishu.treebank.stanford import find_java, stanford_dependencies
from zishu.writing import check_not_input, replacing, replacing_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zishu.tree import WordTree

    # The name of a sentence, and its tree without empty elements.
    NamedSentence = tuple[str, Bracketed]
    Method = Callable[[Iterable[NamedSentence]], Iterator[tuple[NamedSentence, WordTree | str]]]

Scheme = Literal["zc", "sd", "conllx"]
SCHEMES: tuple[Scheme, ...] = ("zc", "sd", "conllx")


@dataclass(frozen=True, slots=True)
class SkippedSentence:
    """Describe a sentence that is not in the output, with the reason."""

    path: str
    line: int
    reason: str


@dataclass(slots=True)
class FileCounts:
    """Count what was written to one output file."""

    files: int = 0
    sentences: int = 0
    words: int = 0
    projective: int = 0
    published: int | None = None  # number of sentences in the paper
    missing: list[str] = field(default_factory=list)  # numbers of the split that have no file, as ranges
    problems: list[SkippedSentence] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """Hold the counts of a conversion, by output file."""

    scheme: Scheme
    version: str | None
    parts: dict[str, FileCounts]
    unused: list[str] = field(default_factory=list)  # numbers of files that belong to no part of the split

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return asdict(self)


def convert_ctb(
    directory: Path,
    out: Path,
    *,
    version: str,
    scheme: Scheme = "zc",
    labels: Labels = "malt",
    jar: Path | None = None,
    converted: Path | None = None,
    encoding: str | None = None,
) -> Report:
    """Write train.conllu, dev.conllu and test.conllu into a folder, from a copy of the treebank.

    `jar` is the Stanford parser for `sd`, `converted` is the folder of files for `conllx`, `labels` is for `zc`.
    """
    _check(scheme, labels, jar, converted)
    wanted = {part: file_numbers(version, part) for part in PARTS}
    files = find_files(directory)
    if not any(number in files for numbers in wanted.values() for number in numbers):
        raise InputError(f"{directory}: none of the {len(files)} files is in the split of version {version}")
    used = {number for numbers in wanted.values() for number in numbers}
    report = Report(scheme, version, {}, as_ranges(files.keys() - used))
    out.mkdir(parents=True, exist_ok=True)
    with replacing_all(out / f"{part}.conllu" for part in PARTS) as files_out:
        for (part, numbers), file in zip(wanted.items(), files_out, strict=True):
            present = [number for number in numbers if number in files]
            counts = FileCounts(files=len(present), published=PUBLISHED.get(version, {}).get(part))
            counts.missing = as_ranges(set(numbers).difference(present))
            report.parts[part] = counts
            sources = ((files[number], f"chtb_{number:04d}") for number in present)
            given = find_converted(converted, part, present) if converted else []
            method = partial(_dependencies, scheme=scheme, labels=labels, jar=jar, converted=given)
            file.writelines(text.encode("utf-8") for text in _convert(sources, counts, method, encoding))
    return report


def convert_brackets(
    source: ByteSource,
    output: TextIO | Path,
    *,
    name: str = "sentence",
    scheme: Scheme = "zc",
    labels: Labels = "malt",
    jar: Path | None = None,
    converted: Path | None = None,
    encoding: str | None = None,
) -> Report:
    """Convert one file of trees; sentences are named `name-s1`, `name-s2` and so on. `converted` is a file."""
    _check(scheme, labels, jar, converted)
    given = [converted] if converted else []
    method = partial(_dependencies, scheme=scheme, labels=labels, jar=jar, converted=given)
    counts = FileCounts(files=1)
    texts = _convert([(source, name)], counts, method, encoding)
    if isinstance(output, Path):
        check_not_input(output, source)
        with replacing(output) as file:
            file.writelines(text.encode("utf-8") for text in texts)
    else:
        output.writelines(texts)
    return Report(scheme, None, {name: counts})


def _check(scheme: Scheme, labels: Labels, jar: Path | None, converted: Path | None) -> None:
    """Reject invalid combinations of options before anything is read."""
    if scheme not in SCHEMES:
        raise InputError(f"unknown scheme {scheme!r}: choose from {', '.join(SCHEMES)}")
    if labels not in LABEL_SCHEMES:
        raise InputError(f"unknown labels {labels!r}: choose from {', '.join(LABEL_SCHEMES)}")
    if labels != "malt" and scheme != "zc":
        raise InputError(f"--labels works only with the scheme zc, not {scheme}")
    if scheme == "sd" and jar is None:
        raise InputError("the scheme sd needs the Stanford parser: give its jar (--stanford-jar)")
    if scheme == "conllx" and converted is None:
        raise InputError("the scheme conllx needs converted files (--from)")
    if jar is not None and scheme != "sd":
        raise InputError(f"the scheme {scheme} does not use a Stanford parser")
    if converted is not None and scheme != "conllx":
        raise InputError(f"the scheme {scheme} does not use converted files")
    if jar is not None:
        find_java(jar)


def _dependencies(
    sentences: Iterable[NamedSentence],
    scheme: Scheme,
    labels: Labels,
    jar: Path | None,
    converted: list[Path],
) -> Iterator[tuple[NamedSentence, WordTree | str]]:
    """Yield every sentence with its dependencies, or with the reason why it has none."""
    if scheme == "zc":
        for name, source in sentences:
            yield (name, source), dependencies(source.tree, labels)
        return
    batch = list(sentences)
    trees = [source.tree for _, source in batch]
    found = stanford_dependencies(trees, jar) if jar else match_trees(trees, read_converted(converted))
    yield from zip(batch, found, strict=True)


def _convert(
    sources: Iterable[tuple[ByteSource, str]], counts: FileCounts, method: Method, encoding: str | None
) -> Iterator[str]:
    """Yield the trees of several files as CoNLL-U, one sentence at a time, and count them."""
    sentences = (
        sentence for source, name in sources for sentence in _read(source, name, encoding, counts.problems)
    )
    for (sent_id, source), tree in method(sentences):
        if isinstance(tree, str):
            counts.problems.append(SkippedSentence(source.path, source.line, tree))
            continue
        done = from_tree(tree, sent_id)
        if source.sentence_id:
            done.comments.append(f"# ctb_id = {source.sentence_id}")
        counts.sentences += 1
        counts.words += len(tree.forms)
        counts.projective += tree.is_projective
        yield format_sentence(done)
    counts.problems.sort(key=lambda problem: (problem.path, problem.line))


def _read(
    source: ByteSource, name: str, encoding: str | None, problems: list[SkippedSentence]
) -> Iterator[NamedSentence]:
    """Yield the sentences of one file that have words; record the others as problems."""

    def note(error: FormatError) -> None:
        reason = str(error).removeprefix(f"{error.path}:{error.line}: ")
        problems.append(SkippedSentence(error.path, error.line, reason))

    for item in read_brackets(source, encoding=encoding, on_error=note):
        if tree := remove_empty(item.tree):
            yield f"{name}-s{item.number}", replace(item, tree=tree)
        else:
            problems.append(SkippedSentence(item.path, item.line, "a sentence without words"))
