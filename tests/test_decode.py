"""Scores to trees, on sentences worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, JOIN
from zishu.model.decode import Outputs, decode, decode_words, legal_labels, word_gaps
from zishu.model.features import batches, features, pooling
from zishu.model.settings import Settings
from zishu.model.vocabulary import Vocabulary
from zishu.tree import INTRA, is_projective

LABELS = (INTRA, "root", "nsubj", "obj")
UPOS = ("NOUN", "VERB")


def settings(**changes) -> Settings:
    return Settings(**{"task": "parse", "roles": 2, "labels": LABELS, "upos": UPOS, **changes})


def arcs(n: int, *pairs: tuple[int, int], width: int | None = None) -> np.ndarray:
    """Score the given (dependent, head) pairs 5 and all others 0."""
    scores = np.zeros(((width or n) + 1,) * 2, dtype=np.float32)
    for d, h in pairs:
        scores[d, h] = 5.0
    return scores


def label_table(wishes: dict[tuple[int, int], list[float]], labels: int = len(LABELS)):
    """Make a label scorer that finds an arc's scores by its dependent and head, which its inputs spell."""
    asked = []

    def scorer(dep, head):
        assert dep.shape == head.shape
        pairs = [(int(d), int(h)) for d, h in zip(dep[:, 0], head[:, 0], strict=True)]
        asked.extend(pairs)
        return np.array([wishes.get(pair, [0.0] * labels) for pair in pairs])

    return scorer, asked


def outputs(inter, intra=None, upos=None, *, batch: int = 1) -> Outputs:
    """Wrap the scores of one sentence; the representation of a unit is its number."""
    inter = np.asarray(inter)
    if inter.ndim == 2:
        inter = inter[None]
        intra = None if intra is None else np.asarray(intra)[None]
        upos = None if upos is None else np.asarray(upos)[None]
    numbers = np.tile(np.arange(inter.shape[1], dtype=np.float32)[None, :, None], (len(inter), 1, 100))
    return Outputs(inter, intra, numbers, numbers, upos)


# 上海 计划 发展: 上海 <-nsubj- 计划 -obj-> 发展; the root characters are 海, 划, 展.
CHARS = list("上海计划发展")
INTER = arcs(6, (4, 0), (2, 4), (6, 4))
INTRA_ARCS = arcs(6, (1, 2), (3, 4), (5, 6))
WISHES = {(4, 0): [9, 1, 2, 3], (2, 4): [9, 8, 2, 1], (6, 4): [9, 8, 1, 2]}


def test_two_roles_give_words_their_tree_and_the_trees_inside():
    scorer, asked = label_table(WISHES)
    [analysis] = decode(outputs(INTER, INTRA_ARCS), [CHARS], settings(upos=()), scorer)
    assert analysis.tree.forms == ("上海", "计划", "发展")
    assert analysis.tree.heads == (2, 0, 2)
    assert analysis.tree.deprels == ("nsubj", "root", "obj")
    assert analysis.tree.upos is None
    assert analysis.char_heads == ((2, 0), (2, 0), (2, 0))
    assert analysis.repairs == 0
    assert sorted(asked) == [(2, 4), (4, 0), (6, 4)]  # arcs inside words are not asked about


def test_known_gaps_overrule_the_scores():
    gaps = np.array([BREAK, FREE, JOIN, FREE, FREE, BREAK, BREAK], dtype=np.int8)
    scorer, _ = label_table(WISHES)
    [analysis] = decode(outputs(INTER, INTRA_ARCS), [CHARS], settings(upos=()), scorer, gaps=[gaps])
    assert analysis.tree.forms[-2:] != ("计划", "发展")
    boundaries = np.cumsum([len(form) for form in analysis.tree.forms])
    assert 2 not in boundaries
    assert 5 in boundaries


def test_given_words_are_kept_by_one_role_and_by_two():
    lengths = [1, 3, 2]
    scorer, _ = label_table({})
    for roles, intra in ((1, None), (2, INTRA_ARCS)):
        [analysis] = decode(
            outputs(INTER, intra),
            [CHARS],
            settings(roles=roles, upos=()),
            scorer,
            gaps=[word_gaps(lengths)],
        )
        assert analysis.tree.forms == ("上", "海计划", "发展")
        assert analysis.repairs == 0


def test_one_role_reads_the_words_from_the_labels():
    heads = arcs(6, (4, 0), (2, 4), (6, 4), (1, 2), (3, 4), (5, 6))
    inside = {arc: [9, 1, 2, 3] for arc in ((1, 2), (3, 4), (5, 6))}
    scorer, asked = label_table({**inside, (4, 0): [9, 1, 2, 3], (2, 4): [0, 8, 2, 1], (6, 4): [0, 8, 1, 2]})
    [analysis] = decode(outputs(heads), [CHARS], settings(roles=1, upos=()), scorer)
    assert analysis.tree.forms == ("上海", "计划", "发展")
    assert analysis.tree.deprels == ("nsubj", "root", "obj")
    assert analysis.repairs == 0
    assert len(asked) == 6


