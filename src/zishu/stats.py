"""Compute statistics of a treebank: words and their lengths, tags, labels, arc directions, projectivity.

It makes one pass in constant memory. Sentences without any head (segmented but not parsed) count only for words,
characters and tags; a partial tree is an error. For scores see `zishu.metrics`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zishu.text import characters
from zishu.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zishu.formats.conllu import ConlluSentence

LONGEST = 4  # longer words are counted with these, as in the paper's analysis by length


@dataclass(frozen=True, slots=True)
class Statistics:
    """Hold the counts of a treebank. Shares can be computed from them."""

    sentences: int
    words: int
    characters: int
    longest_sentence: int  # in characters
    lengths: tuple[int, ...]  # words of 1, 2, 3 characters, and of LONGEST or more
    trees: int  # sentences with heads
    projective: int  # projective sentences with heads
    leftward: int  # arcs whose dependent precedes its head
    rightward: int  # arcs whose dependent follows its head; arcs from ROOT count in neither
    labels: Mapping[str, int]  # most frequent first; only words of sentences with heads
    upos: Mapping[str, int]  # most frequent first; words without a tag are not counted


def measure(sentences: Iterable[ConlluSentence]) -> Statistics:
    """Count over sentences; each is read once and not kept."""
    total = Counter[str]()
    lengths = [0] * LONGEST
    labels = Counter[str]()
    upos = Counter[str]()
    longest_sentence = 0
    for sentence in sentences:
        sizes = [len(characters(token.form)) for token in sentence.tokens]
        for size in sizes:
            lengths[min(max(size, 1), LONGEST) - 1] += 1
        longest_sentence = max(longest_sentence, sum(sizes))
        upos.update(token.upos for token in sentence.tokens if token.upos != "_")
        total.update(sentences=1, words=len(sizes), characters=sum(sizes))
        if all(token.head is None for token in sentence.tokens):
            continue
        tree = sentence.tree()
        labels.update(tree.deprels)
        leftward = sum(d < h for d, h in enumerate(tree.heads, 1))
        rightward = sum(ROOT < h < d for d, h in enumerate(tree.heads, 1))
        total.update(trees=1, projective=tree.is_projective, leftward=leftward, rightward=rightward)
    return Statistics(
        sentences=total["sentences"],
        words=total["words"],
        characters=total["characters"],
        longest_sentence=longest_sentence,
        lengths=tuple(lengths),
        trees=total["trees"],
        projective=total["projective"],
        leftward=total["leftward"],
        rightward=total["rightward"],
        labels=dict(labels.most_common()),
        upos=dict(upos.most_common()),
    )
