"""Read phrase structure trees in brackets, as the Penn treebanks have them.

    <S ID=1>
    ( (IP (NP-SBJ (NR 上海))
          (VP (VV 发展))) )
    </S>

`read_brackets` yields one tree at a time, from a file with SGML around its sentences or from bare brackets. A
tree may span many lines, a line may hold many trees. Only the lines of one tree are in memory, at most
`MAX_LINES`.

One bad sentence does not spoil the others: it becomes one `FormatError` with file and line, and reading goes
on. Where the next sentence begins after unbalanced brackets is certain inside `<S>` and for trees of the form
`( (`, neither of which can stand inside a tree. In other files it is a line with a bracket in its first column,
since all writers of this format indent the lines that go on with a tree; unless the file has shown that its
lines are not indented. So the words of a broken sentence never come out as a sentence of their own.

A file is UTF-8 or GB18030 (of which GB2312 and GBK are parts), whichever fits. The module knows the form of
labels (category, function tags, indices) but not what they mean: heads are `zishu.treebank`'s business.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from zishu.errors import FormatError, InputError
from zishu.reading import FilePath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ByteSource = FilePath | IO[bytes]

TRACE = "-NONE-"  # the category of traces and dropped pronouns, which are no words of the text
ENCODINGS = ("utf-8", "gb18030")
MAX_LINES = 1000  # of one tree
MAX_DEPTH = 200  # of one tree; the deepest of a treebank has a few dozen levels

_TOKEN = re.compile(r"[()]|[^\s()]+")
_BRACKET = re.compile(r"[()]")
_TAG = re.compile(r"<(/?)([A-Za-z][\w.-]*)([^<>()]*)>")
_TAG_LINE = re.compile(rf"\s*(?:{_TAG.pattern}\s*)+")
_OUTER = re.compile(r"\(\s*(?:\(|$)")  # the bracket without a label, which only the outermost node has
# Bytes that the encoding does not know come in as these (PEP 383), so that they spoil one sentence only.
_UNDECODED = re.compile("[\udc80-\udcff]+")


@dataclass(frozen=True, slots=True)
class Tree:
    """A node: a phrase with children, or a part of speech with its word."""

    label: str
    children: tuple[Tree, ...] = ()
    word: str | None = None

    def __post_init__(self) -> None:
        if (self.word is None) == (not self.children):
            raise InputError(f"a node needs children or a word, not both: {self.label!r}")

    @property
    def category(self) -> str:
        """The label without function tags and indices: NP for NP-PN-SBJ-1."""
        return _split(self.label)[0]

    @property
    def functions(self) -> frozenset[str]:
        """The function tags of the label: PN and SBJ for NP-PN-SBJ-1."""
        return frozenset(part for part in _split(self.label)[1:] if part and not part.isdigit())

    def leaves(self) -> Iterator[Tree]:
        """Yield the nodes with words, from left to right."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            if node.word is not None:
                yield node
            waiting.extend(reversed(node.children))


@dataclass(frozen=True, slots=True)
class Bracketed:
    """A tree and where it stood. `number` counts the sentences of the file from 1, unreadable ones included."""

    tree: Tree
    path: str
    line: int
    number: int
    sentence_id: str | None = None  # the ID of the `<S>` around it


