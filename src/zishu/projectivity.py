"""Make trees projective and back: the pseudo-projective transformation of Nivre and Nilsson (2005).

The chart handles projective trees only, a limitation that the paper names. `projectivize` lifts every crossing arc to
the head of its head until nothing crosses, shortest arcs first, and records this in the label. The relation `obj` of a
word whose head was an `acl` becomes `obj↑acl` (the authors' "head" encoding). A parser learns these labels like any
others. `lower_arcs` removes the mark and searches for the head: breadth first from the present head, left to right,
for the first word with the relation in the mark.

The search may miss, because two words can have that relation. The result is always a tree. Cost: O(n^2) for each lifted
arc, nothing for projective trees.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zishu.errors import InputError
from zishu.tree import ROOT, WordTree

if TYPE_CHECKING:
    from collections.abc import Sequence


LIFTED: Final = "↑"


def projectivize(tree: WordTree) -> WordTree:
    """Return a projective tree with the same words, in which lifted arcs have marked labels."""
    if any(LIFTED in label for label in tree.deprels):
        raise InputError(f"a relation contains {LIFTED}, which marks lifted arcs")
    if tree.is_projective:
        return tree
    heads = list(tree.heads)
    while crossing := [d for d in range(1, len(heads) + 1) if not _is_projective_arc(heads, d)]:
        shortest = min(crossing, key=lambda d: abs(d - heads[d - 1]))
        heads[shortest - 1] = heads[heads[shortest - 1] - 1]
    labels = tuple(
        label if new == old else f"{label}{LIFTED}{tree.deprels[old - 1]}"
        for label, old, new in zip(tree.deprels, tree.heads, heads, strict=True)
    )
    return replace(tree, heads=tuple(heads), deprels=labels)


def lower_arcs(heads: Sequence[int], labels: Sequence[str]) -> tuple[list[int], list[str]]:
    """Move back the lifted arcs of a sentence, given its heads and labels."""
    heads = list(heads)
    base, marks = zip(*(label.partition(LIFTED)[::2] for label in labels), strict=True)
    lifted = [d for d in _breadth_first(heads, ROOT, without=None) if marks[d - 1]]
    # A head that was lifted itself may only be found after it was moved back, so this takes several rounds.
    found = [ROOT]
    while found:
        found = []
        for d in lifted:
            below = _breadth_first(heads, heads[d - 1], without=d)
            head = next((h for h in below if base[h - 1] == marks[d - 1]), None)
            if head is not None:
                heads[d - 1] = head
                found.append(d)
        lifted = [d for d in lifted if d not in found]
    return heads, list(base)


def _is_projective_arc(heads: Sequence[int], dependent: int) -> bool:
    """Tell whether the head of a word is an ancestor of all words between the two."""
    head = heads[dependent - 1]
    return all(
        _is_above(heads, head, between) for between in range(min(head, dependent) + 1, max(head, dependent))
    )


def _is_above(heads: Sequence[int], head: int, word: int) -> bool:
    while word not in (head, ROOT):
        word = heads[word - 1]
    return word == head


def _breadth_first(heads: Sequence[int], top: int, *, without: int | None) -> list[int]:
    """List the descendants of a word level by level, without one word and its descendants."""
    children: dict[int, list[int]] = {}
    for d, h in enumerate(heads, start=1):
        children.setdefault(h, []).append(d)
    found: list[int] = []
    waiting = deque([top])
    while waiting:
        below = [d for d in children.get(waiting.popleft(), ()) if d != without]
        found += below
        waiting += below
    return found
