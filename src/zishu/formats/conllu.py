"""Read and write CoNLL-U and CoNLL-X treebanks, one sentence at a time.

`read_conllu` holds one sentence in memory, whatever the size of the file. `write_conllu` writes back what it reads byte
for byte: comments, multiword-token ranges, empty nodes and all columns are preserved. There are three exceptions: CRLF
becomes LF, a byte order mark is removed, and each sentence ends with one blank line. A line that violates the format
raises a `FormatError` with file and line.

It does not interpret features, enhanced dependencies or part-of-speech tags. It does not require the heads to form a
tree, because an unannotated file has no heads; `ConlluSentence.tree` checks that.

CoNLL-X has the same ten columns with other names for the last two (PHEAD, PDEPREL), no comments, and no record of white
space. So there is one difference here, the text of a sentence without a `# text` comment. CoNLL-U puts a space after
each token without `SpaceAfter=No`; in CoNLL-X, words are joined as Chinese is written (`zishu.text.join_words`).

We do not use a library because the existing ones are lossy, lenient or slow. To read 100 MB (79,940 sentences, 1.97
million words), `conllu` 6.0.0 takes 30 to 37 s of CPU time, `pyconll` 3.3.1 takes 9 s, and this module 5 to 6 s, in 15
MB of memory. Both libraries merge repeated comments, `conllu` truncates a MISC value at its second `=`, `pyconll` sorts
features, and both accept word numbers with gaps and heads out of range.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TextIO

from zishu.errors import FormatError, InputError, InvalidTree
from zishu.reading import Source, read_lines, source_name
from zishu.tags import COLUMNS, EMPTY
from zishu.text import join_words
from zishu.tree import WordTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Dialect = Literal["u", "x"]

_NAMES = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
# Numbers in canonical spelling: `int` would also accept "+1", "01", "1_0" or full-width digits, which would not be
# written back the same. Words beyond the table are rare and parsed one by one.
_NUMBERS = {str(value): value for value in range(1000)}


@dataclass(slots=True)
class ConlluToken:
    """Hold a syntactic word: its ten columns as written, except that id and head are numbers (`_` is `None`)."""

    id: int
    form: str
    lemma: str = EMPTY
    upos: str = EMPTY
    xpos: str = EMPTY
    feats: str = EMPTY
    head: int | None = None
    deprel: str = EMPTY
    deps: str = EMPTY
    misc: str = EMPTY


@dataclass(slots=True)
class Extra:
    """Hold a line that is not a syntactic word (a multiword-token range or an empty node), as written.

    It precedes the word with index `before`, counted from 0; the number of words means after the last word.
    """

    before: int
    line: str


@dataclass(slots=True)
class ConlluSentence:
    """Hold one sentence. `path` and `line` (0: not from a file) locate its first line, including comments."""

    comments: list[str] = field(default_factory=list)
    tokens: list[ConlluToken] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)
    dialect: Dialect = "u"
    path: str = field(default="<memory>", compare=False)
    line: int = field(default=0, compare=False)

    def comment(self, key: str) -> str | None:
        """Return the value of the first comment `# key = value`, or `None`."""
        for comment in self.comments:
            name, equals, value = comment[1:].partition("=")
            if equals and name.strip() == key:
                return value.removeprefix(" ")
        return None

    @property
    def sent_id(self) -> str | None:
        """Return the value of `# sent_id`."""
        value = self.comment("sent_id")
        return None if value is None else value.strip()

    @property
    def text(self) -> str:
        """Return the value of `# text`, or else the text built from the tokens and their `SpaceAfter`."""
        value = self.comment("text")
        if value is not None:
            return value
        if self.dialect == "x":
            return join_words([token.form for token in self.tokens])
        return _spaced_text(self)

    def line_of(self, index: int) -> int:
        """Return the line of the file with the word of this index, counted from 0."""
        return self.line + len(self.comments) + index + sum(extra.before <= index for extra in self.extras)

    def tree(self) -> WordTree:
        """Return the dependency tree; raise `FormatError` (in memory: `InvalidTree`) if the heads do not form one.

        A tag column that is `_` for all words becomes None. For the trees of a whole file use `trees_of`.
        """
        heads: list[int] = []
        for index, token in enumerate(self.tokens):
            if token.head is None:
                raise self._tree_error(f"word {token.id} has no head", index)
            heads.append(token.head)
        columns = {name: tuple([getattr(token, name) for token in self.tokens]) for name in COLUMNS}
        known = {name: values for name, values in columns.items() if any(v != EMPTY for v in values)}
        try:
            return WordTree(
                tuple(token.form for token in self.tokens),
                tuple(heads),
                tuple(token.deprel for token in self.tokens),
                **known,
            )
        except InvalidTree as error:
            raise self._tree_error(f"the sentence is not a tree: {error}", 0) from None

    def _tree_error(self, message: str, index: int) -> InputError:
        if not self.line:
            return InvalidTree(message)
        return FormatError(message, path=self.path, line=self.line_of(index))


def trees_of(sentences: Iterable[ConlluSentence]) -> list[WordTree]:
    """Return the trees of all sentences of a file.

    If any sentence has features, sentences without any have empty ones instead of None.
    """
    trees = [sentence.tree() for sentence in sentences]
    if all(tree.feats is None for tree in trees):
        return trees
    return [tree if tree.feats else replace(tree, feats=(EMPTY,) * len(tree.forms)) for tree in trees]


def read_conllu(
    source: Source, *, name: str | None = None, dialect: Dialect | None = None
) -> Iterator[ConlluSentence]:
    """Yield the sentences of a path (`.gz` included) or of an open binary or text stream.

    Error messages call the input `name`. Without `dialect`, the first sentence decides: valid CoNLL-U has comments, so
    a sentence without comments, ranges, empty nodes or `=` in MISC is CoNLL-X.
    """
    path = name or source_name(source)
    for first, block in blocks(read_lines(source, path)):
        sentence = _parse(block, path, first)
        if dialect is None:
            is_u = sentence.comments or sentence.extras or any("=" in token.misc for token in sentence.tokens)
            dialect = "u" if is_u else "x"
        sentence.dialect = dialect
        yield sentence


def write_conllu(sentences: Iterable[ConlluSentence], stream: TextIO) -> None:
    r"""Write sentences to a text stream (opened with encoding "utf-8" and newline "\n"), one by one.

    A value that cannot be read back (an empty column, a tab or a line break) raises `InputError`, and nothing of its
    sentence is written.
    """
    for sentence in sentences:
        stream.write(format_sentence(sentence))


def format_sentence(sentence: ConlluSentence) -> str:
    """Format one sentence, including the final blank line."""
    lines = []
    for token in sentence.tokens:
        head = EMPTY if token.head is None else token.head
        line = (
            f"{token.id}\t{token.form}\t{token.lemma}\t{token.upos}\t{token.xpos}\t{token.feats}"
            f"\t{head}\t{token.deprel}\t{token.deps}\t{token.misc}"
        )
        if line.count("\t") != 9 or "\t\t" in line or line[-1] == "\t":
            raise InputError(f"word {token.id} has a column that is empty or holds a tab: {line!r}")
        lines.append(line)
    # Insert backwards, so that the positions of the remaining extras stay valid.
    for extra in reversed(sentence.extras):
        lines.insert(extra.before, extra.line)
    lines[:0] = sentence.comments
    block = "\n".join(lines)
    if block.count("\n") != len(lines) - 1 or "\r" in block:
        raise InputError(f"a line of the sentence contains a line break: {block!r}")
    return block + "\n\n"


def from_tree(
    tree: WordTree,
    sent_id: str | None = None,
    text: str | None = None,
    misc: Sequence[str] | None = None,
) -> ConlluSentence:
    """Build the sentence of a tree, for writing.

    `misc` gives the MISC column of each word without `SpaceAfter`, which is computed from the words' positions in
    `text`. Without `text`, the words are joined as Chinese is written. A text that consists of anything but these words
    and white space raises `InputError`. Its line breaks become spaces, because a comment is one line.
    """
    forms = tree.forms
    if misc is not None and len(misc) != len(forms):
        raise InputError(f"{len(misc)} MISC values for {len(forms)} words")
    text = join_words(forms) if text is None else text
    one_line = text.translate({ord("\n"): " ", ord("\r"): " "})
    sentence = ConlluSentence([f"# text = {one_line}"])
    if sent_id is not None:
        sentence.comments.insert(0, f"# sent_id = {sent_id}")
    for index, spaced in enumerate(_spaces(forms, text)):
        token = ConlluToken(index + 1, forms[index], head=tree.heads[index], deprel=tree.deprels[index])
        for name in COLUMNS:
            values = getattr(tree, name)
            if values is not None:
                setattr(token, name, values[index])
        values = [] if misc is None or misc[index] == EMPTY else [misc[index]]
        token.misc = "|".join(values if spaced else [*values, "SpaceAfter=No"]) or EMPTY
        sentence.tokens.append(token)
    return sentence


def _space_after(misc: str) -> bool:
    """Tell whether a space follows a word, that is, its MISC does not contain `SpaceAfter=No`."""
    return misc == EMPTY or "SpaceAfter=No" not in misc.split("|")


def _spaces(forms: Sequence[str], text: str) -> Iterator[bool]:
    """Yield for each word whether white space follows it in the text."""
    position = len(text) - len(text.lstrip())
    for form in forms:
        if not text.startswith(form, position):
            raise InputError(f"the text does not continue with {form!r} at offset {position}: {text!r}")
        end = position = position + len(form)
        while text[position : position + 1].isspace():
            position += 1
        yield position > end
    if position < len(text):
        raise InputError(f"the text continues after its last word: {text[position:]!r}")


def _spaced_text(sentence: ConlluSentence) -> str:
    """Rebuild the text from the surface tokens: a multiword token replaces the words of its range."""
    ranges: dict[int, tuple[int, str, str]] = {}
    for extra in sentence.extras:
        columns = extra.line.split("\t")
        first, dash, last = columns[0].partition("-")
        if dash:
            ranges[int(first)] = (int(last), columns[1], columns[9])
    pieces = []
    covered = 0
    for token in sentence.tokens:
        if token.id > covered:
            covered, form, misc = ranges.get(token.id, (token.id, token.form, token.misc))
            pieces += [form, " "] if _space_after(misc) else [form]
    # A space after the last token lies between two sentences and belongs to neither.
    return "".join(pieces[:-1] if pieces[-1:] == [" "] else pieces)


def blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Group lines into sentences: yield the number of the first line, from 1, and the lines."""
    block: list[str] = []
    number = 0
    for number, line in enumerate(lines, 1):
        if line:
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []
    if block:
        yield number + 1 - len(block), block


