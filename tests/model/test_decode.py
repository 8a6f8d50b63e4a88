"""Scores to trees, on sentences worked by hand."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_sentences import batch_of, boundary_probs, chars, decode, decode_words, inner_trees, label_probs
from zishu.cli._options import DecodingOption
from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, JOIN, word_gaps
from zishu.model.batch import no_gaps
from zishu.model.decode import DECODINGS
from zishu.model.features import features, length_batches, pooling
from zishu.model.labels import legal_labels
from zishu.model.outputs import Outputs
from zishu.model.scores import REACH, two_roles
from zishu.model.settings import Settings
from zishu.model.vocabulary import Vocabulary
from zishu.text import RawSentence
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
    """Make a label scorer that looks up an arc's scores by its dependent and head, which are its inputs."""
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
    assert inner_trees(analysis) == ((2, 0), (2, 0), (2, 0))
    assert sorted(asked) == [(2, 4), (4, 0), (6, 4)]  # labels of arcs inside words are not scored


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


ONE_ROLE = arcs(6, (4, 0), (2, 4), (6, 4), (1, 2), (3, 4), (5, 6))
ONE_ROLE_WISHES = {
    **{arc: [9, 1, 2, 3] for arc in ((1, 2), (3, 4), (5, 6))},
    (4, 0): [9, 1, 2, 3],
    (2, 4): [0, 8, 2, 1],
    (6, 4): [0, 8, 1, 2],
}


@pytest.mark.parametrize("decoding", DECODINGS)
def test_one_role_reads_the_words_from_the_labels(decoding):
    scorer, asked = label_table(ONE_ROLE_WISHES)
    model = settings(roles=1, upos=())
    [analysis] = decode(outputs(ONE_ROLE), [CHARS], model, scorer, decoding=decoding)
    assert analysis.tree.forms == ("上海", "计划", "发展")
    assert analysis.tree.deprels == ("nsubj", "root", "obj")
    assert inner_trees(analysis) == ((2, 0), (2, 0), (2, 0))
    if decoding == "vanilla":
        assert len(asked) == 6


def test_vanilla_repairs_trees_and_the_default_needs_no_repair():
    # 上 <-INTRA- 计 passes over 海, which is a word of its own.
    wishes = {(1, 3): [9, 0, 0, 0], (3, 0): [0, 1, 0, 0], (2, 3): [0, 0, 9, 0]}
    scorer, _ = label_table(wishes)
    raw = outputs(arcs(3, (3, 0), (1, 3), (2, 3)))
    model = settings(roles=1, upos=())
    [analysis] = decode(raw, [["上", "海", "计"]], model, scorer, decoding="vanilla", confidence=True)
    assert analysis.tree.forms == ("上", "海", "计")
    assert analysis.tree.deprels == ("dep", "nsubj", "root")
    assert boundary_probs(analysis) == (None, None, None)
    assert label_probs(analysis)[0] == 0.0  # the network knows no `dep`
    assert 0 < analysis.prob < 1
    [analysis] = decode(raw, [["上", "海", "计"]], model, scorer)
    assert set(analysis.tree.deprels) <= set(LABELS)  # none that a repair invents


def test_vanilla_decoding_can_keep_the_pieces_of_a_word_as_the_release_does():
    # 上 <-INTRA- 计 passes over 海; both depend on 划, directly or as pieces of one word.
    wishes = {(1, 3): [9, 0, 0, 0], (3, 4): [0, 0, 0, 9], (2, 3): [0, 0, 9, 0], (4, 0): [0, 9, 0, 0]}
    scorer, _ = label_table(wishes)
    raw = outputs(arcs(4, (4, 0), (3, 4), (1, 3), (2, 3)))
    for release, heads, first in (False, (3, 3, 4, 0), "dep"), (True, (4, 3, 4, 0), "obj"):
        model = settings(roles=1, upos=(), release_recovery=release)
        [found] = decode(raw, [list("上海计划")], model, scorer, decoding="vanilla", confidence=True)
        assert (found.tree.forms, found.tree.heads) == (tuple("上海计划"), heads)
        assert found.tree.deprels == (first, "nsubj", "obj", "root")
        assert all(0 <= word.head_prob <= 1 for word in found)


