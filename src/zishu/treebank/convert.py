"""Convert bracketed treebanks into CoNLL-U files for training, and report what was converted.

`convert_ctb` reads a copy of the Penn Chinese Treebank and writes train, dev and test files by the published splits.
`convert_brackets` converts one file from any source. A sentence that cannot be converted is skipped and listed with
file, line and reason. Output files are written completely, after everything succeeded, or not at all.

A scheme defines where heads and labels come from: `zc` uses head rules, `sd` the user's Stanford parser, `conllx` files
that the user converted with another program. `zc` keeps one sentence in memory at a time; the others keep the trees of
one output file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from zishu.errors import FormatError, InputError
from zishu.formats.brackets import Bracketed, ByteSource, read_brackets, remove_empty
from zishu.formats.conllu import format_sentence, from_tree
from zishu.treebank.converted import find_converted, match_trees, read_converted
from zishu.treebank.head_rules import dependencies
from zishu.treebank.splits import PARTS, PUBLISHED, as_ranges, file_numbers, find_files
from zishu.treebank.stanford import find_java, stanford_dependencies
from zishu.writing import check_not_input, replacing, replacing_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zishu.tree import WordTree
    from zishu.treebank.labels import Labels

    # The name of a sentence, and its tree without empty elements.
    NamedSentence = tuple[str, Bracketed]

Scheme = Literal["zc", "sd", "conllx"]


@dataclass(frozen=True, slots=True)
class Method:
    """Say where heads and labels come from; reject invalid combinations before anything is read."""

    scheme: Scheme = "zc"
    labels: Labels = "malt"  # for zc
    jar: Path | None = None  # the Stanford parser, for sd
    converted: Path | None = None  # a folder or, for one file of trees, a file; for conllx
    encoding: str | None = None  # of the trees; None: detected

    def __post_init__(self) -> None:
        if self.labels != "malt" and self.scheme != "zc":
            raise InputError(f"--labels works only with the scheme zc, not {self.scheme}")
        if self.scheme == "sd" and self.jar is None:
            raise InputError("the scheme sd needs the Stanford parser: give its jar (--stanford-jar)")
        if self.scheme == "conllx" and self.converted is None:
            raise InputError("the scheme conllx needs converted files (--from)")
        if self.jar is not None and self.scheme != "sd":
            raise InputError(f"the scheme {self.scheme} does not use a Stanford parser")
        if self.converted is not None and self.scheme != "conllx":
            raise InputError(f"the scheme {self.scheme} does not use converted files")
        if self.jar is not None:
            find_java(self.jar)


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


def convert_ctb(directory: Path, out: Path, version: str, method: Method) -> Report:
    """Write train.conllu, dev.conllu and test.conllu into a folder, from a copy of the treebank."""
    wanted = {part: file_numbers(version, part) for part in PARTS}
    files = find_files(directory)
    used = {number for numbers in wanted.values() for number in numbers}
    if used.isdisjoint(files):
        raise InputError(f"{directory}: none of the {len(files)} files is in the split of version {version}")
    report = Report(method.scheme, version, {}, as_ranges(files.keys() - used))
    out.mkdir(parents=True, exist_ok=True)
    with replacing_all(out / f"{part}.conllu" for part in PARTS) as files_out:
        for (part, numbers), file in zip(wanted.items(), files_out, strict=True):
            present = [number for number in numbers if number in files]
            counts = FileCounts(files=len(present), published=PUBLISHED.get(version, {}).get(part))
            counts.missing = as_ranges(set(numbers).difference(present))
            report.parts[part] = counts
            sources = ((files[number], f"chtb_{number:04d}") for number in present)
            converted = find_converted(method.converted, part, present) if method.converted else []
            texts = _convert(sources, counts, method, converted)
            file.writelines(text.encode("utf-8") for text in texts)
    return report


def convert_brackets(source: ByteSource, output: TextIO | Path, name: str, method: Method) -> Report:
    """Convert one file of trees; sentences are named `name-s1`, `name-s2` and so on."""
    counts = FileCounts(files=1)
    texts = _convert([(source, name)], counts, method, [method.converted] if method.converted else [])
    if isinstance(output, Path):
        check_not_input(output, source)
        with replacing(output) as file:
            file.writelines(text.encode("utf-8") for text in texts)
    else:
        output.writelines(texts)
    return Report(method.scheme, None, {name: counts})


def _convert(
    sources: Iterable[tuple[ByteSource, str]], counts: FileCounts, method: Method, converted: list[Path]
) -> Iterator[str]:
    """Yield the trees of several files as CoNLL-U, one sentence at a time, and count them."""
    sentences = (
        sentence
        for source, name in sources
        for sentence in _read(source, name, method.encoding, counts.problems)
    )
    for (sent_id, source), tree in _dependencies(sentences, method, converted):
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


def _dependencies(
    sentences: Iterable[NamedSentence], method: Method, converted: list[Path]
) -> Iterator[tuple[NamedSentence, WordTree | str]]:
    """Yield every sentence with its dependencies, or with the reason why it has none."""
    if method.scheme == "zc":
        for name, source in sentences:
            yield (name, source), dependencies(source.tree, method.labels)
        return
    batch = list(sentences)
    trees = [source.tree for _, source in batch]
    if method.jar:
        found = stanford_dependencies(trees, method.jar)
    else:
        found = match_trees(trees, read_converted(converted))
    yield from zip(batch, found, strict=True)


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
