"""Enumerate character trees one by one, as the naive twin of every algorithm.

It imports nothing from the package. What is legal is defined here a second time, directly from the paper (section 2.2),
without gap ownership, spans or any recursion over them. Every function filters all the ways to give n characters a head,
so sentences may have up to six characters.

Trees are tuples of heads: `heads[0]` is the head of character 1, and 0 is ROOT. Scores are nested sequences:
`scores[d][h]` is for the arc h -> d, index 0 for ROOT; minus infinity forbids an arc. `gaps[k]` describes the gap between
k and k+1. Gap 0 is always a break, and entries from n on are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple, Protocol

FREE, JOIN, BREAK = 0, 1, 2

Scores = Sequence[Sequence[float]]


class TypedTree(NamedTuple):
    """A projective tree whose arcs have roles; intra[d - 1] tells whether d's arc lies inside a word."""

    heads: tuple[int, ...]
    intra: tuple[bool, ...]


class Marginals(NamedTuple):
    """Probabilities by enumeration; intra and boundary are None for trees without roles."""

    logz: float
    inter: list[list[float]]
    intra: list[list[float]] | None
    boundary: list[float] | None


class Words(Protocol):
    """Hold what the oracle needs of a word tree; one code point per character."""

    @property
    def forms(self) -> Sequence[str]: ...
    @property
    def heads(self) -> Sequence[int]: ...


# --- trees
# -----------------------------------------------------------------------------------------------------------


def ancestors(heads: Sequence[int], d: int) -> list[int]:
    """List the ancestors of d; n steps are enough, and a cycle ends there."""
    chain = []
    while d != 0 and len(chain) <= len(heads):
        d = heads[d - 1]
        chain.append(d)
    return chain


def is_tree(heads: Sequence[int]) -> bool:
    """Tell whether exactly one item depends on ROOT and all others descend from it."""
    return list(heads).count(0) == 1 and all(ancestors(heads, d)[-1] == 0 for d in range(1, len(heads) + 1))


def is_projective(heads: Sequence[int]) -> bool:
    """Tell whether a head dominates every item between itself and each of its dependents."""
    return all(
        h in ancestors(heads, between)
        for d, h in enumerate(heads, start=1)
        for between in range(min(d, h) + 1, max(d, h))
    )


@cache
def trees(n: int) -> tuple[tuple[int, ...], ...]:
    """List all projective trees over n items with one child of ROOT."""
    choices = [[h for h in range(n + 1) if h != d] for d in range(1, n + 1)]
    return tuple(heads for heads in product(*choices) if is_tree(heads) and is_projective(heads))


# --- trees with roles
# ------------------------------------------------------------------------------------------------


def words_of(tree: TypedTree) -> list[set[int]]:
    """List the sets of characters that intra-word arcs connect."""
    words = [{d} for d in range(1, len(tree.heads) + 1)]
    for d, (h, intra) in enumerate(zip(*tree, strict=True), start=1):
        if intra:
            joined = [word for word in words if d in word or h in word]
            words = [word for word in words if word not in joined] + [set().union(*joined)]
    return words


def root_characters(tree: TypedTree) -> set[int]:
    """Collect the characters whose own arc comes from outside their word."""
    return {d for d, intra in enumerate(tree.intra, start=1) if not intra}


def is_legal(tree: TypedTree, *, root_as_head: bool = True) -> bool:
    """Tell whether a tree satisfies the paper's constraints for some segmentation.

    A word is a subtree, so intra-word arcs connect it, and a piece of text, so its characters are
    contiguous. That leaves it with one root and keeps every intra-word arc from passing over an inter-word
    one. Root-as-head asks in addition that inter-word arcs start at ROOT or at the root of a word.
    """
    if tree.intra[tree.heads.index(0)]:
        return False
    if any(max(word) - min(word) + 1 != len(word) for word in words_of(tree)):
        return False
    roots = root_characters(tree) | {0}
    return not root_as_head or all(h in roots for h, intra in zip(*tree, strict=True) if not intra)


def has_arc(tree: TypedTree, dependent: tuple[int, int], head: tuple[int, int]) -> bool:
    """Tell whether the arc into a word, a span of characters, comes from a character of its head."""
    return all(tree.intra[d - 1] or tree.heads[d - 1] in range(*head) for d in range(*dependent))


@cache
def boundaries(tree: TypedTree) -> tuple[bool, ...]:
    """Tell for the gaps 0..n-1 whether a word ends there."""
    words = words_of(tree)
    return (True, *(not any({k, k + 1} <= word for word in words) for k in range(1, len(tree.heads))))


def respects(tree: TypedTree, gaps: Sequence[int]) -> bool:
    """Tell whether no word crosses a BREAK and none ends at a JOIN."""
    return all(gaps[k] != (JOIN if end else BREAK) for k, end in enumerate(boundaries(tree)) if k > 0)


@cache
def _typed_trees(n: int, known: tuple[int, ...], root_as_head: bool) -> tuple[TypedTree, ...]:
    """List the legal typed trees, given the gaps 0..n-1."""
    if any(known):
        return tuple(tree for tree in _typed_trees(n, (FREE,) * n, root_as_head) if respects(tree, known))
    typed = (TypedTree(heads, intra) for heads in trees(n) for intra in product((False, True), repeat=n))
    return tuple(tree for tree in typed if is_legal(tree, root_as_head=root_as_head))


def typed_trees(
    n: int, gaps: Sequence[int] | None = None, *, root_as_head: bool = True
) -> tuple[TypedTree, ...]:
    """List the legal typed trees over n characters that agree with the known gaps."""
    inner = (FREE,) * (n - 1) if gaps is None else tuple(gaps[1:n])
    return _typed_trees(n, (FREE, *inner), root_as_head)