def test_one_role_takes_sentences_with_and_without_words_side_by_side():
    scorer, _ = label_table({(2, 1): [9, 0, 0, 0]})
    scores = np.stack([arcs(2, (1, 0), (2, 1))] * 2)
    free = np.array([BREAK, FREE, BREAK], dtype=np.int8)
    model = settings(roles=1, upos=())
    for gaps in ([word_gaps([1, 1]), None], [word_gaps([1, 1]), free]):
        for decoding in DECODINGS:
            found = decode(
                outputs(scores),
                [["上", "海"]] * 2,
                model,
                scorer,
                gaps=gaps,
                decoding=decoding,
                confidence=True,
            )
            assert [analysis.tree.forms for analysis in found] == [("上", "海"), ("上海",)]
            assert boundary_probs(found[0]) == (1.0, 1.0)


@pytest.mark.parametrize("decoding", DECODINGS)
def test_one_role_takes_partly_known_words(decoding):
    gaps = np.array([BREAK, FREE, JOIN, FREE, FREE, BREAK, BREAK], dtype=np.int8)
    scorer, _ = label_table(ONE_ROLE_WISHES)
    model = settings(roles=1, upos=())
    [analysis] = decode(outputs(ONE_ROLE), [CHARS], model, scorer, gaps=[gaps], decoding=decoding)
    boundaries = np.cumsum(analysis.tree.lengths)
    assert 2 not in boundaries
    assert 5 in boundaries


def test_one_role_joins_words_longer_than_any_arc_inside_a_word():
    n = REACH + 9
    scorer, _ = label_table({})
    raw = outputs(np.zeros((n + 1, n + 1), np.float32))
    [analysis] = decode(raw, [["长"] * n], settings(roles=1, upos=()), scorer, gaps=[word_gaps([n])])
    assert len(analysis.tree.forms) == 1
    gaps = np.full(n + 1, JOIN, dtype=np.int8)
    gaps[n - 1] = FREE
    [analysis] = decode(raw, [["长"] * n], settings(roles=1, upos=()), scorer, gaps=[gaps])
    assert analysis.tree.lengths[0] >= n - 1


@given(st.data())
def test_the_roles_of_one_role_are_arcs_and_labels_together(data):
    """Compare with the definition, with the labels of all arcs: a short sentence has no distant arcs."""
    n = data.draw(st.integers(1, 5))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    inter = random.normal(0, 1, (1, n + 1, n + 1))
    table = random.normal(0, 2, (n + 1, n + 1, len(LABELS)))
    numbers = np.arange(n + 1.0)[None, :, None]

    def scorer(dep, head):
        return table[dep[:, 0].astype(int), head[:, 0].astype(int)]

    raw = Outputs(inter, None, numbers, numbers)
    gaps = no_gaps(1, n + 1)
    found_inter, found_intra = two_roles(raw.with_labels(scorer), np.array([n]), settings(roles=1), gaps)
    for d in range(1, n + 1):
        assert found_inter[0, d, 0] == inter[0, d, 0]
        for h in set(range(1, n + 1)) - {d}:
            legal = np.exp(table[d, h, [0, 2, 3]])  # only arcs from ROOT have the label root
            inside = legal[0] / legal.sum()
            assert found_intra[0, d, h] == pytest.approx(inter[0, d, h] + np.log(inside))
            assert found_inter[0, d, h] == pytest.approx(inter[0, d, h] + np.log(1 - inside))


def test_arcs_that_matter_at_the_temperature_of_the_probabilities_have_roles():
    inter = np.zeros((1, 4, 4))
    inter[0, 3, 1] = -14.5  # less than one in a million, but more than one in a thousand at temperature 2
    scorer, _ = label_table({})
    raw = outputs(inter[0].astype(np.float32))
    for temperature, has_role in ((1.0, False), (2.0, True)):
        model = replace(settings(roles=1), temperature=temperature)
        _, intra = two_roles(raw.with_labels(scorer), np.array([3]), model, no_gaps(1, 4))
        assert np.isfinite(intra[0, 3, 1]) == has_role


