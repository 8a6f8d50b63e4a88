"""Write and read parsed sentences as JSON lines: one object per sentence, with everything known about it.

    {"sent_id": "1", "text": "上海计划", "start": 0, "end": 4, "after": " ", "prob": 0.91, "cut": false, "words": [
      {"id": 1, "form": "上海", "start": 0, "end": 2, "lemma": "上海", "upos": "PROPN", "xpos": "NNP", "feats": "_",
       "head": 2, "deprel": "nsubj", "char_heads": [2, 0], "char_rels": ["att", "root"], "root": 1,
       "structure_prob": 0.97, "prob": 0.96, "boundary_prob": 0.99,
       "head_prob": 0.99, "label_prob": 0.99, "upos_prob": 0.99},
      ...]}

(on one line). `zishu.formats.schema` describes every key. Other keys may precede these (`sent_id`, `rank`); a reader
ignores keys that it does not know.

Probabilities of words have 6 decimals. Those of sentences may be very small and have 6 significant digits. Apart from
that rounding, `from_json(to_json(s)) == s`, and writing what was read gives the same line. Every string survives: a
lone surrogate is written as an escape (`\\ud800`), so a line can always be encoded. JSON makes one exception: a high and
a low surrogate side by side are read back as one character, as in UTF-16.

Cost: one to two microseconds per character to write, three to four to read.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from zishu.document import CELLS, Sentence, Tokens, Word, rows_of
from zishu.errors import InputError
from zishu.formats.schema import SENTENCE
from zishu.tags import COLUMNS
from zishu.tree import check_heads

if TYPE_CHECKING:
    from collections.abc import Mapping


_encode = json.JSONEncoder(ensure_ascii=False).encode

# Surrogates cannot be encoded; the others end a line for some readers (`str.splitlines`).
_UNSAFE = re.compile("[\ud800-\udfff\x85\u2028\u2029]")

_SENTENCE_KEYS = frozenset(SENTENCE["properties"])
_PROBS = tuple(field.name for field in fields(Word) if "_prob" in field.name)


def to_json(sentence: Sentence | Tokens, **extra: object) -> str:
    """Format the sentence as one line without a line break; `extra` are more keys, which come first.

    A sentence that was not parsed has only the known keys.
    """
    if isinstance(sentence, Tokens):
        return _tokens(sentence, extra)
    if clash := _SENTENCE_KEYS & extra.keys():
        raise InputError(f"the keys {', '.join(sorted(clash))} belong to the sentence itself")
    more = "".join(f"{_encode(key)}: {_encode(value)}, " for key, value in extra.items())
    cells = sentence.cells
    words = ", ".join([_word(*row) for row in rows_of(cells)])
    prob = "null" if sentence.prob is None else f"{sentence.prob:.6g}"
    if sentence.prob_without_lexicon is not None:
        prob += f', "prob_without_lexicon": {sentence.prob_without_lexicon:.6g}'
    line = (
        f'{{{more}"text": {_encode(sentence.text)}, "start": {sentence.start}, "end": {sentence.end}, '
        f'"after": {_encode(sentence.after)}, "prob": {prob}, '
        f'"cut": {"true" if sentence.cut else "false"}, "words": [{words}]}}'
    )
    # Searching only the strings is much faster than searching the whole line.
    if _UNSAFE.search("".join((more, sentence.text, sentence.after, *cells[1::CELLS]))):
        line = _escape(line)
    return line


def _tokens(sentence: Tokens, extra: Mapping[str, object]) -> str:
    record = {
        **extra,
        "text": sentence.text,
        "start": sentence.start,
        "end": sentence.end,
        "after": sentence.after,
        "cut": sentence.cut,
        "words": [
            {"id": number, **{key: value for key, value in word._asdict().items() if value is not None}}
            for number, word in enumerate(sentence.words, start=1)
        ],
    }
    return _escape(_encode(record))


def from_json(line: str | bytes) -> Sentence:
    """Parse one line; raise `InputError` if it does not hold a sentence with valid trees."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from None
    return from_record(record)


def from_record(record: object) -> Sentence:
    """Build the sentence from a decoded JSON object; see `from_json`."""
    if not isinstance(record, dict):
        raise InputError(f"a sentence is a JSON object, not {record!r:.40}")
    words = _get(record, "words", list)
    if not words:
        raise InputError("a sentence needs at least one word")
    sentence = Sentence(
        text=_get(record, "text", str),
        start=_get(record, "start", int),
        words=tuple(_read_word(number, word) for number, word in enumerate(words, 1)),
        cut=_get(record, "cut", bool),
        prob=_get_prob(record, "prob"),
        after=_get(record, "after", str),
        prob_without_lexicon=_get_prob(record, "prob_without_lexicon"),
    )
    if sentence.after.strip():
        raise InputError(f"the key 'after' must be white space, not {sentence.after!r:.40}")
    check_heads([word.head for word in sentence.words], kind="word")
    return sentence