def forest_trees(
    words: Words,
    *,
    policy: str = "latent",
    structures: Mapping[str, Sequence[int]] | None = None,
    single_root: bool = True,
    root_as_head: bool = True,
) -> set[TypedTree]:
    """Collect the character trees of a gold word tree, looking at every projective tree over its characters.

    An arc is intra-word if both its ends lie in one gold word; any other arc must follow an arc of the gold
    tree. Without `single_root` that is all; a gold word may then have several roots.
    """
    word_at = [0] + [number for number, form in enumerate(words.forms, start=1) for _ in form]
    gold_arcs = set(enumerate(words.heads, start=1))
    allowed = _structure_arcs(words, policy, structures or {})
    found = set()
    for heads in trees(len(word_at) - 1):
        arcs = list(enumerate(heads, start=1))
        tree = TypedTree(heads, tuple(word_at[d] == word_at[h] for d, h in arcs))
        roots = root_characters(tree)
        if any((word_at[d], word_at[heads[d - 1]]) not in gold_arcs for d in roots):
            continue
        if single_root and len(roots) != len(words.forms):  # every word has at least one root
            continue
        if root_as_head and any(heads[d - 1] not in roots | {0} for d in roots):
            continue
        if all(arc in allowed for arc, intra in zip(arcs, tree.intra, strict=True) if intra):
            found.add(tree)
    return found


def _structure_arcs(
    words: Words, policy: str, structures: Mapping[str, Sequence[int]]
) -> set[tuple[int, int]]:
    """Collect the (dependent, head) pairs that a structure policy allows inside the words."""
    allowed = set()
    first = 1
    for form in words.forms:
        last = first + len(form) - 1
        for d, h in product(range(first, last + 1), repeat=2):
            if policy == "leftward":
                fits = h == d + 1
            elif policy == "rightward":
                fits = h == d - 1
            elif policy == "annotated" and form in structures:
                fits = structures[form][d - first] == h - first + 1
            else:
                fits = d != h
            if fits:
                allowed.add((d, h))
        first = last + 1
    return allowed


# --- scores
# ----------------------------------------------------------------------------------------------------------


def ranked(
    inter: Scores,
    n: int,
    intra: Scores | None = None,
    gaps: Sequence[int] | None = None,
    *,
    root_as_head: bool = True,
) -> list[tuple[float, TypedTree]]:
    """List all trees with a probability above zero and their scores, best first.

    Without intra scores, trees have no roles, and all their arcs count as inter-word. But if the gaps determine all
    words, the same scores serve both roles.
    """
    if intra is not None or gaps is not None:
        if intra is None and gaps is not None and FREE in gaps[1:n]:
            raise ValueError("without intra scores the gaps must fix every word")
        candidates: Iterable[TypedTree] = typed_trees(n, gaps, root_as_head=root_as_head)
    else:
        candidates = (TypedTree(heads, (False,) * n) for heads in trees(n))
    within = inter if intra is None else intra
    scored = [(score(tree, inter, within), tree) for tree in candidates]
    return sorted(((s, tree) for s, tree in scored if s > -math.inf), key=lambda item: -item[0])


def score(tree: TypedTree, inter: Scores, intra: Scores) -> float:
    """Sum the scores of a tree's arcs."""
    return math.fsum(
        (intra if inside else inter)[d][h] for d, (h, inside) in enumerate(zip(*tree, strict=True), start=1)
    )


def log_sum_exp(values: Sequence[float]) -> float:
    """Add in log space; an empty sum is minus infinity."""
    top = max(values, default=-math.inf)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(value - top) for value in values))


def log_partition(
    inter: Scores,
    n: int,
    intra: Scores | None = None,
    gaps: Sequence[int] | None = None,
    *,
    root_as_head: bool = True,
) -> float:
    """Sum over all trees in log space; minus infinity if the constraints leave none."""
    return log_sum_exp([s for s, _ in ranked(inter, n, intra, gaps, root_as_head=root_as_head)])


def best(
    inter: Scores,
    n: int,
    intra: Scores | None = None,
    gaps: Sequence[int] | None = None,
    *,
    root_as_head: bool = True,
) -> tuple[float, set[TypedTree]] | None:
    """Return the highest score and all trees that reach it up to rounding, None if there is no tree."""
    candidates = ranked(inter, n, intra, gaps, root_as_head=root_as_head)
    if not candidates:
        return None
    top = candidates[0][0]
    return top, {tree for s, tree in candidates if math.isclose(s, top, rel_tol=1e-9, abs_tol=1e-9)}


def marginals(
    inter: Scores,
    n: int,
    intra: Scores | None = None,
    gaps: Sequence[int] | None = None,
    *,
    root_as_head: bool = True,
) -> Marginals:
    """Return the probability of every arc in each role and of a word boundary at each gap 0..n-1.

    If no tree remains, all probabilities are 0.
    """
    candidates = ranked(inter, n, intra, gaps, root_as_head=root_as_head)
    typed = intra is not None or gaps is not None
    logz = log_sum_exp([s for s, _ in candidates])
    arcs = {False: _zeros(n), True: _zeros(n)}
    boundary = [0.0] * n
    for s, tree in candidates:
        probability = math.exp(s - logz)
        for d, (h, inside) in enumerate(zip(*tree, strict=True), start=1):
            arcs[inside][d][h] += probability
        for k, end in enumerate(boundaries(tree)):
            boundary[k] += probability * end
    return Marginals(logz, arcs[False], arcs[True] if typed else None, boundary if typed else None)


def _zeros(n: int) -> list[list[float]]:
    return [[0.0] * (n + 1) for _ in range(n + 1)]