def read_brackets(
    source: ByteSource,
    *,
    name: str | None = None,
    encoding: str | None = None,
    on_error: Callable[[FormatError], None] | None = None,
) -> Iterator[Bracketed]:
    """Yield the trees of a path or of an open stream of bytes, which is read twice or kept in memory.

    A sentence that cannot be read goes to `on_error`, and the next one is read; without `on_error` it is
    raised. `name` is what errors call the input.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(source, str | os.PathLike):
            path = name or os.fspath(source)
            stream: IO[bytes] = stack.enter_context(Path(source).open("rb"))
        else:
            path = name or "<input>"
            stream = source if source.seekable() else io.BytesIO(source.read())
        encoding = _known(encoding) if encoding else detect_encoding(stream)
        text = io.TextIOWrapper(stream, encoding, errors="surrogateescape")
        stack.callback(text.detach)  # or the end of `text` would close a stream that is the caller's
        reader = _Reader(_numbered(text), path, encoding)
        for number, item in enumerate(reader.sentences(), start=1):
            if not isinstance(item, FormatError):
                line, tree = item
                yield Bracketed(tree, path, line, number, reader.sentence_id)
            elif on_error:
                on_error(item)
            else:
                raise item


def detect_encoding(stream: IO[bytes]) -> str:
    """Return the encoding in which a stream has the fewest broken places, UTF-8 if all are equal."""
    faults: dict[str, int] = {}
    for encoding in ENCODINGS:
        faults[encoding] = _broken_places(stream, encoding)
        if not faults[encoding]:
            return encoding
    return min(ENCODINGS, key=faults.__getitem__)


def _broken_places(stream: IO[bytes], encoding: str) -> int:
    """Count the runs of bytes that an encoding does not know, and go back to where the stream was."""
    position = stream.tell()
    text = io.TextIOWrapper(stream, encoding, errors="surrogateescape")
    count = 0
    while piece := text.read(1 << 16):
        count += len(_UNDECODED.findall(piece))
    text.detach()
    stream.seek(position)
    return count


def remove_empty(tree: Tree) -> Tree | None:
    """Return the tree without empty elements and without the nodes that have no child left."""
    if tree.word is not None:
        return None if tree.label == TRACE else tree
    children = tuple(kept for child in tree.children if (kept := remove_empty(child)))
    return Tree(tree.label, children) if children else None


def format_tree(tree: Tree) -> str:
    """Return a tree as one line, inside the nameless bracket of the Penn treebanks."""
    return f"( {_format(tree)} )" if tree.label else _format(tree)


def _format(tree: Tree) -> str:
    inside = tree.word if tree.word is not None else " ".join(map(_format, tree.children))
    return f"({tree.label} {inside})"


def _split(label: str) -> list[str]:
    # -NONE- and -LRB- are names, not functions of something without a name.
    return [label] if label.startswith("-") else re.split("[-=]", label)


def _known(encoding: str) -> str:
    try:
        "".encode(encoding)
    except LookupError:
        raise InputError(f"unknown encoding {encoding!r}: UTF-8 and GB18030 are detected") from None
    return encoding


def _numbered(text: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text, start=1):
        yield number, line.rstrip("\n").removeprefix("\ufeff" if number == 1 else "")


@dataclass(slots=True)
class _Open:
    """A node whose bracket is still open."""

    label: str | None = None
    word: str | None = None
    children: list[Tree] = field(default_factory=list)


@dataclass(slots=True)
class _Reader:
    """The lines still to come, and what has been learnt about the file so far."""

    lines: Iterator[tuple[int, str]]
    path: str
    encoding: str
    ahead: deque[tuple[int, str]] = field(default_factory=deque)
    tag: str = ""  # the last SGML tag; empty before the first
    sentence_id: str | None = None
    unindented: bool = False  # a tree went on at a bracket in the first column

    @property
    def in_sentence(self) -> bool:
        return self.tag == "S"

    def sentences(self) -> Iterator[tuple[int, Tree] | FormatError]:
        while (entry := self.next()) is not None:
            number, line = entry
            text = line.strip()
            if not text:
                continue
            if tag := _TAG.match(text):
                closing, name, attributes = tag.groups()
                self.tag = closing + name.upper()
                self.sentence_id = _identifier(attributes) if self.in_sentence else None
                # What stands between the tags of a header is no sentence, brackets or not.
                if not self.in_sentence and not closing and text.upper().endswith(f"</{name.upper()}>"):
                    continue
                self.push(number, text[tag.end() :])
            elif text[0] == "(":
                yield self.tree(number, line)
            elif self.tag.removeprefix("/") in ("", "S"):
                self.skip()
                yield self.fault("text outside brackets" if text[0] != ")" else _SURPLUS, number)

    def next(self) -> tuple[int, str] | None:
        return self.ahead.popleft() if self.ahead else next(self.lines, None)

    def push(self, number: int, rest: str) -> None:
        """Put back the rest of a line, which does not begin in the first column."""
        if rest and not rest.isspace():
            self.ahead.appendleft((number, " " + rest))

    def fault(self, message: str, line: int) -> FormatError:
        return FormatError(message, path=self.path, line=line)

    def skip(self) -> None:
        """Drop lines until one that certainly is outside the sentence that is being read."""
        while (entry := self.next()) is not None:
            line = entry[1]
            if _TAG_LINE.match(line) or (not self.in_sentence and line.startswith("(")):
                self.ahead.appendleft(entry)
                return

    def tree(self, first: int, line: str) -> tuple[int, Tree] | FormatError:
        """Read one tree, whose first line is given."""
        pieces: list[tuple[int, str]] = []
        number, depth = first, 0
        while True:
            end, depth = _balance(line, depth)
            if end is not None:
                break
            pieces.append((number, line))
            entry = self.next()
            if entry is None:
                return self.unclosed(pieces)
            if _TAG_LINE.fullmatch(entry[1]) or _OUTER.match(entry[1]) or len(pieces) == MAX_LINES:
                self.ahead.appendleft(entry)
                return self.unclosed(pieces)
            number, line = entry
        if line[end:].lstrip().startswith(")"):
            self.skip()
            return self.fault(_SURPLUS, number)
        pieces.append((number, line[:end]))
        self.unindented |= any(text.startswith("(") for _, text in pieces[1:])
        self.push(number, line[end:])
        parsed = self.parse(pieces)
        return parsed if isinstance(parsed, FormatError) else (first, parsed)

    def unclosed(self, pieces: list[tuple[int, str]]) -> FormatError:
        """Give up a tree that has no end, and go back to where another one may begin inside it."""
        starts = [k for k, (_, text) in enumerate(pieces) if k and text.startswith("(")]
        if starts and not self.in_sentence and not self.unindented:
            self.ahead.extendleft(reversed(pieces[starts[0] :]))
        else:
            self.skip()
        return self.fault("a bracket of the tree that begins here is not closed", pieces[0][0])

    def parse(self, pieces: list[tuple[int, str]]) -> Tree | FormatError:
        """Build the tree of balanced brackets."""
        stack: list[_Open] = []
        root: Tree | None = None
        for number, text in pieces:
            if broken := _UNDECODED.search(text):
                return self.fault(f"not valid {self.encoding}: 0x{ord(broken[0][0]) - 0xDC00:02x}", number)
            for token in _TOKEN.findall(text):
                if token == "(":
                    problem = _open(stack)
                elif token == ")":
                    closed = _close(stack)
                    root, problem = (closed, "") if isinstance(closed, Tree) else (None, closed)
                else:
                    problem = _add(stack[-1], token)
                if problem:
                    return self.fault(problem, number)
        assert root is not None, "the last bracket of a balanced text closes the first"
        # The nameless bracket around one tree says nothing.
        return root.children[0] if not root.label and len(root.children) == 1 else root


_SURPLUS = "a closing bracket too many"


def _identifier(attributes: str) -> str | None:
    found = re.search(r"\bID\s*=\s*\"?([^\s\">]+)", attributes, re.IGNORECASE)
    return found[1] if found else None


def _balance(line: str, depth: int) -> tuple[int | None, int]:
    """Return where in a line the depth comes down to 0, if it does, and the depth at the line's end."""
    for bracket in _BRACKET.finditer(line):
        depth += 1 if bracket[0] == "(" else -1
        if not depth:
            return bracket.end(), 0
    return None, depth


def _open(stack: list[_Open]) -> str:
    """Open a node; return what is wrong with that."""
    if len(stack) == MAX_DEPTH:
        return f"brackets are nested more than {MAX_DEPTH} deep"
    if stack and stack[-1].word is not None:
        return f"the word {stack[-1].word} stands beside a bracket"
    if stack and stack[-1].label is None:
        if len(stack) > 1:
            return "a bracket without a label"
        stack[-1].label = ""
    stack.append(_Open())
    return ""


def _add(node: _Open, token: str) -> str:
    """Take a token for the label or the word of a node; return what is wrong with that."""
    if node.label is None:
        node.label = token
    elif node.children or not node.label:
        return f"the word {token} stands beside a bracket"
    elif node.word is not None:
        return f"two words in one bracket: {node.word} {token}"
    else:
        node.word = token
    return ""


def _close(stack: list[_Open]) -> Tree | str:
    """Close the innermost node and hang it below the next; return what is wrong with that."""
    node = stack.pop()
    if node.word is None and not node.children:
        return f"the bracket of {node.label} is empty" if node.label else "an empty bracket"
    tree = Tree(node.label or "", tuple(node.children), node.word)
    if stack:
        stack[-1].children.append(tree)
    return tree
