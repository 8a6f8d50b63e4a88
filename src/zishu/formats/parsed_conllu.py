r"""Write parsed sentences as CoNLL-U, with one row per word or one row per character.

    # sent_id = 1
    # text = 上海计划发展金融业
    # prob = 0.4211
    1  上海  上海  PROPN  NNP  _  2  nsubj  _  CharHeads=2,0|Conf=0.9703|ConfWord=...|Start=0|End=2|SpaceAfter=No

Comments are `sent_id`, `text`, `prob` (probability of words and tree), `prob_without_lexicon`, `cut = yes` for a sentence
that was cut because of its length, then the caller's. MISC has these keys for a word; unknown values are omitted:

    CharHeads   the head of each character, numbered from 1 inside the word; 0 is the root character
    CharRels    the relation of each character to its head in the word; root for the root character
    ConfStructure   the probability of CharHeads and CharRels
    ConfWordWithoutLexicon   what ConfWord would be without the lexicon, if it found something
    Conf        the probability of the word, the product of ConfWord (boundaries), ConfHead, ConfLabel and ConfUpos
    Start, End  its half-open span in the parsed text, in code points
    SpaceAfter=No, SpacesAfter=...   the white space after it, as in UD and UDPipe: no key for one space,
                `\s` space, `\t` tab, `\n`, `\r`; other white space is `\uXXXX`. Forms and white space together
                are exactly the text, except for white space before the first sentence.

In a character tree the relation inside words is INTRA, or INTRA:obj and so on if the structure of the word is known
(`zishu.structures.RELATIONS`). The root character of a word has the word's relation, tags and Conf, but no lemma.
Instead of CharHeads, MISC has `Word`, the number of the word, and `Place`, which is B, M, E or S (begin, middle, end,
single).

A comment is one line. White space in `# text` that could break lines or columns (tabs, line breaks) is therefore
replaced by spaces, one for one, so offsets remain valid. Forms are written unchanged, including control characters and
lone surrogates; whoever encodes the text decides how to handle these.

This module does not read; `formats.conllu` does. Cost: one to three microseconds per character.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from zishu.document import CELLS, Sentence, Tokens, rows_of
from zishu.errors import InputError
from zishu.tree import INTRA

if TYPE_CHECKING:
    from collections.abc import Sequence


# White space that could end a line or a column for some reader; other white space (such as U+3000) may stay.
_ONE_LINE = dict.fromkeys(map(ord, "\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"), " ")
# For `str.translate`, which needs no memory per character: white space may be long. None lies above U+3000.
_ESCAPES = {code: f"\\u{code:04x}" for code in range(0x3001) if chr(code).isspace()}
_ESCAPES |= {ord(" "): r"\s", ord("\t"): r"\t", ord("\n"): r"\n", ord("\r"): r"\r"}
_BREAKING = re.compile(r"[\t\n\r]")


class _Digits(dict[int, str]):
    """Map ten thousandths to their decimal fractions, filled on demand."""

    def __missing__(self, number: int) -> str:
        self[number] = digits = f"{number / 10_000:.4f}"
        return digits


_DIGITS = _Digits()


def to_conllu(sentence: Sentence | Tokens, *, sent_id: str, **comments: object) -> str:
    """Return the rows of the words and the final blank line; HEAD and DEPREL are `_` if it was not parsed.

    Keyword arguments become comments: `rank=2` adds `# rank = 2`.
    """
    lines = _comments(sentence, sent_id, comments)
    if isinstance(sentence, Tokens):
        _check([word.form for word in sentence.words])
        return _block(lines + _token_rows(sentence))
    cells = sentence.cells
    forms = cells[1::CELLS]
    _check(forms)
    _check(cells[6::CELLS])
    _check([lemma for form, lemma in zip(forms, cells[14::CELLS], strict=True) if lemma not in (None, form)])
    lines += [
        f"{number}\t{form}\t{'_' if lemma is None else lemma}\t{_tags(upos, xpos, feats)}\t{head}\t{deprel}\t_\t"
        f"{_heads(char_heads, char_rels)}"
        f"{_confidence(of_word, of_head, of_label, of_upos, structure if len(form) > 1 else None, bare)}"
        f"Start={start}|End={end}{space}"
        for (
            number, form, start, end, upos, head, deprel, char_heads, of_word, of_head, of_label, of_upos, xpos, feats,
            lemma, char_rels, structure, bare,
        ), space in zip(rows_of(cells), _spaces(sentence, cells[2::CELLS], cells[3::CELLS]), strict=True)
    ]  # fmt: skip
    return _block(lines)


def _token_rows(sentence: Tokens) -> list[str]:
    words = sentence.words
    spaces = _spaces(sentence, [word.start for word in words], [word.end for word in words])
    return [
        f"{number}\t{form}\t{_tags(None, upos, xpos, None)}\t_\t_\t_\tStart={start}|End={end}{space}"
        for number, ((form, start, end, upos, xpos), space) in enumerate(
            zip(words, spaces, strict=True), start=1
        )
    ]


def to_chars_conllu(sentence: Sentence, *, sent_id: str, **comments: object) -> str:
    """Return the rows of the characters and the final blank line; see `to_conllu`."""
    lines = _comments(sentence, sent_id, comments)
    tree = sentence.char_tree
    relations = [relation for word in sentence.words for relation in word.char_rels or ()]
    _check([*tree.chars, *tree.labels, *relations])
    number = 0
    words = sentence.words
    spaces = _spaces(sentence, [word.start for word in words], [word.end for word in words])
    for word, space in zip(words, spaces, strict=True):
        end, offset = word.start, number
        while end < word.end:
            char, head, label = tree.chars[number], tree.heads[number], tree.labels[number]
            start, end, number = end, end + len(char), number + 1
            tags, confidence = _tags(None, None, None, None), ""
            if label == INTRA:
                label = INTRA if word.char_rels is None else f"{INTRA}:{word.char_rels[number - offset - 1]}"
            else:
                tags = _tags(None, word.upos, word.xpos, word.feats)
                confidence = "" if word.prob is None else f"Conf={word.prob:.4f}|"
            place = (
                ("S" if end == word.end else "B") if start == word.start else "E" if end == word.end else "M"
            )
            lines.append(
                f"{number}\t{char}\t{tags}\t{head}\t{label}\t_\tWord={word.id}|Place={place}|{confidence}"
                f"Start={start}|End={end}{space if end == word.end else '|SpaceAfter=No'}"
            )
    return _block(lines)


def _comments(sentence: Sentence | Tokens, sent_id: str, more: dict[str, object]) -> list[str]:
    lines = [f"# sent_id = {sent_id}", f"# text = {sentence.text.translate(_ONE_LINE)}"]
    if not isinstance(sentence, Tokens):
        probs = {"prob": sentence.prob, "prob_without_lexicon": sentence.prob_without_lexicon}
        lines += [f"# {name} = {prob:.4g}" for name, prob in probs.items() if prob is not None]
    if sentence.cut:
        lines.append("# cut = yes")
    lines += [f"# {key} = {value}" for key, value in more.items()]
    _check(lines)
    return lines


def _block(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n\n"


def _check(values: Sequence[str]) -> None:
    """Reject what cannot be read back. Searching the values is much faster than searching the block."""
    if "" in values or _BREAKING.search("".join(values)):
        raise InputError(f"CoNLL-U cannot represent a tab, a line break or an empty value: {values!r:.200}")


@lru_cache(maxsize=4096)
def _heads(char_heads: tuple[int, ...] | None, char_rels: tuple[str, ...] | None) -> str:
    _check(char_rels or ())
    heads = "" if char_heads is None else f"CharHeads={','.join(map(str, char_heads))}|"
    return heads if char_rels is None else f"{heads}CharRels={','.join(char_rels)}|"


@lru_cache(maxsize=4096)
def _tags(*columns: str | None) -> str:
    """Return columns of tags; `_` for unknown values."""
    values = ["_" if value is None else value for value in columns]
    _check(values)
    return "\t".join(values)


def _confidence(
    word: float | None,
    head: float | None,
    label: float | None,
    upos: float | None,
    structure: float | None,
    bare: float | None,
) -> str:
    """Return the keys of the probabilities that are known; `bare` is that of the word without the lexicon."""
    if word is None or head is None or label is None or upos is None:
        named = {"ConfWord": word, "ConfHead": head, "ConfLabel": label, "ConfUpos": upos}
        found = "".join([f"{name}={prob:.4f}|" for name, prob in named.items() if prob is not None])
        if word is not None and head is not None and label is not None:
            found = f"Conf={word * head * label:.4f}|{found}"
    else:
        # Looking up the digits takes half the time of formatting a number.
        found = (
            f"Conf={_DIGITS[int(word * head * label * upos * 1e4 + 0.5)]}|ConfWord={_DIGITS[int(word * 1e4 + 0.5)]}|"
            f"ConfHead={_DIGITS[int(head * 1e4 + 0.5)]}|ConfLabel={_DIGITS[int(label * 1e4 + 0.5)]}|"
            f"ConfUpos={_DIGITS[int(upos * 1e4 + 0.5)]}|"
        )
    if structure is not None:
        found += f"ConfStructure={_DIGITS[int(structure * 1e4 + 0.5)]}|"
    return found if bare is None else f"{found}ConfWordWithoutLexicon={bare:.4f}|"


def _spaces(sentence: Sentence | Tokens, starts: Sequence[int], ends: Sequence[int]) -> list[str]:
    """Return the MISC key for the white space after each word."""
    text, offset = sentence.text, sentence.start
    spaces = [
        "|SpaceAfter=No" if end == start else _space(text[end - offset : start - offset])
        for end, start in zip(ends, starts[1:], strict=False)
    ]
    return [*spaces, _space(sentence.after)]


def _space(space: str) -> str:
    if not space:
        return "|SpaceAfter=No"
    if space == " ":
        return ""
    if not space.isspace():
        raise InputError(f"expected white space between two words, not {space!r}")
    return "|SpacesAfter=" + space.translate(_ESCAPES)