def _word(
    number: int,
    form: str,
    start: int,
    end: int,
    upos: str | None,
    head: int,
    deprel: str,
    char_heads: tuple[int, ...] | None,
    boundary: float | None,
    of_head: float | None,
    of_label: float | None,
    of_upos: float | None,
    xpos: str | None,
    feats: str | None,
    lemma: str | None,
    char_rels: tuple[str, ...] | None,
    structure: float | None,
    without_lexicon: float | None,
) -> str:
    if boundary is None or of_head is None or of_label is None:
        probs = (
            f'"prob": null, "boundary_prob": {_prob(boundary)}, "head_prob": {_prob(of_head)}, '
            f'"label_prob": {_prob(of_label)}, "upos_prob": {_prob(of_upos)}'
        )
    else:
        # The product of the rounded values, so that a reader computes the same one.
        boundary, of_head, of_label = _rounded(boundary), _rounded(of_head), _rounded(of_label)
        product = boundary * of_head * of_label * (1 if of_upos is None else _rounded(of_upos))
        probs = (
            f'"prob": {product:.6g}, "boundary_prob": {boundary:.6g}, "head_prob": {of_head:.6g}, '
            f'"label_prob": {of_label:.6g}, "upos_prob": {_prob(of_upos)}'
        )
    if without_lexicon is not None:
        probs += f', "boundary_prob_without_lexicon": {_prob(without_lexicon)}'
    written = _encode(form)
    return (
        f'{{"id": {number}, "form": {written}, "start": {start}, "end": {end}, '
        f'"lemma": {written if lemma == form else _encode(lemma)}, '
        f"{_tags(upos, xpos, feats)}, {_arc(head, deprel)}, "
        f'{_inner(char_heads, char_rels)}, "structure_prob": {_prob(structure)}, {probs}}}'
    )


def _escape(line: str) -> str:
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def _prob(value: float | None) -> str:
    return "null" if value is None else f"{_rounded(value):.6g}"


def _rounded(value: float) -> float:
    """Round a probability to six decimals; several times faster than `round`."""
    return int(value * 1e6 + 0.5) / 1e6


# Values that repeat across sentences are formatted once.


@lru_cache(maxsize=4096)
def _tags(upos: str | None, xpos: str | None, feats: str | None) -> str:
    return _escape(f'"upos": {_encode(upos)}, "xpos": {_encode(xpos)}, "feats": {_encode(feats)}')


@lru_cache(maxsize=16384)
def _arc(head: int, deprel: str) -> str:
    return _escape(f'"head": {head}, "deprel": {_encode(deprel)}')


@lru_cache(maxsize=4096)
def _inner(char_heads: tuple[int, ...] | None, char_rels: tuple[str, ...] | None) -> str:
    if char_heads is None:
        return '"char_heads": null, "char_rels": null, "root": null'
    relations = "null" if char_rels is None else _escape(_encode(list(char_rels)))
    return (
        f'"char_heads": [{", ".join(map(str, char_heads))}], "char_rels": {relations}, '
        f'"root": {char_heads.index(0)}'
    )


def _read_word(number: int, record: object) -> Word:
    if not isinstance(record, dict):
        raise InputError(f"word {number} is not a JSON object")
    if _get(record, "id", int) != number:
        raise InputError(f"expected word {number}, found word {record['id']}")
    char_heads = record.get("char_heads")
    if char_heads is not None:
        char_heads = tuple(_get(record, "char_heads", list))
        if any(type(head) is not int for head in char_heads):
            raise InputError(f"word {number}: char_heads is not a list of numbers: {list(char_heads)}")
        check_heads(char_heads, kind=f"word {number}: character")
    char_rels = record.get("char_rels")
    if char_rels is not None:
        char_rels = tuple(_get(record, "char_rels", list))
        if char_heads is None or len(char_rels) != len(char_heads):
            raise InputError(f"word {number}: char_rels and char_heads differ in length")
        if any(type(relation) is not str for relation in char_rels):
            raise InputError(f"word {number}: char_rels is not a list of strings: {list(char_rels)}")
    tags = {name: None if record.get(name) is None else _get(record, name, str) for name in COLUMNS}
    probs: dict[str, Any] = {name: _get_prob(record, name) for name in _PROBS}
    return Word(
        id=number,
        form=_get(record, "form", str),
        start=_get(record, "start", int),
        end=_get(record, "end", int),
        head=_get(record, "head", int),
        deprel=_get(record, "deprel", str),
        char_heads=char_heads,
        char_rels=char_rels,
        **tags,
        **probs,
    )


def _get(record: Mapping[str, Any], key: str, kind: type) -> Any:
    """Return a required value of exactly this type: JSON's true is not a number."""
    value = record.get(key)
    if type(value) is not kind or (isinstance(value, int) and value < 0):
        raise InputError(f"the key {key!r} needs a value of type {kind.__name__}, not {value!r:.40}")
    return value


def _get_prob(record: Mapping[str, Any], key: str) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise InputError(f"the key {key!r} needs a probability, not {value!r:.40}")
    return float(value)
