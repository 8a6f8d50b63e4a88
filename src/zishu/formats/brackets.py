"""Read phrase structure trees in the bracket format of the Penn treebanks.

    <S ID=1>
    ( (IP (NP-SBJ (NR 上海))
          (VP (VV 发展))) )
    </S>

`read_brackets` yields one tree at a time, from a file with SGML tags around its sentences or from bare brackets. A tree
may span many lines, and a line may hold many trees. Only the lines of one tree are in memory, at most `MAX_LINES`.

A bad sentence does not affect the others: it becomes one `FormatError` with file and line, and reading continues. After
unbalanced brackets, the next sentence begins at an `<S>` tag or at a tree of the form `( (`, because neither can occur
inside a tree. In other files it begins at a line with a bracket in its first column, because all writers of this format
indent continuation lines; this rule is dropped if the file turns out to be unindented. So the words of a broken
sentence never form a sentence of their own.

A file is UTF-8 or GB18030 (a superset of GB2312 and GBK), whichever fits. The module knows the form of labels
(category, function tags, indices) but not their meaning. `zishu.treebank` finds the heads.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections import deque
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from zishu.errors import FormatError, InputError
from zishu.reading import FilePath, check_encoding, open_bytes, source_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ByteSource = FilePath | IO[bytes]

TRACE = "-NONE-"  # the category of traces and dropped pronouns, which are not words of the text
ENCODINGS = ("utf-8", "gb18030")
MAX_LINES = 1000  # per tree
MAX_DEPTH = 200  # per tree; the deepest trees of a treebank have a few dozen levels

_TOKEN = re.compile(r"[()]|[^\s()]+")
_BRACKET = re.compile(r"[()]")
_TAG = re.compile(r"<(/?)([A-Za-z][\w.-]*)([^<>()]*)>")
_TAG_LINE = re.compile(rf"\s*(?:{_TAG.pattern}\s*)+")
_OUTER = re.compile(r"\(\s*(?:\(|$)")  # the bracket without a label, which only the outermost node has
# Invalid bytes are decoded to these (PEP 383), so that they affect one sentence only.
_UNDECODED = re.compile("[\udc80-\udcff]+")


@dataclass(frozen=True, slots=True)
class Tree:
    """Hold a node: a phrase with children, or a part of speech with its word."""

    label: str
    children: tuple[Tree, ...] = ()
    word: str | None = None

    def __post_init__(self) -> None:
        if (self.word is None) == (not self.children):
            raise InputError(f"a node needs children or a word, not both: {self.label!r}")

    @property
    def category(self) -> str:
        """Return the label without function tags and indices: NP for NP-PN-SBJ-1."""
        return _split(self.label)[0]

    @property
    def functions(self) -> frozenset[str]:
        """Return the function tags of the label: PN and SBJ for NP-PN-SBJ-1."""
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
    """Hold a tree and its source. `number` counts the sentences of the file from 1, including unreadable ones."""

    tree: Tree
    path: str
    line: int
    number: int
    sentence_id: str | None = None  # the ID of the enclosing `<S>`


def read_brackets(
    source: ByteSource,
    *,
    name: str | None = None,
    encoding: str | None = None,
    on_error: Callable[[FormatError], None] | None = None,
) -> Iterator[Bracketed]:
    """Yield the trees of a path or of an open binary stream, which is read twice or kept in memory.

    A sentence that cannot be read is passed to `on_error`, and reading continues; without `on_error` the error is
    raised. Error messages call the input `name`.
    """
    path = name or source_name(source)
    with open_text(source, encoding) as text:
        reader = _Reader(_numbered(text), path, text.encoding)
        for number, item in enumerate(reader.sentences(), start=1):
            if not isinstance(item, FormatError):
                line, tree = item
                yield Bracketed(tree, path, line, number, reader.sentence_id)
            elif on_error:
                on_error(item)
            else:
                raise item


@contextlib.contextmanager
def open_text(
    source: ByteSource, encoding: str | None = None, *, errors: str = "surrogateescape"
) -> Iterator[io.TextIOWrapper]:
    """Open a path or a binary stream as text; by default in the one of ENCODINGS with the fewest invalid sequences.

    UTF-8 wins a tie. `errors` says what becomes of invalid bytes.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(source, str | os.PathLike):
            source = stack.enter_context(open_bytes(source))
        stream = source if source.seekable() else io.BytesIO(source.read())
        if encoding is None:
            encoding = min(ENCODINGS, key=lambda encoding: _broken_places(stream, encoding))
        text = io.TextIOWrapper(stream, check_encoding(encoding), errors=errors)
        stack.callback(text.detach)  # otherwise deleting `text` would close the caller's stream
        yield text


def _broken_places(stream: IO[bytes], encoding: str) -> int:
    """Count the byte sequences that are invalid in an encoding, and rewind the stream."""
    position = stream.tell()
    text = io.TextIOWrapper(stream, encoding, errors="surrogateescape")
    count = 0
    while piece := text.read(1 << 16):
        count += len(_UNDECODED.findall(piece))
    text.detach()
    stream.seek(position)
    return count