def test_one_role_counts_repairs():
    # 上 <-INTRA- 计 passes over 海, which is a word of its own.
    scorer, _ = label_table({(1, 3): [9, 0, 0, 0], (3, 0): [0, 1, 0, 0], (2, 3): [0, 0, 1, 0]})
    [analysis] = decode(
        outputs(arcs(3, (3, 0), (1, 3), (2, 3))), [["上", "海", "计"]], settings(roles=1, upos=()), scorer
    )
    assert analysis.tree.forms == ("上", "海", "计")
    assert analysis.repairs == 1


def test_one_role_takes_sentences_with_and_without_words_side_by_side():
    scorer, _ = label_table({(2, 1): [9, 0, 0, 0]})
    scores = np.stack([arcs(2, (1, 0), (2, 1))] * 2)
    free = np.array([BREAK, FREE, BREAK], dtype=np.int8)
    model = settings(roles=1, upos=())
    for gaps in ([word_gaps([1, 1]), None], [word_gaps([1, 1]), free]):
        found = decode(outputs(scores), [["上", "海"]] * 2, model, scorer, gaps=gaps)
        assert [analysis.tree.forms for analysis in found] == [("上", "海"), ("上海",)]


def test_one_role_refuses_partly_known_words():
    gaps = np.array([BREAK, FREE, JOIN, BREAK], dtype=np.int8)
    scorer, _ = label_table({})
    with pytest.raises(InputError, match="a model with one role takes all words"):
        decode(outputs(arcs(3)), [["上", "海", "计"]], settings(roles=1, upos=()), scorer, gaps=[gaps])


def test_words_as_units():
    scorer, _ = label_table({(2, 0): [1, 2, 3], (1, 2): [5, 2, 3], (3, 2): [5, 4, 3]}, labels=3)
    model = settings(task="parse-words", roles=1, labels=("root", "nsubj", "obj"))
    upos = np.log([[0.5, 0.5], [0.9, 0.1], [0.1, 0.9], [0.4, 0.6]])
    words = ["上海", "计划", "发展"]
    found = outputs(arcs(3, (2, 0), (1, 2), (3, 2)), upos=upos)
    [analysis] = decode(found, [words], model, scorer)
    assert analysis.tree.forms == tuple(words)
    assert analysis.tree.heads == (2, 0, 2)
    assert analysis.tree.deprels == ("obj", "root", "nsubj")
    assert analysis.tree.upos == ("NOUN", "VERB", "VERB")
    assert analysis.char_heads is None
    with pytest.raises(InputError, match="takes no gaps"):
        decode(found, [words], model, scorer, gaps=[word_gaps([1, 1, 1])])


def test_upos_is_the_best_mean_of_a_words_characters():
    # The second character alone says VERB, and so do both on average, against the first one's weaker NOUN.
    upos = np.log([[0.5, 0.5], [0.6, 0.4], [0.01, 0.99], [0.9, 0.1]])
    scorer, _ = label_table({})
    [analysis] = decode(
        outputs(arcs(3), arcs(3), upos), [["上", "海", "计"]], settings(), scorer, gaps=[word_gaps([2, 1])]
    )
    assert analysis.tree.upos == ("VERB", "NOUN")
    [analysis] = decode(
        outputs(arcs(3), arcs(3), upos), [["上", "海", "计"]], settings(), scorer, gaps=[word_gaps([1, 2])]
    )
    assert analysis.tree.upos == ("NOUN", "VERB")


def test_legal_labels():
    below_root, between, anywhere = legal_labels(LABELS)
    assert below_root.tolist() == [False, True, False, False]
    assert between.tolist() == [False, False, True, True]
    assert anywhere.tolist() == [True, False, True, True]


def test_penn_style_root_and_sets_without_root():
    assert legal_labels(("ROOT", "SBJ"))[0].tolist() == [True, False]
    below_root, between, anywhere = legal_labels((INTRA, "SBJ"))
    assert below_root.tolist() == between.tolist() == [False, True]
    assert anywhere.tolist() == [True, True]


def test_a_set_with_nothing_but_root_still_labels_every_arc():
    below_root, between, _ = legal_labels((INTRA, "root"))
    assert below_root.tolist() == between.tolist() == [False, True]


def test_padding_does_not_reach_the_trees():
    wide, wide_intra = np.full((2, 7, 7), np.nan, np.float32), np.full((2, 7, 7), np.nan, np.float32)
    wide[0], wide_intra[0] = INTER, INTRA_ARCS
    wide[1, :3, :3], wide_intra[1, :3, :3] = arcs(2, (1, 0), (2, 1)), arcs(2)
    scorer, _ = label_table(WISHES)
    first, second = decode(outputs(wide, wide_intra), [CHARS, ["你", "好"]], settings(upos=()), scorer)
    [alone] = decode(outputs(INTER, INTRA_ARCS), [CHARS], settings(upos=()), scorer)
    assert first == alone
    assert second.tree.heads == (0, 1)


def test_nothing_in_nothing_out():
    scorer, _ = label_table({})
    assert decode(Outputs(), [], settings(), scorer) == []
    assert decode_words(Outputs(), [], SEGMENTER) == []


