"""Structures inside words, complete match, attachment by length: known answers on hand-made data."""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import tiny
from zishu.analysis.predictions import Predictions
from zishu.analysis.structures import draw_structure, leftward_share, read_drawing, shares
from zishu.analysis.study import complete_match, study, uas_by_length
from zishu.analysis.study_files import read_study, study_from_dict, study_to_dict
from zishu.errors import InputError
from zishu.metrics import Average
from zishu.tree import WordTree, projective_trees
from zishu.treebank.wist import read_wist

# Table 6 of the paper, column "Annt.": share in percent and number of entries in WIST. The name of a structure, as in
# the paper's source, has one letter for the head of each character, and r for the root.
ANNOTATED = {
    2: {"br": (48.07, 10305), "ra": (51.93, 11134)},
    3: {
        "bcr": (34.67, 2639), "car": (34.20, 2603), "ccr": (5.78, 440), "raa": (1.87, 142), "rab": (7.02, 534),
        "brb": (15.30, 1165),
    },
    4: {
        "bcdr": (7.24, 202), "bddr": (9.39, 262), "dddr": (0.57, 16), "raaa": (0.07, 2), "raac": (11.94, 333),
        "brdb": (15.45, 431), "carc": (7.20, 201), "bcrc": (7.13, 199),
    },
}  # fmt: skip
ENTRIES = {2: 21439, 3: 7612, 4: 2790}


def from_letters(name: str) -> tuple[int, ...]:
    return tuple(" abcd".index(letter) if letter != "r" else 0 for letter in name)


# --- structures


@pytest.mark.parametrize("length", range(1, 6))
def test_the_structures_are_the_projective_trees(length):
    assert projective_trees(length) == tuple(sorted(oracle.trees(length)))


@pytest.mark.parametrize(
    ("length", "number"), [(1, 1), (2, 2), (3, 7), (4, 30), (5, 143), (6, 728), (7, 3876)]
)
def test_how_many_structures_there_are(length, number):
    assert len(set(projective_trees(length))) == number


def test_a_word_has_characters():
    with pytest.raises(InputError, match="at least one"):
        projective_trees(0)


@pytest.mark.parametrize(
    ("heads", "drawing"),
    [
        ((0,), "●"),
        ((2, 0), "○←●"),
        ((0, 1), "●→○"),
        ((2, 3, 0), "○←○←●"),
        ((3, 3, 0), "○←(○←●)"),
        ((3, 1, 0), "(○→○)←●"),
        ((2, 0, 2), "○←●→○"),
        ((0, 1, 1), "(●→○)→○"),
        ((0, 1, 2), "●→○→○"),
        ((0, 3, 1), "●→(○←○)"),
        ((2, 0, 4, 2), "○←●→(○←○)"),
        ((4, 1, 4, 0), "(○→○)←(○←●)"),
        ((2, 4, 2, 0), "○←(○→○)←●"),
    ],
)
def test_drawings(heads, drawing):
    assert draw_structure(heads) == drawing
    assert read_drawing(drawing) == heads


@pytest.mark.parametrize("length", range(1, 7))
def test_drawings_are_read_back_and_no_two_are_the_same(length):
    drawings = {draw_structure(heads): heads for heads in projective_trees(length)}
    assert len(drawings) == len(projective_trees(length))
    assert all(read_drawing(drawing) == heads for drawing, heads in drawings.items())


@pytest.mark.parametrize(
    "text",
    ["", "○", "●●", "●→●", "○←○", "●→", "→○", "(●→○", "●→○)", "●→○←○", "○→○←●", "●x○", "()", "●→(○→)", "●←○"],
)
def test_what_is_no_drawing_is_refused(text):
    with pytest.raises(InputError, match="not a drawing"):
        read_drawing(text)


@given(st.text(alphabet="●○→←()", max_size=12))
def test_the_reader_takes_projective_trees_or_complains(text):
    try:
        heads = read_drawing(text)
    except InputError:
        return
    # Brackets that change nothing are allowed, so the drawing need not be the same.
    assert read_drawing(draw_structure(heads)) == heads


@pytest.mark.parametrize("heads", [(3, 4, 0, 3), (2, 1), (0, 0), (5, 0)])
def test_only_projective_trees_are_drawn(heads):
    with pytest.raises(InputError):
        draw_structure(heads)