def remove_empty(tree: Tree) -> Tree | None:
    """Return the tree without empty elements and without the nodes that become empty."""
    if tree.word is not None:
        return None if tree.label == TRACE else tree
    children = tuple(kept for child in tree.children if (kept := remove_empty(child)))
    return Tree(tree.label, children) if children else None


def format_tree(tree: Tree) -> str:
    """Format a tree as one line, inside the unlabelled bracket of the Penn treebanks."""
    return f"( {_format(tree)} )" if tree.label else _format(tree)


def _format(tree: Tree) -> str:
    inside = tree.word if tree.word is not None else " ".join(map(_format, tree.children))
    return f"({tree.label} {inside})"


def _split(label: str) -> list[str]:
    # -NONE- and -LRB- are categories, not function tags of an empty category.
    return [label] if label.startswith("-") else re.split("[-=]", label)


def _numbered(text: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text, start=1):
        yield number, line.rstrip("\n").removeprefix("\ufeff" if number == 1 else "")


@dataclass(slots=True)
class _Open:
    """Hold a node whose bracket is still open."""

    label: str | None = None
    word: str | None = None
    children: list[Tree] = field(default_factory=list)


@dataclass(slots=True)
class _Reader:
    """Hold the remaining lines, and what is known about the file so far."""

    lines: Iterator[tuple[int, str]]
    path: str
    encoding: str
    ahead: deque[tuple[int, str]] = field(default_factory=deque)
    tag: str = ""  # the last SGML tag; empty before the first
    sentence_id: str | None = None
    unindented: bool = False  # a tree continued at a bracket in the first column

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
                # Text between the tags of a header is not a sentence, even with brackets.
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
        """Push back the rest of a line; it does not begin in the first column."""
        if rest and not rest.isspace():
            self.ahead.appendleft((number, " " + rest))

    def fault(self, message: str, line: int) -> FormatError:
        return FormatError(message, path=self.path, line=line)

    def skip(self) -> None:
        """Skip lines until one that is certainly outside the current sentence."""
        while (entry := self.next()) is not None:
            line = entry[1]
            if _TAG_LINE.match(line) or (not self.in_sentence and line.startswith("(")):
                self.ahead.appendleft(entry)
                return

    def tree(self, first: int, line: str) -> tuple[int, Tree] | FormatError:
        """Read one tree, given its first line."""
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
        """Give up on a tree that has no end, and return to where another one may begin inside it."""
        starts = [k for k, (_, text) in enumerate(pieces) if k and text.startswith("(")]
        if starts and not self.in_sentence and not self.unindented:
            self.ahead.extendleft(reversed(pieces[starts[0] :]))
        else:
            self.skip()
        return self.fault("a bracket of the tree that begins here is not closed", pieces[0][0])

    def parse(self, pieces: list[tuple[int, str]]) -> Tree | FormatError:
        """Build the tree from balanced brackets."""
        stack = [_Open("")]  # the lowest node collects the root
        for number, text in pieces:
            if broken := _UNDECODED.search(text):
                return self.fault(f"not valid {self.encoding}: 0x{ord(broken[0][0]) - 0xDC00:02x}", number)
            for token in _TOKEN.findall(text):
                if problem := _read_token(stack, token):
                    return self.fault(problem, number)
        [root] = stack[0].children
        # The unlabelled bracket around a tree carries no information.
        return root.children[0] if not root.label and len(root.children) == 1 else root


_SURPLUS = "a closing bracket too many"


def _identifier(attributes: str) -> str | None:
    found = re.search(r"\bID\s*=\s*\"?([^\s\">]+)", attributes, re.IGNORECASE)
    return found[1] if found else None


def _balance(line: str, depth: int) -> tuple[int | None, int]:
    """Return the position in a line where the depth drops to 0, if any, and the depth at its end."""
    for bracket in _BRACKET.finditer(line):
        depth += 1 if bracket[0] == "(" else -1
        if not depth:
            return bracket.end(), 0
    return None, depth


def _read_token(stack: list[_Open], token: str) -> str:
    """Add a bracket, label or word to the open nodes; return the error, if any."""
    node = stack[-1]
    if token == "(":
        if len(stack) > MAX_DEPTH:
            return f"brackets are nested more than {MAX_DEPTH} deep"
        if node.word is not None:
            return f"the word {node.word} is next to a bracket"
        if node.label is None:
            if len(stack) > 2:
                return "a bracket without a label"
            node.label = ""
        stack.append(_Open())
    elif token == ")":
        if node.word is None and not node.children:
            return f"the bracket of {node.label} is empty" if node.label else "an empty bracket"
        stack.pop()
        stack[-1].children.append(Tree(node.label or "", tuple(node.children), node.word))
    elif node.label is None:
        node.label = token
    elif node.children or not node.label:
        return f"the word {token} is next to a bracket"
    elif node.word is not None:
        return f"two words in one bracket: {node.word} {token}"
    else:
        node.word = token
    return ""