@given(st.data())
def test_a_chain_is_the_only_tree_inside_words(data):
    n = data.draw(st.integers(1, 6))
    chain = data.draw(st.sampled_from(["leftward", "rightward"]))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    table = random.normal(0, 2, (n + 1, n + 1, len(LABELS)))
    table[..., 0] += 2  # many arcs inside words

    def scorer(dep, head):
        return table[dep[:, 0].astype(int), head[:, 0].astype(int)]

    text = CHARS[:n]
    inter, intra = random.normal(0, 2, (2, n + 1, n + 1))
    model = settings(roles=1, upos=(), chain=chain)
    known = word_gaps([n - n // 2, n // 2] if n > 1 else [1])
    for decoding in DECODINGS:
        for gaps in (None, [known]):
            [found] = decode(outputs(inter), [text], model, scorer, decoding=decoding, gaps=gaps)
            for word, tree in zip(found.tree.forms, inner_trees(found), strict=True):
                length = len(word)
                assert tree == ((*range(2, length + 1), 0) if chain == "leftward" else tuple(range(length)))
            assert gaps is None or found.tree.lengths == ((n - n // 2, n // 2) if n > 1 else (1,))
    # A network with two roles that gives all other arcs inside words no chance.
    masked = np.full_like(intra, -np.inf)
    for d in range(1, n + 1):
        head = d + (1 if chain == "leftward" else -1)
        if 1 <= head <= n:
            masked[d, head] = intra[d, head]
    expected = decode(outputs(inter, masked), [text], settings(upos=()), scorer, confidence=True)
    found = decode(outputs(inter, intra), [text], settings(upos=(), chain=chain), scorer, confidence=True)
    assert found[0].tree == expected[0].tree
    assert found[0].prob == pytest.approx(expected[0].prob)
    # An arc that is not part of a chain keeps its whole score between words.
    roles, _ = two_roles(outputs(inter).with_labels(scorer), np.array([n]), model, no_gaps(1, n + 1))
    for d in range(1, n + 1):
        for h in range(n + 1):
            is_link = h != 0 and h - d == (1 if chain == "leftward" else -1)
            assert (roles[0, d, h] == inter[d, h]) == (not is_link)


def test_a_chain_is_for_charts_over_characters():
    for wrong in (
        {"chain": "upward"},
        {"chain": "leftward", "task": "parse-words", "labels": ("root",), "roles": 1},
    ):
        with pytest.raises(InputError, match="it must be leftward or rightward"):
            settings(**wrong)


def test_vanilla_decoding_is_for_one_role():
    scorer, _ = label_table({})
    with pytest.raises(InputError, match="vanilla decoding needs a character-level model with one role"):
        decode(outputs(INTER, INTRA_ARCS), [CHARS], settings(upos=()), scorer, decoding="vanilla")


def test_the_command_line_knows_every_way_of_decoding():
    assert set(DECODINGS) == set(get_args(get_args(get_args(DecodingOption)[0])[0]))


def test_an_unknown_way_of_decoding_is_refused():
    scorer, _ = label_table({})
    with pytest.raises(InputError, match="unknown decoding 'best': choose from mbr, viterbi, vanilla"):
        decode(outputs(INTER, INTRA_ARCS), [CHARS], settings(upos=()), scorer, decoding="best")


def test_the_head_that_many_trees_agree_on_beats_that_of_the_best_tree():
    # 发 may head 计划 by either of its characters, 上 by one of them only, which is a little better.
    inter = np.full((5, 5), -np.inf, dtype=np.float32)
    inter[4, 0] = inter[1, 4] = inter[2, 4] = inter[3, 4] = 0.0
    inter[2, 1] = 0.5
    intra = np.full((5, 5), -np.inf, dtype=np.float32)
    intra[2, 3] = intra[3, 2] = 0.0
    gaps = [word_gaps([1, 2, 1])]
    model = settings(upos=())
    scorer, _ = label_table({})
    found = {
        name: decode(outputs(inter, intra), [list("上计划发")], model, scorer, gaps=gaps, decoding=name)[0]
        for name in ("viterbi", "mbr")
    }
    assert found["viterbi"].tree.heads == (3, 1, 0)
    assert found["mbr"].tree.heads == (3, 3, 0)


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
    assert inner_trees(analysis) == (None, None, None)
    with pytest.raises(InputError, match="a model that parses words needs all words of a sentence"):
        batch_of(found, [chars("上海计划发展")], model, scorer)


def test_upos_is_the_best_mean_of_a_words_characters():
    # The second character alone predicts VERB, and so do both on average, against the first one's weaker NOUN.
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


def test_every_column_is_tagged_by_the_same_mean():
    xpos = np.log([[0.5, 0.5], [0.6, 0.4], [0.01, 0.99], [0.9, 0.1]])
    lemma = np.log([[0.5, 0.5], [0.1, 0.9], [0.1, 0.9], [0.1, 0.9]])
    scorer, _ = label_table({})
    found = replace(outputs(arcs(3), arcs(3)), xpos=xpos[None], lemma=lemma[None])
    model = settings(upos=(), xpos=("NN", "VV"), lemma=("0:0", "0:1"))
    [analysis] = decode(found, [["他", "们", "来"]], model, scorer, gaps=[word_gaps([2, 1])], confidence=True)
    assert analysis.tree.xpos == ("VV", "NN")
    assert analysis.tree.lemma == ("他", "来")  # nothing would be left of 来
    assert (analysis.tree.upos, analysis.tree.feats) == (None, None)
    assert [word.upos_prob for word in analysis] == [None, None]


def test_parts_of_speech_have_a_probability_at_their_temperature():
    upos = np.log([[0.5, 0.5], [0.6, 0.4], [0.01, 0.99], [0.9, 0.1]])
    scorer, _ = label_table({})
    for temperature in (1.0, 2.0):
        [analysis] = decode(
            outputs(arcs(3), arcs(3), upos),
            [["上", "海", "计"]],
            settings(upos_temperature=temperature),
            scorer,
            gaps=[word_gaps([2, 1])],
            confidence=True,
        )
        noun, verb = (0.6 * 0.01) ** (0.5 / temperature), (0.4 * 0.99) ** (0.5 / temperature)
        single = 0.9 ** (1 / temperature)
        assert [word.upos_prob for word in analysis] == pytest.approx(
            [verb / (noun + verb), single / (single + 0.1 ** (1 / temperature))]
        )


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


def test_gaps_that_are_no_gaps_are_refused():
    scorer, _ = label_table({})
    wrong = np.full(7, 3, dtype=np.int8)
    with pytest.raises(InputError, match="a gap must be FREE, JOIN or BREAK"):
        decode(outputs(INTER, INTRA_ARCS), [CHARS], settings(), scorer, gaps=[wrong])


def test_empty_sentences_and_too_few_gaps_are_refused():
    scorer, _ = label_table({})
    with pytest.raises(InputError, match="sentence 1 is empty"):
        batch_of(outputs(INTER, INTRA_ARCS), [chars(CHARS), RawSentence((), (), (), "")], settings(), scorer)
    with pytest.raises(InputError, match="a sentence has 3 gaps for 6 characters"):
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


@given(st.data(), st.sampled_from([1, 2]))
def test_any_scores_and_gaps_give_legal_trees(data, roles):
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n = max(lengths)
    inter, intra = random.normal(0, 3, (2, len(lengths), n + 1, n + 1)).astype(np.float32)
    sentences = [["字"] * length for length in lengths]
    gaps = [random.integers(0, 3, length + 1).astype(np.int8) for length in lengths]
    upos = random.normal(0, 1, (len(lengths), n + 1, 2))

    def scorer(dep, head):
        return random.normal(0, 1, (len(dep), len(LABELS)))

    ends = np.zeros((len(lengths), n + 1, 5))
    raw = Outputs(inter, intra if roles == 2 else None, ends, ends, upos)
    for analysis, length, known in zip(
        decode(raw, sentences, settings(roles=roles), scorer, gaps=gaps), lengths, gaps, strict=True
    ):
        tree = analysis.tree
        assert sum(tree.lengths) == length
        assert is_projective(tree.heads)
        assert [label == "root" for label in tree.deprels] == [head == 0 for head in tree.heads]
        assert INTRA not in tree.deprels
        boundaries = set(np.cumsum(tree.lengths).tolist())
        assert all(known[k] == FREE or (known[k] == BREAK) == (k in boundaries) for k in range(1, length))
        assert [len(heads) for heads in inner_trees(analysis)] == list(tree.lengths)


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


@given(
    st.lists(st.integers(1, 30)), st.integers(1, 100), st.none() | st.integers(1, 1000), st.none() | st.integers(0, 60)
)  # fmt: skip
def test_batches_hold_every_sentence_once_and_no_more_than_the_size(lengths, size, pairs, padding):
    dealt = length_batches(lengths, size, pairs, padding)
    assert sorted(int(k) for batch in dealt for k in batch) == list(range(len(lengths)))
    for batch in dealt:
        width = max(lengths[k] for k in batch) + 1
        assert len(batch) == 1 or len(batch) * width <= size
        assert len(batch) == 1 or pairs is None or len(batch) * width**2 <= pairs
        assert padding is None or sum(width - 1 - lengths[k] for k in batch) <= padding