def test_shares_are_among_the_words_of_one_length():
    counts = Counter({(2, 0): 1, (0, 1): 3, (2, 3, 0): 5, (0,): 100})
    assert shares(counts, 2) == {(0, 1): 75.0, (2, 0): 25.0}
    assert [*shares(counts, 2)] == [(0, 1), (2, 0)]
    assert shares(counts, 3) == {(2, 3, 0): 100.0}
    assert shares(counts, 4) == {}


def test_leftward_is_a_dependent_before_its_head():
    assert leftward_share(Counter({(2, 0): 1, (2, 3, 0): 1})) == 100
    assert leftward_share(Counter({(0, 1): 1})) == 0
    # The unit is the arc, not the word: three of the four arcs in these words are leftward.
    assert leftward_share(Counter({(2, 0): 1, (3, 3, 0): 1, (0, 1): 1, (0,): 9})) == 75
    assert leftward_share(Counter({(0,): 9})) is None


@pytest.mark.parametrize("length", ANNOTATED)
def test_the_structures_of_the_paper_have_its_shares(length):
    counts = {from_letters(name): count for name, (_, count) in ANNOTATED[length].items()}
    # The paper omits some structures: fill up with one that it does not draw.
    rest = ENTRIES[length] - sum(counts.values())
    if rest:
        counts[{3: (0, 3, 1), 4: (0, 1, 2, 3)}[length]] = rest
    found = shares(counts, length)
    for name, (share, _) in ANNOTATED[length].items():
        assert round(found[from_letters(name)], 2) == share
        assert from_letters(name) in projective_trees(length)


@pytest.mark.skipif("ZISHU_TEST_WIST" not in os.environ, reason="ZISHU_TEST_WIST names no WIST.conll")
def test_the_reference_column_of_the_real_file_is_the_papers():
    counts = Counter(read_wist(os.environ["ZISHU_TEST_WIST"]).values())
    for length, column in ANNOTATED.items():
        found = shares(counts, length)
        assert {name: round(found[from_letters(name)], 2) for name in column} == {
            name: share for name, (share, _) in column.items()
        }


# --- complete match


WORDS = ["金融业", "发展", "我", "发展", "社会主义", "陌生"]
REFERENCE = {"金融业": (2, 3, 0), "发展": (0, 1), "社会主义": (2, 4, 4, 0), "我": (0,), "其他": (2, 0)}
SEEDS = [
    [(2, 3, 0), (2, 0), (0,), (0, 1), (2, 3, 4, 0), (2, 0)],  # 金融业 and the second 发展
    [(3, 1, 0), (2, 0), (0,), (0, 1), (2, 4, 4, 0), (0, 1)],  # the second 发展 and 社会主义
    [(3, 3, 0), (2, 0), (0,), (2, 0), (2, 3, 4, 0), (0, 1)],  # none
]


def test_complete_match_counts_tokens_of_the_lexicon():
    found = complete_match(WORDS, SEEDS, REFERENCE)
    # Four words count: words of one character have nothing to predict, and 陌生 has no entry.
    assert found["all"].words == 4
    assert found["all"].by_seed == (2, 2, 0)
    assert found["all"].cm == Average((50.0, 50.0, 0.0))
    assert found["all"].cm.mean == pytest.approx(100 / 3)
    # 金融业 by the first seed, the second 发展 by two, 社会主义 by the second, the first 发展 by none
    assert found["all"].by_any == 3
    assert found["all"].many_to_one == 75
    assert found["2"].words == 2
    assert found["2"].cm == Average((50.0, 50.0, 0.0))
    assert found["2"].many_to_one == 50
    assert found["3"].by_seed == (1, 0, 0)
    assert found["3"].many_to_one == 100
    assert found["4+"].by_seed == (0, 1, 0)


def test_many_to_one_of_one_seed_is_complete_match():
    for seed in SEEDS:
        found = complete_match(WORDS, [seed], REFERENCE)["all"]
        assert found.cm.mean == found.many_to_one