def _parse(block: Sequence[str], path: str, first: int) -> ConlluSentence:
    """Parse the lines of a sentence that begins at line `first` of the file."""
    start = 0
    while start < len(block) and block[start][0] == "#":
        start += 1
    sentence = ConlluSentence(list(block[:start]), path=path, line=first)
    tokens = sentence.tokens
    size = 0
    highest = 0
    for offset in range(start, len(block)):
        columns = block[offset].split("\t")
        if len(columns) != 10 or "" in columns:
            raise FormatError(_column_fault(columns), path=path, line=first + offset)
        identifier, form, lemma, upos, xpos, feats, governor, deprel, deps, misc = columns
        if _number(identifier) == size + 1:
            head = None
            if governor != EMPTY:
                head = _number(governor)
                if head is None:
                    raise FormatError(
                        f"the head {governor!r} is not a number", path=path, line=first + offset
                    )
                highest = max(highest, head)
            size += 1
            tokens.append(ConlluToken(size, form, lemma, upos, xpos, feats, head, deprel, deps, misc))
        elif fault := _extra_fault(sentence, identifier):
            raise FormatError(fault, path=path, line=first + offset)
        else:
            sentence.extras.append(Extra(size, block[offset]))
    if not tokens:
        raise FormatError("a sentence without words", path=path, line=first)
    if highest > size or sentence.extras:
        _check_ends(sentence)
    return sentence