def test_empty_sentences_and_missing_outputs_are_refused():
    scorer, _ = label_table({})
    with pytest.raises(InputError, match="sentence 1 is empty"):
        decode(outputs(INTER, INTRA_ARCS), [CHARS, []], settings(), scorer)
    with pytest.raises(InputError, match="no arcs to decode"):
        decode(Outputs(tags=np.zeros((1, 7, 4))), [CHARS], SEGMENTER, scorer)
    with pytest.raises(InputError, match="does not segment"):
        decode_words(outputs(INTER, INTRA_ARCS), [CHARS], settings())
    with pytest.raises(InputError, match="gaps for 2 sentences, but there are 1"):
        decode(outputs(INTER, INTRA_ARCS), [CHARS], settings(), scorer, gaps=[None, None])
    with pytest.raises(InputError, match="3 gaps for 6 characters"):
        decode(outputs(INTER, INTRA_ARCS), [CHARS], settings(), scorer, gaps=[word_gaps([1, 1])])


SEGMENTER = Settings(task="segment", transitions=((0.0,) * 4,) * 4, starts=(0.0,) * 4, ends=(0.0,) * 4)


def test_segmenter():
    tags = np.zeros((2, 7, 4), np.float32)
    tags[:, 0] = 100.0  # ROOT is no character
    for k, tag in enumerate("BEBEBE", start=1):
        tags[0, k, "BMES".index(tag)] = 1.0
    tags[1, 1:3, 3] = 1.0  # S S
    found = decode_words(Outputs(tags=tags), [CHARS, ["你", "好"]], SEGMENTER)
    assert found == [("上海", "计划", "发展"), ("你", "好")]
    found = decode_words(
        Outputs(tags=tags), [CHARS, ["你", "好"]], SEGMENTER, gaps=[word_gaps([1, 5]), word_gaps([2])]
    )
    assert found == [("上", "海计划发展"), ("你好",)]
    found = decode_words(Outputs(tags=tags), [CHARS, ["你", "好"]], SEGMENTER, gaps=[None, word_gaps([2])])
    assert found == [("上海", "计划", "发展"), ("你好",)]


def test_an_untrained_segmenter_is_refused():
    with pytest.raises(InputError, match="no scores of tag pairs"):
        decode_words(Outputs(tags=np.zeros((1, 7, 4))), [CHARS], Settings(task="segment"))


@given(st.data())
def test_any_scores_and_gaps_give_legal_trees(data):
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n = max(lengths)
    inter, intra = random.normal(0, 3, (2, len(lengths), n + 1, n + 1)).astype(np.float32)
    sentences = [["字"] * length for length in lengths]
    gaps = [random.integers(0, 3, length + 1).astype(np.int8) for length in lengths]
    upos = random.normal(0, 1, (len(lengths), n + 1, 2))

    def scorer(dep, head):
        return random.normal(0, 1, (len(dep), len(LABELS)))

    raw = Outputs(inter, intra, np.zeros((len(lengths), n + 1, 5)), np.zeros((len(lengths), n + 1, 5)), upos)
    for analysis, length, known in zip(
        decode(raw, sentences, settings(), scorer, gaps=gaps), lengths, gaps, strict=True
    ):
        tree = analysis.tree
        assert sum(tree.lengths) == length
        assert is_projective(tree.heads)
        assert [label == "root" for label in tree.deprels] == [head == 0 for head in tree.heads]
        assert INTRA not in tree.deprels
        assert analysis.repairs == 0
        boundaries = set(np.cumsum(tree.lengths).tolist())
        assert all(known[k] == FREE or (known[k] == BREAK) == (k in boundaries) for k in range(1, length))
        assert [len(heads) for heads in analysis.char_heads] == list(tree.lengths)


def test_features_begin_with_root_and_end_with_padding():
    chars = Vocabulary(("p", "u", "b", "e", "上", "海"), 0, 1, 2, 3)
    pairs = Vocabulary(("u", "p", "b", "e", "上海", "<bos>上"), 1, 0, 2, 3)
    found = features([["上", "海"], ["上"]], chars, pairs)
    assert found["chars"].tolist() == [[2, 4, 5], [2, 4, 0]]
    assert found["bigrams"].tolist() == [[2, 5, 4], [2, 5, 1]]
    assert found["lengths"].tolist() == [2, 1]
    assert list(features([["上"]], chars, None)) == ["chars", "lengths"]


def test_pooling_averages_characters():
    pool = pooling([[2, 1], [1]])
    assert pool.tolist() == [
        [[1, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 1]],
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]],
    ]


@given(st.lists(st.integers(1, 30)), st.integers(1, 100))
def test_batches_hold_every_sentence_once_and_no_more_than_the_size(lengths, size):
    dealt = batches(lengths, size)
    assert sorted(int(k) for batch in dealt for k in batch) == list(range(len(lengths)))
    for batch in dealt:
        padded = len(batch) * (max(lengths[k] for k in batch) + 1)
        assert len(batch) == 1 or padded <= size
