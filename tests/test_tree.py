"""Word trees, character trees, and the way from characters to words."""

from itertools import combinations, pairwise, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import oracle
from oracle import TypedTree
from strategies import any_heads, char_trees, legal_char_trees, tree_heads
from zishu.errors import InputError, InvalidTree
from zishu.tree import (
    INTRA,
    CharTree,
    Recovery,
    WordTree,
    check_heads,
    is_projective,
    keep_pieces,
    recover,
)

# The paper's Figure 1b: 上海 计划 发展 金融业, with annotated structures.
PAPER_WORDS = WordTree(("上海", "计划", "发展", "金融业"), (2, 0, 2, 3), ("nsubj", "root", "ccomp", "dobj"))
PAPER_CHARS = CharTree(
    tuple("上海计划发展金融业"),
    (2, 4, 4, 0, 4, 5, 9, 7, 5),
    (INTRA, "nsubj", INTRA, "root", "ccomp", INTRA, INTRA, INTRA, "dobj"),
)


# --- objects
# ---------------------------------------------------------------------------------------------------------


def test_a_word_tree_knows_its_characters() -> None:
    assert PAPER_WORDS.lengths == (2, 2, 2, 3)
    assert PAPER_WORDS.spans == ((1, 3), (3, 5), (5, 7), (7, 10))
    assert PAPER_WORDS.is_projective


def test_a_character_is_what_a_reader_sees_as_one() -> None:
    tree = WordTree(("e\u0301a", "👨‍👩‍👧", "中"), (0, 1, 1), ("root", "obj", "obj"))
    assert tree.lengths == (2, 1, 1)
    assert tree.spans == ((1, 3), (3, 4), (4, 5))


@pytest.mark.parametrize(
    "forms, heads, message",
    [
        ((), (), "at least one word"),
        (("看", "书"), (0,), "2 words but 1 heads"),
        (("看", ""), (0, 1), "word 2 is empty"),
        (("看", "\u3000"), (0, 1), "word 2 is empty"),
        (("看", "书"), (0, 3), r"word 2 has head 3, which is outside 0\.\.2"),
        (("看", "书"), (0, -1), "word 2 has head -1"),
        (("看", "书"), (2, 1), "no word is the root"),
        (("看", "书"), (0, 0), "words 1, 2 are all roots"),
        (("看", "书"), (0, 2), "word 2 is its own ancestor"),
        (("我", "看", "书"), (2, 1, 0), "is its own ancestor"),
    ],
)
def test_a_broken_tree_cannot_exist(forms: tuple[str, ...], heads: tuple[int, ...], message: str) -> None:
    labels = ("dep",) * len(forms)
    with pytest.raises(InvalidTree, match=message):
        WordTree(forms, heads, labels)
    with pytest.raises(InvalidTree, match=message.replace("word", "character")):
        CharTree(forms, heads, labels)


def test_all_columns_have_one_length() -> None:
    with pytest.raises(InvalidTree, match="1 words but 2 deprels"):
        WordTree(("看",), (0,), ("root", "obj"))
    with pytest.raises(InvalidTree, match="1 words but 0 upos"):
        WordTree(("看",), (0,), ("root",), ())
    with pytest.raises(InvalidTree, match="1 characters but 0 labels"):
        CharTree(("看",), (0,), ())


def test_an_invalid_tree_is_an_input_error() -> None:
    with pytest.raises(InputError):
        WordTree(("看",), (1,), ("root",))


def test_trees_are_immutable_and_can_be_keys() -> None:
    with pytest.raises(AttributeError):
        PAPER_WORDS.heads = (0,)  # type: ignore[misc]
    assert len({PAPER_WORDS, PAPER_CHARS, PAPER_WORDS}) == 2


@pytest.mark.parametrize("n", range(1, 5))
def test_every_assignment_of_heads_is_a_tree_or_refused(n: int) -> None:
    for heads in product(range(n + 1), repeat=n):
        if oracle.is_tree(heads):
            check_heads(heads)
        else:
            with pytest.raises(InvalidTree):
                check_heads(heads)


@pytest.mark.parametrize("n", range(1, 6))
def test_projectivity_of_every_small_tree(n: int) -> None:
    for heads in product(range(n + 1), repeat=n):
        if oracle.is_tree(heads):
            assert is_projective(heads) == oracle.is_projective(heads)


@given(st.integers(1, 25).flatmap(tree_heads))
def test_projectivity_of_large_trees(heads: tuple[int, ...]) -> None:
    check_heads(heads)
    assert is_projective(heads) == oracle.is_projective(heads)


def test_the_heads_of_a_long_chain() -> None:
    n = 20_000
    check_heads(range(n))
    assert is_projective(range(n))
    with pytest.raises(InvalidTree, match="its own ancestor"):
        check_heads([0, *range(3, n + 1), 2])


# --- recovery
# --------------------------------------------------------------------------------------------------------