def _number(digits: str) -> int | None:
    """Return the value of a decimal number in canonical spelling, `None` for anything else."""
    value = _NUMBERS.get(digits)
    if value is None and digits.isascii() and digits.isdigit() and digits[0] != "0" and len(digits) < 19:
        return int(digits)
    return value


def _column_fault(columns: Sequence[str]) -> str:
    if columns[0].startswith("#"):
        return "a comment inside a sentence: comments come before the first word"
    if len(columns) != 10:
        return f"expected 10 columns separated by tabs, found {len(columns)}"
    position = columns.index("")
    return f"column {position + 1} ({_NAMES[position]}) is empty: write _ for no value"


def _extra_fault(sentence: ConlluSentence, identifier: str) -> str | None:
    """Say why a line that is not the next word is not a valid range or empty node either."""
    expected = len(sentence.tokens) + 1
    seen = [extra.line.split("\t", 1)[0] for extra in sentence.extras]
    left, dash, right = identifier.partition("-")
    if dash and (begin := _number(left)) is not None and (end := _number(right)) is not None:
        if begin != expected:
            return f"the range {identifier} stands before word {expected}, not before word {begin}"
        if end < begin:
            return f"the range {identifier} ends before it begins"
        overlap = any("-" in other and int(other.partition("-")[2]) >= begin for other in seen)
        return f"the range {identifier} overlaps an earlier one" if overlap else None
    left, dot, right = identifier.partition(".")
    if dot and (word := _number(left)) is not None and (rank := _number(right)) is not None:
        wanted = f"{expected - 1}.{1 + sum(other.startswith(f'{expected - 1}.') for other in seen)}"
        in_place = (word, rank) == tuple(map(int, wanted.split(".")))
        return None if in_place else f"expected the empty node {wanted} here, found {identifier}"
    if _number(identifier) is None:
        return f"the id {identifier!r} is not a word (1), range (1-2) or empty node (1.1)"
    return f"expected word {expected}, found word {identifier}"


def _check_ends(sentence: ConlluSentence) -> None:
    """Check what only the end of a sentence shows: heads and ranges that exceed its last word."""
    size = len(sentence.tokens)
    for index, token in enumerate(sentence.tokens):
        if token.head is not None and token.head > size:
            message = f"the head {token.head} is out of range: the sentence has {size} words"
            raise FormatError(message, path=sentence.path, line=sentence.line_of(index))
    for rank, extra in enumerate(sentence.extras):
        identifier = extra.line.split("\t", 1)[0]
        last = identifier.partition("-")[2]
        if last and int(last) > size:
            message = f"the range {identifier} exceeds the sentence, which has {size} words"
            line = sentence.line + len(sentence.comments) + extra.before + rank
            raise FormatError(message, path=sentence.path, line=line)
