"""Count what a treebank is made of: words and their lengths, tags, labels, directions, projectivity.

One pass, constant memory: only counts are kept. Sentences without any head (segmented but not parsed) count
for words, characters and tags only; half a tree is an error. It does not score anything, see
`zishu.metrics`.
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

LONGEST = 4  # words of this length or longer are counted together, as in the paper's analysis by length


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counts of a treebank; the shares that follow from them are for the reader to take."""

    sentences: int
    words: int
    characters: int
    longest_sentence: int  # in characters
    lengths: tuple[int, ...]  # words of 1, 2, 3 characters, and of LONGEST or more
    trees: int  # sentences with heads
    projective: int  # of these trees
    leftward: int  # arcs whose dependent is left of its head
    rightward: int  # arcs whose dependent is right of its head; the arc from ROOT is in neither
    labels: Mapping[str, int]  # most frequent first, words of trees only
    upos: Mapping[str, int]  # most frequent first, words without a tag left out


def measure(sentences: Iterable[ConlluSentence]) -> Statistics:
    """Count over sentences, which are read once and not kept."""
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