def test_the_example_of_the_paper() -> None:
    assert recover(PAPER_CHARS) == Recovery(
        tree=PAPER_WORDS,
        repairs=0,
        spans=((1, 3), (3, 5), (5, 7), (7, 10)),
        roots=(2, 4, 5, 9),
        char_heads=((2, 0), (2, 0), (0, 1), (3, 1, 0)),
    )


@given(legal_char_trees())
def test_recovery_of_a_legal_tree_is_exact(
    drawn: tuple[CharTree, WordTree, tuple[tuple[int, ...], ...]],
) -> None:
    chars, words, inner = drawn
    recovery = recover(chars)
    assert recovery.tree == words
    assert recovery.repairs == 0
    assert recovery.spans == words.spans
    assert recovery.char_heads == inner
    assert recovery.roots == tuple(
        start + heads.index(0) for (start, _), heads in zip(words.spans, inner, strict=True)
    )


@pytest.mark.parametrize("root_as_head", [True, False])
def test_every_small_legal_tree_needs_no_repair(root_as_head: bool) -> None:
    for n in range(1, 6):
        for typed in oracle.typed_trees(n, root_as_head=root_as_head):
            recovery = recover(_labelled(typed))
            words = sorted(oracle.words_of(typed), key=min)
            assert recovery.repairs == 0
            assert [set(range(*span)) for span in recovery.spans] == words
            assert set(recovery.roots) == oracle.root_characters(typed)


@given(char_trees())
@example(CharTree(("看",), (0,), (INTRA,)))
def test_a_repair_always_gives_a_word_tree_over_the_same_characters(tree: CharTree) -> None:
    recovery = recover(tree)
    _check_consistent(tree, recovery)
    assert recover(tree) == recovery


def _check_consistent(tree: CharTree, recovery: Recovery) -> None:
    words = recovery.tree  # a WordTree is valid as soon as it exists
    assert "".join(words.forms) == "".join(tree.chars)
    assert recovery.spans == words.spans
    assert recovery.spans[0][0] == 1
    word_at = {d: w for w, span in enumerate(recovery.spans, start=1) for d in range(*span)} | {0: 0}
    assert sorted(word_at) == list(range(len(tree.chars) + 1))
    kept = 0
    for (start, end), root, inner, head, deprel in zip(
        recovery.spans, recovery.roots, recovery.char_heads, words.heads, words.deprels, strict=True
    ):
        check_heads(inner)
        # Heads are never changed, neither inside words nor between them.
        inside = [tree.heads[d - 1] - start + 1 if d != root else 0 for d in range(start, end)]
        assert list(inner) == inside
        assert head == word_at[tree.heads[root - 1]]
        # Nor is a label, except on arcs that are no longer INTRA.
        was = tree.labels[root - 1]
        assert deprel == (was if was != INTRA else "dep" if head else "root")
        assert all(tree.labels[d - 1] == INTRA for d in range(start, end) if d != root)
        kept += len(inner) - 1
    assert recovery.repairs == tree.labels.count(INTRA) - kept


@given(char_trees(max_chars=7))
def test_a_repair_is_the_smallest_one_that_only_cuts(tree: CharTree) -> None:
    """Try all ways to cut intra-word arcs, fewest first; the repair must be the only first legal one."""
    arcs = [
        d for d, (h, label) in enumerate(zip(tree.heads, tree.labels, strict=True)) if h and label == INTRA
    ]
    for size in range(len(arcs) + 1):
        legal = [
            cut
            for cut in combinations(arcs, size)
            if _contiguous(tree.heads, [d in arcs and d not in cut for d in range(len(tree.heads))])
        ]
        if legal:
            break
    root_was_intra = tree.labels[tree.heads.index(0)] == INTRA
    recovery = recover(tree)
    assert recovery.repairs == size + root_was_intra
    assert legal == [tuple(d for d in arcs if d + 1 in recovery.roots)]


def _contiguous(heads: tuple[int, ...], intra: list[bool]) -> bool:
    return all(
        max(word) - min(word) + 1 == len(word) for word in oracle.words_of(TypedTree(heads, tuple(intra)))
    )


