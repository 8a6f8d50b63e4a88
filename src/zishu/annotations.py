"""Read annotations as partial trees: from CoNLL-U, from text with spaces, from the page's JSON.

The ending of a file's name gives its format (`.gz` and `.zst` may follow):

`.conllu`, `.conll`   CoNLL-U in which `_` as head, relation or tag means unknown. A comment lists the rows whose
    word boundaries are unknown:

        # unknown_words = 3-5 8

    The text of rows 3 to 5 may be segmented in any way, and so may that of row 8. Words begin and end at the edges of
    both. Such rows have no heads and no relations, and no other word depends on them.

`.json`, `.jsonl`     one sentence per line, as `zishu parse --format json` and the page write it. Every word and
    arc counts as known. With a key `known`, only what it lists is known. Its numbers are offsets into the key `text`:

        "known": {"pins": [[0, 2]], "breaks": [5], "arcs": [[0, 4, "nsubj"], [4, null, null]], "tags": [[0, "NOUN"]]}

    Pins are words. An arc has a dependent, a head (null for the root) and a relation (null for unknown). Tags are parts
    of speech. Arcs and tags belong to pinned words and refer to them by their first offset.

anything else         text, one sentence per line, with white space between words. Heads are unknown.

A sentence that contradicts itself is left out and reported with its file and line. A line that breaks the format is an
error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zishu.arcs import ROOT_SPAN, check_arcs
from zishu.compression import plain_name
from zishu.errors import FormatError, InputError
from zishu.formats.conllu import ConlluSentence, ConlluToken, format_sentence, read_conllu
from zishu.formats.jsonl import from_record
from zishu.gaps import FREE, word_gaps
from zishu.partial import KnownWord, PartialTree, partial_of_raw, partial_tree
from zishu.reading import read_lines, source_name
from zishu.sentences import text_sentences
from zishu.tags import COLUMNS, EMPTY, tag_of
from zishu.text import characters
from zishu.tree import ROOT

if TYPE_CHECKING:
    import os


UNKNOWN_WORDS = "unknown_words"  # the comment


def read_annotations(path: str | os.PathLike[str]) -> tuple[list[PartialTree], list[str]]:
    """Read a file; return what is known about each sentence, and a message for each that contradicts itself."""
    name = source_name(path)
    ending = Path(plain_name(name)).suffix.lower()
    found: Iterator[PartialTree | str]
    if ending in (".conllu", ".conll"):
        found = _read_conllu(name)
    elif ending in (".json", ".jsonl"):
        found = _read_json(name)
    else:
        found = _read_words(name)
    both = list(found)
    if not both:
        raise InputError(f"{name}: no sentences found")
    problems = [one for one in both if isinstance(one, str)]
    return [one for one in both if not isinstance(one, str)], problems


def partial_to_conllu(tree: PartialTree, *, sent_id: str) -> str:
    """Return a partial tree as CoNLL-U, which `read_annotations` reads.

    CoNLL-U cannot express two things: that two characters belong to one word whose ends are unknown, and lemma tags.
    """
    stretches = tree.stretches()
    number = {span: k for k, span in enumerate(stretches, start=1)} | {ROOT_SPAN: ROOT}
    known = {word.span: word for word in tree.words}
    sentence = ConlluSentence([f"# sent_id = {sent_id}"])
    for span in stretches:
        word = known.get(span, KnownWord(span))
        token = ConlluToken(number[span], tree.form(span), misc="SpaceAfter=No")
        token.head = None if word.head is None else number[word.head]
        token.deprel = word.deprel or EMPTY
        token.upos, token.xpos, token.feats = (word.tags.get(c, EMPTY) for c in ("upos", "xpos", "feats"))
        sentence.tokens.append(token)
    if unknown := [str(number[span]) for span in stretches if not tree.is_word(*span)]:
        sentence.comments.append(f"# {UNKNOWN_WORDS} = {' '.join(unknown)}")
    return format_sentence(sentence)


# --- text with spaces -------------------------------------------------------------------------------------------


def _read_words(name: str) -> Iterator[PartialTree]:
    for number, line in enumerate(read_lines(name, name), start=1):
        words = [characters(word) for word in line.split()]
        if words:
            chars = tuple(char for word in words for char in word)
            yield PartialTree(chars, word_gaps([*map(len, words)]), source=f"{name}:{number}")


# --- CoNLL-U ----------------------------------------------------------------------------------------------------


def _read_conllu(name: str) -> Iterator[PartialTree | str]:
    sentences = list(read_conllu(name))
    columns = {
        column
        for column in COLUMNS
        if any(getattr(token, column) != EMPTY for sentence in sentences for token in sentence.tokens)
    }
    for sentence in sentences:
        source = f"{name}:{sentence.line}"
        try:
            yield _conllu_tree(sentence, columns, source)
        except FormatError:
            raise
        except InputError as error:
            yield f"{source}: {error}"


def _conllu_tree(sentence: ConlluSentence, columns: set[str], source: str) -> PartialTree:
    tokens = sentence.tokens
    unknown = _unknown_rows(sentence)
    for token in tokens:
        if token.id in unknown and (token.head is not None or token.deprel != EMPTY):
            raise InputError(f"word {token.id} has a head or a relation, but its boundaries are unknown")
        if token.head in unknown:
            raise InputError(
                f"the head of word {token.id} is word {token.head}, whose boundaries are unknown"
            )
    # Checked here, too, because the user knows the numbers of words.
    check_arcs([(t.id, None if t.head == ROOT else t.head, t.deprel) for t in tokens if t.head is not None])
    chars = [characters(token.form) for token in tokens]
    ends = np.cumsum([len(part) for part in chars])
    gaps = word_gaps([len(part) for part in chars])
    spans = {
        token.id: (int(end) - len(part) + 1, int(end) + 1)
        for token, part, end in zip(tokens, chars, ends, strict=True)
    }
    for first, last in set(unknown.values()):
        gaps[spans[first][0] : spans[last][1] - 1] = FREE
    spans[ROOT] = ROOT_SPAN
    words = tuple(
        KnownWord(
            spans[token.id],
            None if token.head is None else spans[token.head],
            None if token.deprel == EMPTY else token.deprel,
            _tags(token, columns),
        )
        for token in tokens
        if token.id not in unknown
    )
    return PartialTree(tuple(char for part in chars for char in part), gaps, words, source)


def _unknown_rows(sentence: ConlluSentence) -> dict[int, tuple[int, int]]:
    """Map each row of unknown words to the first and the last row of its range."""
    rows: dict[int, tuple[int, int]] = {}
    for part in (sentence.comment(UNKNOWN_WORDS) or "").replace(",", " ").split():
        first, dash, last = part.partition("-")
        numbers = (first, last if dash else first)
        if not all(number.isdecimal() for number in numbers):
            raise _comment_error(sentence, f"expected numbers of words such as 3-5 8, not {part!r}")
        start, end = map(int, numbers)
        if not 1 <= start <= end <= len(sentence.tokens):
            raise _comment_error(sentence, f"no words {part}: the sentence has {len(sentence.tokens)}")
        if rows.keys() & range(start, end + 1):
            raise _comment_error(sentence, f"the words {part} are listed twice")
        rows |= dict.fromkeys(range(start, end + 1), (start, end))
    return rows


def _comment_error(sentence: ConlluSentence, message: str) -> FormatError:
    return FormatError(f"# {UNKNOWN_WORDS}: {message}", path=sentence.path, line=sentence.line)


def _tags(token: ConlluToken, columns: set[str]) -> dict[str, str]:
    """Return the known tags of a row. If it has a part of speech, empty features are a tag, too."""
    found = {}
    for column in COLUMNS:
        value = getattr(token, column)
        says = value != EMPTY or (column == "feats" and column in columns and token.upos != EMPTY)
        if says and (tag := tag_of(column, token.form, value)) is not None:
            found[column] = tag
    return found


# --- the page's JSON --------------------------------------------------------------------------------------------


def _read_json(name: str) -> Iterator[PartialTree | str]:
    for number, line in enumerate(read_lines(name, name), start=1):
        if not line.strip():
            continue
        source = f"{name}:{number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not JSON: {error}", path=name, line=number) from None
        try:
            if isinstance(record, dict) and "known" in record:
                yield from _known(record, source)
            else:
                yield partial_tree(from_record(record).tree, source=source)
        except InputError as error:
            yield f"{source}: {error}"


def _known(record: Mapping[str, Any], source: str) -> Iterator[PartialTree]:
    """Yield what a line lists as known. Zishu may split its text into several sentences."""
    text, known = record.get("text"), record["known"]
    if not isinstance(text, str) or not isinstance(known, Mapping):
        raise InputError("a sentence needs the keys 'text', a string, and 'known', an object")
    if strange := known.keys() - {"pins", "breaks", "arcs", "tags"}:
        raise InputError(f"'known' has the key {min(strange)!r}: expected pins, breaks, arcs or tags")
    for sentence in text_sentences(text, **known, patterns=False):
        tree = partial_of_raw(sentence, source=source)
        words = {word.span: word for word in tree.words}
        for span, tag in sentence.tags.items():
            words[span] = replace(words.get(span, KnownWord(span)), tags={"upos": tag})
        yield replace(tree, words=tuple(words[span] for span in sorted(words)))
