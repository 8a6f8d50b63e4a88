"""Join affixes with their stems: coarser words from those of a treebank that splits off affixes.

UD_Chinese-GSD treats 科学 | 家, 图书 | 馆 and 副 | 总统 as two words each; others treat them as one. `coarsen` joins

- a suffix: one character with the tag PART that is the head of the preceding word, as `compound` and similar relations;
- a prefix: one character with the tag PART that depends on the following word, as `case`.

Joining a word with its dependent cannot break a tree: the joined word has the head and the relation of the upper one,
and all other dependents of both. Several affixes are joined one after the other (图书 | 馆 | 长). Offsets stay exact, and
the structure of the joined word contains those of its parts. The probability of a sentence is still that of its fine
words.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, get_args

from zishu.document import Sentence, Word
from zishu.structures import is_chinese
from zishu.tree import ROOT, ROOT_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

Granularity = Literal["fine", "coarse"]
GRANULARITIES: Final = get_args(Granularity)

# Suffixes that add no meaning of their own; all others determine what the word names, so they are its root.
_TONELESS: Final = frozenset("们子头儿")
_PREFIXES: Final = frozenset("老阿第")
# A name with one of these suffixes is no longer a name.
_COMMON: Final = frozenset("人语文族式者性化学派")
_JOINING: Final = frozenset({"compound", "nmod", "amod", "nummod", "obj", "nsubj", "case"})


def coarsen(sentence: Sentence) -> Sentence:
    """Return the sentence with affixes joined with their stems."""
    joined = [_is_joined(left, right) for left, right in pairwise(sentence.words)]
    if not any(joined):
        return sentence
    groups: list[list[Word]] = [[sentence.words[0]]]
    for word, with_last in zip(sentence.words[1:], joined, strict=True):
        if with_last:
            groups[-1].append(word)
        else:
            groups.append([word])
    number = {word.id: k for k, group in enumerate(groups, start=1) for word in group}
    words = tuple(_join(group, k, number) for k, group in enumerate(groups, start=1))
    return replace(sentence, words=words)


def _is_joined(left: Word, right: Word) -> bool:
    """Tell whether two neighbours are a stem and its affix."""
    if left.end != right.start or not (is_chinese(left.form) and is_chinese(right.form)):
        return False
    if right.upos == "PART" and len(right.form) == 1 and left.head == right.id:
        return left.deprel.partition(":")[0] in _JOINING
    return left.upos == "PART" and len(left.form) == 1 and left.head == right.id and left.deprel == "case"


def _join(group: Sequence[Word], number: int, numbers: dict[int, int]) -> Word:
    """Join a stem and its affixes into one word; `numbers` maps old word numbers to new ones."""
    inside = {word.id for word in group}
    top = next(word for word in group if word.head not in inside)
    form = "".join(word.form for word in group)
    char_heads, char_rels, upos = group[0].char_heads, group[0].char_rels, group[0].upos
    prob = group[0].structure_prob
    for left, right in pairwise(group):
        suffix = right.upos == "PART" and len(right.form) == 1
        upos = _tag_with_suffix(upos, right) if suffix else right.upos
        prob = None if prob is None or right.structure_prob is None else prob * right.structure_prob
        right_is_root = not (suffix and right.form in _TONELESS)
        if not right_is_root:
            relation = "suf"
        elif not suffix and left.form in _PREFIXES:
            relation = "pre"
        else:
            relation = "att"
        char_heads, char_rels = _joined_tree(char_heads, char_rels, right, relation, right_is_root)
    return Word(
        id=number,
        form=form,
        start=group[0].start,
        end=group[-1].end,
        upos=upos,
        head=ROOT if top.head == ROOT else numbers[top.head],
        deprel=top.deprel,
        char_heads=char_heads,
        boundary_prob=_least([word.boundary_prob for word in group]),
        head_prob=top.head_prob,
        label_prob=top.label_prob,
        upos_prob=_least([word.upos_prob for word in group]),
        xpos=group[0].xpos if len(group) == 1 else None,
        feats=top.feats,
        lemma=group[0].lemma if len(group) == 1 else form,
        char_rels=char_rels,
        structure_prob=prob,
        boundary_prob_without_lexicon=_least([word.boundary_prob_without_lexicon for word in group]),
    )


def _tag_with_suffix(stem: str | None, suffix: Word) -> str | None:
    """Return the part of speech of a stem with a suffix."""
    if suffix.upos is None or suffix.form in _TONELESS:
        return stem
    kinds = {"SFV": "VERB", "SFA": "ADJ"}
    if suffix.xpos in kinds:
        return kinds[suffix.xpos]
    return "PROPN" if stem == "PROPN" and suffix.form not in _COMMON else "NOUN"


def _joined_tree(
    heads: tuple[int, ...] | None,
    relations: tuple[str, ...] | None,
    right: Word,
    relation: str,
    right_is_root: bool,
) -> tuple[tuple[int, ...] | None, tuple[str, ...] | None]:
    """Attach the root of one side to the root of the other."""
    if heads is None or right.char_heads is None:
        return None, None
    shift = len(heads)
    left_root = heads.index(ROOT) + 1
    right_root = right.char_heads.index(ROOT) + 1 + shift
    joined = [*heads, *(head + shift if head else ROOT for head in right.char_heads)]
    lower, upper = (left_root, right_root) if right_is_root else (right_root, left_root)
    joined[lower - 1] = upper
    if relations is None or right.char_rels is None:
        return tuple(joined), None
    names = [*relations, *right.char_rels]
    names[lower - 1], names[upper - 1] = relation, ROOT_LABEL
    return tuple(joined), tuple(names)


def _least(probs: Sequence[float | None]) -> float | None:
    known = [prob for prob in probs if prob is not None]
    return min(known) if len(known) == len(probs) else None
