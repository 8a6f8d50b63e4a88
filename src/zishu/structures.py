"""Read and check the lexicon of word structures: heads and relations between the characters of a word.

The lexicon is a text file with one entry per line. An entry has the word, its parts of speech (UPOS, joined by
commas), and one field per character: the number of its head and the relation to it, or 0 for the root.

    火车站 NOUN 2:att 3:att 0
    才能 NOUN 0 1:coo
    才能 ADV,AUX 2:adv 0

A word has several lines only if its structure depends on the part of speech. Blank lines and lines that begin with #
are ignored. The relations and how to choose among them are described in docs/word-structure.md.

The reader is the checker. It raises `FormatError` with file and line for anything but words of Chinese characters with
one projective tree, known relations on the right side of their heads, known tags, and no duplicates. Reading the
bundled lexicon takes a fraction of a second. This module knows nothing about parsing or models.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Final

import regex

from zishu.errors import FormatError, InvalidTree
from zishu.reading import Source, read_lines, source_name
from zishu.tags import UPOS
from zishu.tree import ROOT_LABEL, check_heads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Relations whose dependent precedes its head, and those whose dependent follows it, with their names for readers.
BEFORE: Final = {
    "att": "attribute",  # of a noun, or base of a word-forming element: 火<车, 科学<家
    "adv": "adverbial",  # modifier of a verb, adjective or adverb: 热<爱, 不<同
    "sbj": "subject",  # of a predicate: 地<震, 年<轻
    "pre": "prefix",  # 老<师, 第<一
}
BEHIND: Final = {
    "coo": "coordination",  # 朋>友, 大>小
    "obj": "object",  # of a verb or preposition: 毕>业, 因>此
    "cmp": "complement",  # of a verb: 提>高, 看>到, 起>来
    "cls": "measure word",  # after its noun: 人>口, 车>辆
    "suf": "suffix",  # 桌>子, 我>们, 突>然
    "red": "reduplication",  # 妈>妈, 常>常
    "una": "unanalysable",  # part of such a word: 葡>萄, 巴>黎
}
RELATIONS: Final = BEFORE | BEHIND

CLASSES: Final = 3  # of frequency, see `words_in_text`

_CHINESE = regex.compile(r"\p{Han}+")
_COMPLETING: Final = frozenset("子头儿")
_ARC = regex.compile(r"([1-9][0-9]*):([a-z]+)")


@dataclass(frozen=True, slots=True)
class Structure:
    """Hold the tree inside a word. Characters are numbered from 1; the root has head 0 and relation "root"."""

    form: str
    upos: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]

    def __str__(self) -> str:
        arcs = (
            f"{head}:{relation}" if head else "0"
            for head, relation in zip(self.heads, self.relations, strict=True)
        )
        return f"{self.form} {','.join(self.upos)} {' '.join(arcs)}"


def load_structures() -> list[Structure]:
    """Return the entries of the bundled lexicon."""
    with as_file(files("zishu") / "data" / "structures.txt") as path:
        return read_structures(path)


@lru_cache(maxsize=1)
def bundled_structures() -> Mapping[str, tuple[str, ...]]:
    """Return the bundled lexicon as text: words, and the structures of each (`2:att 3:att 0`), almost always one.

    Nothing is checked here: a model needs this on loading, and the tests check the file.
    """
    found: dict[str, tuple[str, ...]] = {}
    for line in _data_lines("structures.txt"):
        form, _, arcs = line.split(" ", 2)
        found[form] = (*found.get(form, ()), arcs)
    return found


@lru_cache(maxsize=1)
def words_in_text() -> Mapping[str, int]:
    """Return frequent words of two characters and their classes: 1 (rare) to `CLASSES` (frequent).

    The structure scorer needs this to divide longer words. Nothing is checked here, as above.
    """
    found: dict[str, int] = {}
    for line in _data_lines("words.txt"):
        number, words = line.split(" ")
        found |= dict.fromkeys(map("".join, zip(words[::2], words[1::2], strict=True)), int(number))
    return found


def _data_lines(name: str) -> list[str]:
    """Return the lines of a data file without comments and blank lines."""
    text = (files("zishu") / "data" / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def read_structures(source: Source) -> list[Structure]:
    """Read a lexicon from a path or an open stream and check every entry."""
    name = source_name(source)
    entries = []
    earlier: dict[str, list[Structure]] = {}
    for number, line in enumerate(read_lines(source, name), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        entry, problem = _parse(line)
        homographs = earlier.setdefault(entry.form, [])
        problem = problem or _problem(entry, homographs)
        if problem:
            raise FormatError(f"{entry.form}: {problem}", path=name, line=number)
        homographs.append(entry)
        entries.append(entry)
    return entries


def by_form(entries: Iterable[Structure]) -> dict[str, tuple[Structure, ...]]:
    """Group entries by word; almost every word has one."""
    groups: dict[str, tuple[Structure, ...]] = {}
    for entry in entries:
        groups[entry.form] = (*groups.get(entry.form, ()), entry)
    return groups


@lru_cache(maxsize=65536)
def is_chinese(form: str) -> bool:
    """Tell whether a word consists of Chinese characters alone: only such words have a structure."""
    return _CHINESE.fullmatch(form) is not None


def formation(chars: Sequence[str], heads: Sequence[int], relations: Sequence[str]) -> str:
    """Describe how a word is formed: its parts in brackets, and the relation between the two largest.

    火车站 with the tree 2:att 3:att 0 is `[[火 车] 站] attribute`. Objects and complements join their head before the
    characters to its left do, and so do repeated characters (小 星星) and suffixes that complete a word (小 猴子). Other
    suffixes and repeated words join after them. The parts of an unanalysable word join all at once.
    """
    if len(chars) == 1:
        return chars[0]
    text, relation = _part(chars, heads, relations, heads.index(0) + 1)
    return f"{text} {RELATIONS.get(relation, relation)}"


def _part(chars: Sequence[str], heads: Sequence[int], relations: Sequence[str], root: int) -> tuple[str, str]:
    """Return the part of a word below a character, and the relation between its two largest parts."""
    dependents = [d for d, head in enumerate(heads, start=1) if head == root]
    # From the nearest to the farthest on each side; lists are consumed from the end.
    before = [d for d in dependents if d < root]
    behind = [d for d in dependents if d > root][::-1]
    flat = []
    while behind and relations[behind[-1] - 1] == "una":
        flat.append(_part(chars, heads, relations, behind.pop())[0])
    text, relation = chars[root - 1], ""
    if flat:
        text, relation = f"[{' '.join([text, *flat])}]", "una"
    while before or behind:
        nearest = behind[-1] if behind else 0
        last = (relations[nearest - 1] == "suf" and chars[nearest - 1] not in _COMPLETING) or (
            relations[nearest - 1] == "red" and nearest > root + 1
        )
        if behind and not (before and last):
            dependent = behind.pop()
            text = f"[{text} {_part(chars, heads, relations, dependent)[0]}]"
        else:
            dependent = before.pop()
            text = f"[{_part(chars, heads, relations, dependent)[0]} {text}]"
        relation = relations[dependent - 1]
    return text, relation


def _parse(line: str) -> tuple[Structure, str]:
    """Parse one line; return the entry and what is wrong with its fields, if anything."""
    form, *rest = line.split()
    upos = tuple(rest[0].split(",")) if rest else ()
    heads: list[int] = []
    relations: list[str] = []
    problem = "" if len(rest) > 1 else "expected a word, its parts of speech and one field per character"
    for field in rest[1:]:
        arc = _ARC.fullmatch(field)
        if arc is None and field != "0":
            problem = problem or f"expected 0 or HEAD:RELATION, found {field!r}"
        heads.append(int(arc[1]) if arc else 0)
        relations.append(arc[2] if arc else ROOT_LABEL)
    return Structure(form, upos, tuple(heads), tuple(relations)), problem


def _problem(entry: Structure, homographs: list[Structure]) -> str:
    """Say what is wrong with an entry, or return an empty string."""
    if len(entry.form) < 2 or not is_chinese(entry.form):
        return "not a word of two or more Chinese characters"
    if unknown := sorted(set(entry.upos) - UPOS):
        return f"unknown part of speech {unknown[0]!r}"
    if len(set(entry.upos)) < len(entry.upos):
        return "a part of speech is listed twice"
    if len(entry.heads) != len(entry.form):
        return f"{len(entry.form)} characters but {len(entry.heads)} heads"
    try:
        check_heads(entry.heads, kind="character", projective=True)
    except InvalidTree as error:
        return str(error)
    for dependent, (head, relation) in enumerate(zip(entry.heads, entry.relations, strict=True), start=1):
        if head and relation not in RELATIONS:
            return f"unknown relation {relation!r}"
        if head and (relation in BEFORE) != (dependent < head):
            side = "before" if relation in BEFORE else "behind"
            return f"character {dependent} is {relation!r}, so it must stand {side} its head"
    for other in homographs:
        if other.heads == entry.heads and other.relations == entry.relations:
            return "listed twice with the same structure: put all parts of speech on one line"
        if shared := sorted(set(other.upos) & set(entry.upos)):
            return f"listed twice as {shared[0]}, with different structures"
    return ""
