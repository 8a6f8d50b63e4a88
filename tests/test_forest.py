"""A forest holds exactly the character trees that the paper's constraints allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from forests import LABEL_INDEX, arc_labels, trees_of
from oracle import BREAK, FREE, JOIN, TypedTree
from strategies import LABELS, structures_for, tree_heads, word_trees
from zishu.errors import InputError
from zishu.forest import POLICIES, Forest, build_forest
from zishu.tree import INTRA, CharTree, WordTree, recover

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_SETTING = [
    pytest.param(policy, single_root, root_as_head, id=f"{policy}-{single_root=}-{root_as_head=}")
    for policy in POLICIES
    for single_root in (True, False)
    for root_as_head in (True, False)
]


def word_trees_up_to(characters: int) -> Iterator[WordTree]:
    """Enumerate every projective word tree over a few characters, with every segmentation of them."""
    text = "上海计划发"[:characters]
    for cuts in range(2 ** (characters - 1)):
        marked = "".join(c + " " * (cuts >> k & 1) for k, c in enumerate(text[:-1])) + text[-1]
        forms = tuple(marked.split())
        for heads in oracle.trees(len(forms)):
            yield WordTree(forms, heads, tuple(LABELS[w % len(LABELS)] for w in range(len(forms))))


# A structure for some words of `word_trees_up_to`; the others stay latent.
LEXICON = {"上海": (0, 1), "海计": (2, 0), "上海计": (0, 3, 1), "划发": (0, 1), "海计划": (2, 0, 2)}


@pytest.mark.parametrize("policy, single_root, root_as_head", EVERY_SETTING)
def test_a_forest_holds_exactly_the_trees_of_the_definition(
    policy: str, single_root: bool, root_as_head: bool
) -> None:
    structures = LEXICON if policy == "annotated" else None
    for characters in range(1, 6):
        for words in word_trees_up_to(characters):
            forest = build_forest(
                words, LABEL_INDEX, policy=policy, structures=structures, single_root=single_root
            )
            found = list(trees_of(forest, root_as_head=root_as_head))
            assert len(found) == len(set(found))
            assert set(found) == oracle.forest_trees(
                words,
                policy=policy,
                structures=structures,
                single_root=single_root,
                root_as_head=root_as_head,
            )
            assert found, "the forest of a projective word tree is never empty"


@given(st.data())
def test_a_forest_of_six_characters(data: st.DataObject) -> None:
    words = data.draw(word_trees(max_chars=6))
    policy = data.draw(st.sampled_from(POLICIES))
    single_root, root_as_head = data.draw(st.booleans()), data.draw(st.booleans())
    structures = data.draw(structures_for(words)) if policy == "annotated" else None
    forest = build_forest(words, LABEL_INDEX, policy=policy, structures=structures, single_root=single_root)
    assert set(trees_of(forest, root_as_head=root_as_head)) == oracle.forest_trees(
        words, policy=policy, structures=structures, single_root=single_root, root_as_head=root_as_head
    )


@given(st.data())
def test_every_tree_of_a_forest_leads_back_to_the_word_tree(data: st.DataObject) -> None:
    words = data.draw(word_trees(max_chars=5))
    policy = data.draw(st.sampled_from(POLICIES))
    structures = data.draw(structures_for(words)) if policy == "annotated" else None
    forest = build_forest(words, LABEL_INDEX, policy=policy, structures=structures)
    for tree in trees_of(forest, root_as_head=data.draw(st.booleans())):
        recovery = recover(_labelled(words, forest, tree))
        assert recovery.tree == words
        assert recovery.repairs == 0


@given(st.data())
def test_a_tree_drawn_from_a_long_forest_leads_back_to_the_word_tree(data: st.DataObject) -> None:
    """Draw a root and a structure for each word, which is possible for any length and any word tree."""
    words = data.draw(word_trees(max_words=12, max_chars=40, projective=None))
    forest = build_forest(words, LABEL_INDEX)
    intra, inter = arc_labels(forest, intra=True), arc_labels(forest, intra=False)
    inner = [data.draw(tree_heads(end - start)) for start, end in words.spans]
    roots = [start + heads.index(0) for (start, _), heads in zip(words.spans, inner, strict=True)]
    arcs = [
        (start + d, start + h - 1 if h else head and roots[head - 1])
        for (start, _), heads, head in zip(words.spans, inner, words.heads, strict=True)
        for d, h in enumerate(heads)
    ]
    labels = tuple((intra.get(arc) or inter[arc]) for arc in arcs)
    recovery = recover(CharTree(tuple("".join(words.forms)), tuple(h for _, h in arcs), labels))
    assert recovery.tree == words
    assert recovery.repairs == 0
    assert recovery.roots == tuple(roots)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("root_as_head", [True, False])
def test_the_forest_of_a_non_projective_tree_is_empty(single_root: bool, root_as_head: bool) -> None:
    for forms in (("甲", "乙", "丙", "丁"), ("甲", "乙丙", "丁", "戊"), ("甲乙", "丙", "丁戊", "己")):
        words = WordTree(forms, (3, 0, 2, 1), ("dep",) * 4)
        assert not words.is_projective
        forest = build_forest(words, LABEL_INDEX, single_root=single_root)
        assert list(trees_of(forest, root_as_head=root_as_head)) == []


# --- by hand
# ---------------------------------------------------------------------------------------------------------

SENTENCE = WordTree(("我们", "看", "金融业"), (2, 0, 2), ("nsubj", "root", "obj"))


def test_gaps_and_arcs_of_a_sentence() -> None:
    forest = build_forest(SENTENCE, LABEL_INDEX)
    assert forest.length == 6
    assert forest.gaps.tolist() == [BREAK, JOIN, BREAK, BREAK, JOIN, JOIN, BREAK]
    assert arc_labels(forest, intra=False) == {
        (1, 3): "nsubj",
        (2, 3): "nsubj",
        (3, 0): "root",
        (4, 3): "obj",
        (5, 3): "obj",
        (6, 3): "obj",
    }
    assert set(arc_labels(forest, intra=True)) == {
        (1, 2),
        (2, 1),
        (4, 5),
        (4, 6),
        (5, 4),
        (5, 6),
        (6, 4),
        (6, 5),
    }
    assert set(arc_labels(forest, intra=True).values()) == {INTRA}


@pytest.mark.parametrize(
    "policy, expected",
    [
        ("leftward", {(1, 2), (4, 5), (5, 6)}),  # Figure 1c of the paper: 金 <- 融 <- 业
        ("rightward", {(2, 1), (5, 4), (6, 5)}),
        ("annotated", {(1, 2), (2, 1), (4, 6), (5, 4)}),  # Figure 1b: 业 -> 金 -> 融; 我们 has no entry
    ],
)
def test_arcs_inside_words(policy: str, expected: set[tuple[int, int]]) -> None:
    structures = {"金融业": (3, 1, 0), "上海": (2, 0)} if policy == "annotated" else None
    forest = build_forest(SENTENCE, LABEL_INDEX, policy=policy, structures=structures)
    assert set(arc_labels(forest, intra=True)) == expected
    assert forest.gaps.tolist() == build_forest(SENTENCE, LABEL_INDEX).gaps.tolist()
    assert arc_labels(forest, intra=False) == arc_labels(build_forest(SENTENCE, LABEL_INDEX), intra=False)


def test_without_single_root_words_may_fall_apart_but_only_below_their_head() -> None:
    words = WordTree(("我们", "看"), (2, 0), ("nsubj", "root"))
    forest = build_forest(words, LABEL_INDEX, single_root=False)
    assert forest.gaps.tolist() == [BREAK, FREE, BREAK, BREAK]
    found = set(trees_of(forest, root_as_head=True))
    assert found == {
        TypedTree((2, 3, 0), (True, False, False)),
        TypedTree((3, 1, 0), (False, True, False)),
        TypedTree((3, 3, 0), (False, False, False)),  # two roots, as in the paper's Figure 2a
    }


def test_the_arrays_are_what_kernels_expect() -> None:
    for words in (SENTENCE, WordTree(("看",), (0,), ("root",))):
        forest = build_forest(words, LABEL_INDEX)
        assert forest.gaps.dtype == np.int8
        assert forest.gaps.shape == (forest.length + 1,)
        for table, kind in ((forest.heads, np.int64), (forest.labels, np.int64), (forest.intra, np.bool_)):
            assert table.dtype == kind
            assert table.shape == (forest.length + 1, forest.heads.shape[1])
            assert table.flags.c_contiguous


def test_the_characters_of_a_forest_are_those_that_a_reader_sees() -> None:
    words = WordTree(("e\u0301a", "👨‍👩‍👧"), (0, 1), ("root", "obj"))
    forest = build_forest(words, LABEL_INDEX)
    assert forest.length == 3
    assert set(arc_labels(forest, intra=False)) == {(1, 0), (2, 0), (3, 1), (3, 2)}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"policy": "upward"}, "unknown structure policy 'upward', choose one of latent, leftward"),
        ({"policy": "annotated"}, "needs structures"),
        ({"label_index": {INTRA: 0, "nsubj": 1, "root": 2}}, "label 'obj' is not in the label vocabulary"),
        ({"label_index": {"nsubj": 1, "root": 2, "obj": 3}}, "label 'INTRA' is not in the label vocabulary"),
        ({"tree": WordTree(("看",), (0,), (INTRA,))}, "INTRA is reserved"),
        ({"policy": "annotated", "structures": {"金融业": (0, 1)}}, "金融业: 2 heads for 3 characters"),
        (
            {"policy": "annotated", "structures": {"金融业": (2, 1, 0)}},
            "金融业: character 1 is its own ancestor",
        ),
        ({"policy": "annotated", "structures": {"金融业": (3, 0, 2)}}, "金融业: the tree is not projective"),
    ],
)
def test_wrong_input_is_named(change: dict[str, object], message: str) -> None:
    arguments = {"tree": SENTENCE, "label_index": LABEL_INDEX} | change
    with pytest.raises(InputError, match=message):
        build_forest(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "heads"),
    [("leftward", (2, 3, 0, 5, 6, 3)), ("rightward", (3, 1, 0, 3, 4, 5)), ("annotated", (2, 3, 0, 6, 4, 3))],
)
def test_one_tree_is_one_tree(policy: str, heads: tuple[int, ...]) -> None:
    """Every character has one head; 我们 has no annotated structure and is leftward."""
    structures = {"金融业": (3, 1, 0)}
    forest = build_forest(SENTENCE, LABEL_INDEX, policy=policy, structures=structures, one_tree=True)
    assert (forest.heads >= 0).sum() == forest.length
    [tree] = trees_of(forest, root_as_head=True)
    assert tree.heads == heads
    assert tree in oracle.forest_trees(SENTENCE, policy="latent")


def _labelled(words: WordTree, forest: Forest, tree: TypedTree) -> CharTree:
    inter, intra = arc_labels(forest, intra=False), arc_labels(forest, intra=True)
    labels = tuple(
        (intra if inside else inter)[arc]
        for arc, inside in zip(enumerate(tree.heads, start=1), tree.intra, strict=True)
    )
    return CharTree(tuple("".join(words.forms)), tree.heads, labels)