@pytest.mark.parametrize(
    "heads, labels, forms, word_heads, deprels, repairs",
    [
        pytest.param(
            *((0, 1, 1), ("root", "obj", INTRA)),
            *("甲 乙 丙", (0, 1, 1), ("root", "obj", "dep"), 1),
            id="an inter arc under an intra arc, as in the paper's Figure 2c",
        ),
        pytest.param(
            *((2, 0, 2, 2, 4), (INTRA, "root", "obj", INTRA, INTRA)),
            *("甲乙 丙 丁戊", (0, 1, 1), ("root", "obj", "dep"), 1),
            id="a word in two pieces, each of which stays whole",
        ),
        pytest.param(
            *((0, 1), (INTRA, INTRA)),
            *("甲乙", (0,), ("root",), 1),
            id="an intra arc from ROOT",
        ),
        pytest.param(
            *((0, 1, 1, 2), ("root", "obj", INTRA, INTRA)),
            *("甲 乙 丙 丁", (0, 1, 1, 2), ("root", "obj", "dep", "dep"), 2),
            id="two words that interleave",
        ),
        # 丁 cuts 乙 and 丙 from 戊, and only then is 乙 foreign to the word of 甲 and 丙.
        pytest.param(
            *((3, 5, 5, 5, 0), (INTRA, INTRA, INTRA, "obj", "root")),
            *("甲 乙 丙 丁 戊", (3, 5, 5, 5, 0), ("dep", "dep", "dep", "obj", "root"), 3),
            id="a cut that makes another one necessary",
        ),
    ],
)
def test_repairs_worked_by_hand(
    heads: tuple[int, ...],
    labels: tuple[str, ...],
    forms: str,
    word_heads: tuple[int, ...],
    deprels: tuple[str, ...],
    repairs: int,
) -> None:
    recovery = recover(CharTree(tuple(forms.replace(" ", "")), heads, labels))
    assert recovery.tree == WordTree(tuple(forms.split()), word_heads, deprels)
    assert recovery.repairs == repairs


def test_repairs_use_the_labels_of_the_label_set() -> None:
    tree = CharTree(tuple("甲乙丙"), (0, 1, 1), (INTRA, "OBJ", INTRA))
    assert recover(tree, ("INTRA", "OBJ", "DEP", "ROOT")).tree.deprels == ("ROOT", "OBJ", "DEP")
    assert recover(tree, ("Dep", "dep")).tree.deprels == ("root", "OBJ", "dep")
    assert recover(tree).tree.deprels == ("root", "OBJ", "dep")


# --- the recovery of the paper's release
# --------------------------------------------------------------------------------------------------------


def _words_of_the_release(tree: CharTree) -> list[tuple[tuple[int, int], int, str]]:
    """Return the span, the head word and the relation of each word as the release finds them, several roots allowed."""
    roots = []
    for d in range(1, len(tree.heads) + 1):
        while tree.labels[d - 1] == INTRA and tree.heads[d - 1]:
            d = tree.heads[d - 1]
        roots.append(d)
    starts = [d for d in range(1, len(roots) + 1) if d == 1 or roots[d - 1] != roots[d - 2]]
    spans = list(pairwise([*starts, len(roots) + 1]))
    word_at = {d: number for number, span in enumerate(spans, start=1) for d in range(*span)} | {0: 0}
    return [
        (span, word_at[tree.heads[root - 1]], tree.labels[root - 1])
        for span, root in ((span, roots[span[0] - 1]) for span in spans)
    ]


@given(char_trees())
def test_pieces_of_a_word_are_kept_as_in_the_release(tree: CharTree) -> None:
    recovery = recover(keep_pieces(tree))
    root = recovery.tree.heads.index(0) + 1
    expected = _words_of_the_release(tree)
    assert recovery.spans == tuple(span for span, _, _ in expected)
    for number, (_, head, label) in enumerate(expected, start=1):
        found = recovery.tree.heads[number - 1], recovery.tree.deprels[number - 1]
        if head == 0 and number != root:  # the release has two roots
            assert found == (root, "dep")
        else:
            assert found == (head, "root" if label == INTRA else label)


@given(legal_char_trees())
def test_the_recovery_of_the_release_leaves_legal_trees_alone(drawn) -> None:
    assert keep_pieces(drawn[0]) == drawn[0]


@pytest.mark.parametrize(
    "heads, labels, forms, word_heads, deprels",
    [
        pytest.param(
            *((4, 1, 1, 0), ("obj", "amod", INTRA, "root")),
            *("甲 乙 丙 丁", (4, 1, 4, 0), ("obj", "amod", "obj", "root")),
            id="both pieces of a word are objects",
        ),
        pytest.param(
            *((0, 1, 1, 1), ("root", "obj", INTRA, INTRA)),
            *("甲 乙 丙丁", (0, 1, 1), ("root", "obj", "dep")),
            id="a piece of the root, which the release makes a second root",
        ),
    ],
)
def test_pieces_worked_by_hand(heads, labels, forms, word_heads, deprels) -> None:
    tree = keep_pieces(CharTree(tuple(forms.replace(" ", "")), heads, labels))
    assert recover(tree).tree == WordTree(tuple(forms.split()), word_heads, deprels)
    assert recover(tree).repairs == 0


@given(st.integers(1, 12).flatmap(any_heads))
def test_without_intra_arcs_every_character_is_a_word(heads: tuple[int, ...]) -> None:
    n = len(heads)
    recovery = recover(CharTree(("字",) * n, heads, ("dep",) * n))
    assert recovery.tree == WordTree(("字",) * n, heads, ("dep",) * n)
    assert recovery.roots == tuple(range(1, n + 1))


def _labelled(tree: TypedTree) -> CharTree:
    labels = tuple(INTRA if inside else "dep" for inside in tree.intra)
    return CharTree(("字",) * len(labels), tree.heads, labels)