@given(
    st.lists(st.sampled_from(sorted(REFERENCE)), min_size=1, max_size=20),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_many_to_one_never_falls_with_a_seed_and_bounds_the_mean(words, seeds, random):
    predictions = [[random.choice(projective_trees(len(form))) for form in words] for _ in range(seeds)]
    bests = []
    for k in range(1, seeds + 1):
        found = complete_match(words, predictions[:k], REFERENCE)["all"]
        if found.words:
            bests.append(found.many_to_one)
            assert max(found.cm.values) <= found.many_to_one <= sum(found.cm.values) + 1e-9
    assert bests == sorted(bests)


def test_without_words_of_the_lexicon_there_is_no_score():
    found = complete_match(["我", "陌生"], [[(0,), (0, 1)]], REFERENCE)
    assert found["all"].cm is None
    assert found["all"].many_to_one is None
    assert (found["all"].words, found["all"].by_seed, found["all"].by_any) == (0, (0,), 0)


def test_a_character_is_what_readers_see_as_one():
    word = "e\u0301x"  # three code points, two characters
    assert complete_match([word], [[(2, 0)]], {word: (2, 0)})["2"].words == 1


def test_predictions_must_be_for_the_words():
    with pytest.raises(InputError, match="other words"):
        complete_match(WORDS, [SEEDS[0], SEEDS[1][:-1]], REFERENCE)
    with pytest.raises(InputError, match="at least one seed"):
        complete_match(WORDS, [], REFERENCE)


# --- seeds and lengths


GOLD = WordTree(
    ("上海", "计划", "发展", "金融业", "。"), (2, 0, 2, 3, 2), ("nsubj", "root", "xcomp", "obj", "punct")
)
# 金融业 depends on 计划: one of three heads is wrong, and so is that of 。
WRONG = WordTree(GOLD.forms, (2, 0, 2, 2, 3), GOLD.deprels)


def test_attachment_by_length_counts_the_dependent_and_no_punctuation():
    found = uas_by_length([GOLD], [[GOLD], [WRONG]])
    assert [(at.words, at.uas and at.uas.values) for at in found.values()] == [
        (0, None),
        (3, (100.0, 100.0)),
        (1, (100.0, 0.0)),
        (0, None),
    ]
    assert uas_by_length([GOLD], [[WRONG]], punct=True)["1"].uas == Average((0.0,))


def test_attachment_by_length_needs_the_gold_words():
    other = WordTree(("上海", "计划", "发展", "金融", "业", "。"), (2, 0, 2, 5, 3, 2), ("dep",) * 6)
    with pytest.raises(InputError, match="gold words"):
        uas_by_length([GOLD], [[other]])
    with pytest.raises(InputError, match="at least one seed"):
        uas_by_length([GOLD], [])


# --- all together


def inside(trees, heads_of):
    return [[heads_of(length) for length in tree.lengths] for tree in trees]


def leftward(length):
    return (*range(2, length + 1), 0)


def rightward(length):
    return (0, *range(1, length))


def make_study(reference=None):
    trees = tiny.TREES
    systems = {
        "wavy": [
            Predictions("left", trees, inside(trees, leftward), trees),
            Predictions("right", trees, inside(trees, rightward), trees),
        ],
        "words": [Predictions("treecrf", trees, None, None)],
    }
    return study(trees, systems, reference=reference)


# Of the treebank's words 发展 (twice), 金融业 and 社会主义 have entries here.
LEXICON = {
    "发展": (0, 1),
    "金融业": (2, 3, 0),
    "社会主义": (2, 4, 4, 0),
    "他乡": (2, 0),
    "苹果": (2, 0),
    "果园": (2, 0),
}


def test_a_study_averages_over_seeds():
    report = make_study(LEXICON)
    wavy = report.systems["wavy"]
    assert report.structures(2) == [(2, 0), (0, 1)]  # the reference decides
    assert report.reference_share((2, 0)) == 75
    assert wavy.share((2, 0)) == Average((100.0, 0.0))
    assert wavy.share((0, 1)).mean == 50
    assert wavy.share((0, 1, 1, 1)) == Average((0.0, 0.0))
    assert wavy.leftward == Average((100.0, 0.0))
    # no system predicts (2, 4, 4, 0), but the lexicon has it
    assert report.structures(4) == [(2, 4, 4, 0), (0, 1, 2, 3), (2, 3, 4, 0)]
    assert report.reference_share((0, 1, 2, 3)) == 0
    found = wavy.matches["all"]
    assert (found.words, found.by_seed, found.by_any) == (4, (1, 2), 3)
    assert wavy.scores["lcm"] == Average((100.0, 100.0))
    assert [at.words for at in wavy.attachment.values()] == [6, 12, 2, 1]


def test_structures_can_be_counted_by_type():
    """Every distinct word counts once, with its most frequent structure; in a tie, the first one counts."""
    tree = WordTree(
        ("发展", "发展", "上海", "金融业", "发展", "上海"), (0, 1, 1, 1, 1, 1), ("root", *["dep"] * 5)
    )
    inside = [[(2, 0), (0, 1), (2, 0), (2, 3, 0), (0, 1), (0, 1)]]
    other = [[(2, 0), (2, 0), (0, 1), (3, 3, 0), (0, 1), (0, 1)]]
    runs = [Predictions("a", [tree], inside, None), Predictions("b", [tree], other, None)]
    report = study([tree], {"x": runs}, reference=LEXICON, count="types")
    assert (report.words, report.by_length) == (6, {2: 2, 3: 1, 4: 0})
    assert report.systems["x"].counts == (
        Counter({(0, 1): 1, (2, 0): 1, (2, 3, 0): 1}),
        Counter({(2, 0): 1, (0, 1): 1, (3, 3, 0): 1}),
    )
    # As in the release, one occurrence with the right structure is enough: 发展 (0, 1) by both seeds, 金融业 by one.
    found = report.systems["x"].matches["all"]
    assert (found.words, found.by_seed, found.by_any) == (2, (2, 1), 2)
    assert study_from_dict(json.loads(json.dumps(study_to_dict(report)))) == report


def test_without_a_reference_the_predictions_give_the_order():
    trees = tiny.TREES
    mostly = inside(trees, leftward)
    mostly[0][0] = (0, 1)  # one word of two characters
    report = study(trees, {"a": [Predictions("a", trees, mostly, trees)]})
    assert report.structures(2) == [(2, 0), (0, 1)]
    assert report.reference_share((2, 0)) is None
    assert report.systems["a"].matches == {}
    assert report.examples[0, 1] == "上海"


def test_a_parser_of_words_has_attachment_only():
    words = make_study(LEXICON).systems["words"]
    assert words.share((2, 0)) is None
    assert words.leftward is None
    assert words.matches == {}
    assert words.scores == {}
    assert words.attachment["2"].uas == Average((100.0,))


def test_examples_are_in_chinese_characters_where_there_are_such():
    tree = WordTree(("42", "42", "上海"), (3, 3, 0), ("dep", "dep", "root"))
    report = study([tree], {"a": [Predictions("a", [tree], [[(2, 0)] * 3], None)]})
    assert report.examples == {(2, 0): "上海"}
    report = study([tree], {"a": [Predictions("a", [tree], [[(2, 0), (2, 0), (0, 1)]], None)]})
    assert report.examples == {(2, 0): "42", (0, 1): "上海"}


def test_a_study_is_plain_json():
    report = make_study(LEXICON)
    data = study_to_dict(report)
    assert json.loads(json.dumps(data)) == data
    two = data["structures"]["2"]
    assert (two["words"], two["possible"]) == (12, 2)
    assert two["shares"][0] == {
        "heads": [2, 0],
        "drawing": "○←●",
        "example": "发展",
        "systems": {
            "wavy": {"mean": 50.0, "std": pytest.approx(70.7107), "seeds": [100.0, 0.0]},
            "words": None,
        },
        "reference": 75.0,
    }
    assert data["reference"] == {
        "entries": 6,
        "by_length": {"2": 4, "3": 1, "4": 1},
        "leftward": pytest.approx(800 / 9),
        "structures": {draw_structure(heads): count for heads, count in report.reference.items()},
    }
    assert data["systems"]["wavy"]["matches"]["all"]["m1"] == 75
    assert data["systems"]["words"]["models"] == ["treecrf"]


@pytest.mark.parametrize("lexicon", [LEXICON, None])
def test_a_study_comes_back_from_its_file(lexicon, tmp_path):
    report = make_study(lexicon)
    path = tmp_path / "analysis.json"
    path.write_text(json.dumps(study_to_dict(report)), encoding="utf-8")
    assert read_study(path) == report
    assert study_from_dict(study_to_dict(report)) == report
    path.write_text('{"sentences": 3}', encoding="utf-8")
    with pytest.raises(InputError, match="not an analysis"):
        read_study(path)


def test_a_system_has_one_kind_of_model():
    trees = tiny.TREES
    mixed = [Predictions("a", trees, inside(trees, leftward), trees), Predictions("b", trees, None, trees)]
    with pytest.raises(InputError, match="word-level parsers: a, b"):
        study(trees, {"mixed": mixed})
    with pytest.raises(InputError, match="no sentences"):
        study([], {"a": mixed})
