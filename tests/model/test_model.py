"""Write a network to disk and read it without torch: equal scores, equal trees, clear errors."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from raw_sentences import (  # noqa: E402
    all_chars,
    all_words,
    boundary_probs,
    chars,
    decode,
    decode_words,
    head_probs,
    inner_trees,
    label_probs,
    words_of,
)  # fmt: skip
from zishu.errors import InputError, ZishuError  # noqa: E402
from zishu.gaps import BREAK, FREE, word_gaps  # noqa: E402
from zishu.model.directory import write_ensemble, write_pipeline  # noqa: E402
from zishu.model.features import features, pooling  # noqa: E402
from zishu.model.model import Model, Pipeline  # noqa: E402
from zishu.model.outputs import Outputs  # noqa: E402
from zishu.model.runtime import load_model  # noqa: E402
from zishu.model.settings import FORMAT, Settings  # noqa: E402
from zishu.model.vocabulary import Vocabulary, bigrams  # noqa: E402
from zishu.parser import Parser  # noqa: E402
from zishu.text import RawSentence  # noqa: E402
from zishu.train import _hf, export  # noqa: E402
from zishu.train.config import EncoderConfig, ScorerConfig  # noqa: E402
from zishu.train.encoders import build_encoder  # noqa: E402
from zishu.train.export import export_model, settings_of  # noqa: E402
from zishu.train.network import Network  # noqa: E402
from zishu.tree import INTRA  # noqa: E402

TEXT = "上海计划发展金融业，外商投资企业成为中国外贸重要增长点。"
SENTENCES = [list(TEXT), ["好"], list(TEXT[:9]), list("你x好"), list(TEXT[::-1]), list(TEXT[3:20])]
WORDS = [["上海", "计划", "发展", "金融业"], ["好"], ["外商", "投资", "企业", "，", "e\u0301x"]]
RAW = all_chars(SENTENCES)

CHARS = Vocabulary.build({char: TEXT.count(char) for char in TEXT})
PAIRS = Vocabulary.build(dict.fromkeys(bigrams(list(TEXT)), 1))
LABELS = ("root", "nsubj", "obj")
UPOS = ("NOUN", "VERB", "PUNCT")
BERT = {
    "model_type": "bert",
    "vocab_size": len(CHARS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 12,
}


def make_network(task="parse", roles=2, kind="bilstm", upos=UPOS, top=0, label=7) -> Network:
    """Build a small network with random weights everywhere, so that no two trees have the same score."""
    torch.manual_seed(3)
    parses = task != "segment"
    settings = Settings(
        task=task,
        roles=roles,
        labels=((INTRA, *LABELS) if task == "parse" else LABELS) if parses else (),
        upos=upos if parses else (),
        encoder=kind,
        name="小",
    )
    config = EncoderConfig(
        kind=kind,
        char_width=8,
        bigram_width=4 if kind == "bilstm" else 0,
        layers=2,
        hidden=12,
        heads=2,
        feed_forward=16,
        window_overlap=4,
        top=top,
    )
    pairs = PAIRS if kind == "bilstm" else None
    if kind == "bert":
        encoder = _hf.build(config, CHARS, styles=0, hf_config=BERT)
    else:
        encoder = build_encoder(config, CHARS, pairs)
    scorer = ScorerConfig(arc=10, label=label)
    network = Network(settings, CHARS, pairs, encoder, scorer=scorer)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.5)
    return network


def run_torch(network: Network, sentences, word_lengths=None) -> tuple[Outputs, object]:
    """Run the network itself: its outputs and its label scorer, both in NumPy."""
    network.eval()
    arrays = features(sentences, network.vocabulary, network.bigram_vocabulary)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    pool = None if word_lengths is None else torch.from_numpy(pooling(word_lengths))
    with torch.inference_mode():
        raw = network(network.encoder(**tensors), pool)

    def score_labels(dep, head):
        with torch.inference_mode():
            return network.label_scorer(torch.from_numpy(dep), torch.from_numpy(head)).numpy()

    return Outputs.from_mapping({name: tensor.numpy() for name, tensor in raw.items()}), score_labels


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Use one torch thread: these networks are too small for more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("joint") / "model"


@pytest.fixture(scope="module")
def joint(directory) -> tuple[Network, Model]:
    network = make_network()
    return network, export_model(network, directory)


@pytest.fixture
def spoilt(joint, directory, tmp_path):
    """Copy a model directory, so that a test can damage it."""
    return shutil.copytree(directory, tmp_path / "model")


@pytest.mark.parametrize("kind", ["bilstm", "transformer", "bert"])
@pytest.mark.parametrize("task, roles", [("parse", 2), ("parse", 1), ("parse-words", 1), ("segment", 1)])
def test_trees_are_those_of_torch(kind, task, roles, tmp_path):
    network = make_network(task, roles, kind)
    model = export_model(network, tmp_path / "model")
    assert network.training  # restored
    if task == "segment":
        outputs, _ = run_torch(network, SENTENCES)
        found = [words_of(*pair) for pair in zip(RAW, model.segment(RAW), strict=True)]
        assert found == decode_words(outputs, SENTENCES, settings_of(network))
        return
    words = [[chars[:2], chars[2:]] if chars[2:] else [chars] for chars in map("".join, SENTENCES)]
    lengths = [[len(word) for word in sentence] for sentence in words]
    if task == "parse-words":
        outputs, score_labels = run_torch(network, SENTENCES, lengths)
        assert model.parse(all_words(words)) == decode(outputs, words, network.settings, score_labels)
        return
    outputs, score_labels = run_torch(network, SENTENCES)
    assert model.parse(RAW) == decode(outputs, SENTENCES, network.settings, score_labels)
    gaps = [word_gaps(sizes) for sizes in lengths]
    given = decode(outputs, SENTENCES, network.settings, score_labels, gaps=gaps)
    assert model.parse(all_words(words)) == given
    assert [list(analysis.tree.forms) for analysis in given] == words


def test_scores_are_those_of_torch(joint):
    network, model = joint
    expected, _ = run_torch(network, SENTENCES)
    found = model.networks.run(SENTENCES)
    for name in ("inter", "intra", "label_dep", "label_head", "upos"):
        for b, sentence in enumerate(SENTENCES):
            inside = slice(len(sentence) + 1)
            rows = getattr(found, name)[b, inside], getattr(expected, name)[b, inside]
            if name in ("inter", "intra"):
                rows = tuple(row[:, inside] for row in rows)
            np.testing.assert_allclose(*rows, atol=1e-4)


@pytest.mark.parametrize("top", [0, 6])
def test_a_long_sentence_is_read_in_windows(tmp_path, top):
    network = make_network(kind="bert", top=top)
    model = export_model(network, tmp_path / "model")
    assert (model.settings.window, model.settings.window_overlap) == (10, 4)
    expected, _ = run_torch(network, SENTENCES)  # up to 28 characters
    np.testing.assert_allclose(model.networks.run(SENTENCES).inter[0], expected.inter[0], atol=1e-4)


def test_results_do_not_depend_on_batches(joint):
    _, model = joint
    many = RAW * 3
    together = model.parse(many)
    assert ["".join(analysis.tree.forms) for analysis in together] == [sentence.text for sentence in many]
    for size in (1, 40, 10_000):
        assert replace(model, batch_chars=size).parse(many) == together
    assert [model.parse([sentence])[0] for sentence in many] == together


@pytest.fixture(scope="module")
def one_role(tmp_path_factory) -> Model:
    return export_model(make_network(roles=1), tmp_path_factory.mktemp("one") / "model")


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> Pipeline:
    folder = tmp_path_factory.mktemp("two")
    export_model(make_network("segment", 1), folder / "a")
    export_model(make_network("parse-words", 1), folder / "b")
    return write_pipeline(folder / "a", folder / "b", folder / "both")


def without_confidence(analyses):
    return [(analysis.text, analysis.tree, inner_trees(analysis)) for analysis in analyses]


def assert_same(found, expected):
    """Equal analyses, and probabilities that are equal up to the last bits of single precision."""
    assert without_confidence(found) == without_confidence(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.prob == pytest.approx(other.prob, abs=1e-5)
        for probs in (boundary_probs, head_probs, label_probs):
            assert probs(one) == pytest.approx(probs(other), abs=1e-5)


@given(st.data())
@hypothesis.settings(max_examples=15, deadline=None)
def test_probabilities_do_not_depend_on_batches(joint, one_role, pipeline, data):
    model = data.draw(st.sampled_from([joint[1], one_role, pipeline]))
    chosen = data.draw(st.lists(st.sampled_from(RAW), min_size=1, max_size=8))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(chosen)))) | {0, len(chosen)})
    together = model.parse(chosen, confidence=True)
    apart = [a for i, j in pairwise(cuts) for a in model.parse(chosen[i:j], confidence=True)]
    assert_same(apart, together)
    if isinstance(model, Model):
        size = data.draw(st.integers(1, 200))
        assert_same(replace(model, batch_chars=size).parse(chosen, confidence=True), together)


def test_k_best_are_ranked_and_hold_the_best_character_tree(joint, one_role, pipeline):
    for model in (joint[1], one_role, pipeline):
        best = model.parse(RAW, confidence=True, decoding="viterbi")
        several = model.k_best(RAW, 3)
        for analyses, analysis in zip(several, best, strict=True):
            assert 1 <= len(analyses) <= 3
            trees = [(found.tree.forms, found.tree.heads) for found in analyses]
            assert len(set(trees)) == len(trees)
            probabilities = [found.prob for found in analyses]
            assert probabilities == sorted(probabilities, reverse=True)
            [same] = [found for found in analyses if found.tree == analysis.tree]
            assert_same([same], [analysis])
        with pytest.raises(InputError, match="at least 1, not 0"):
            model.k_best(RAW, 0)


def test_given_words_are_certain(joint, one_role, pipeline):
    for model in (joint[1], one_role, pipeline):
        for analysis in model.parse(all_words(WORDS), confidence=True):
            count = len(analysis.tree.forms)
            assert boundary_probs(analysis) == (1.0,) * count
            assert len(head_probs(analysis)) == len(label_probs(analysis)) == count
        several = model.k_best(all_words(WORDS), 2)
        assert [list(analysis.tree.forms) for analyses in several for analysis in analyses[:1]] == WORDS


def test_a_pipeline_needs_its_parser_for_tags_only(pipeline, monkeypatch):
    tagged = pipeline.tokens(RAW, tags=True)
    assert {token.upos for tokens in tagged for token in tokens.words} <= {*pipeline.parser.settings.upos}
    plain = [
        replace(tokens, words=tuple(token._replace(upos=None, xpos=None) for token in tokens.words))
        for tokens in tagged
    ]
    run = Model.run
    monkeypatch.setattr(
        Model, "run", lambda model, *rest: run(model, *rest) if model is pipeline.segmenter else None
    )
    assert pipeline.tokens(RAW) == plain


def test_a_pipelines_words_count(pipeline):
    free = pipeline.parse(RAW, confidence=True)
    given_words = pipeline.parse(all_words(analysis.tree.forms for analysis in free), confidence=True)
    for found, sure, sentence in zip(free, given_words, RAW, strict=True):
        assert found.tree == sure.tree
        assert head_probs(found) == pytest.approx(head_probs(sure), abs=1e-5)
        if len(sentence) > 1:
            assert found.prob < sure.prob
            assert max(boundary_probs(found)) < 1
    with pytest.raises(InputError, match="vanilla decoding needs"):
        pipeline.parse(RAW, decoding="vanilla")


def test_vanilla_decoding_of_one_role(joint, one_role):
    vanilla = one_role.parse(RAW, decoding="vanilla", confidence=True)
    assert ["".join(a.tree.forms) for a in vanilla] == ["".join(chars) for chars in SENTENCES]
    assert any("dep" in a.tree.deprels for a in vanilla)  # made up by repairs: labels are random
    assert not any("dep" in a.tree.deprels for a in one_role.parse(RAW))
    with pytest.raises(InputError, match="vanilla decoding needs a character-level model with one role"):
        joint[1].parse(RAW, decoding="vanilla")


def test_traditional_and_full_width_characters_are_read_as_their_plain_forms(joint):
    _, model = joint
    table = replace(CHARS, stand_ins={"計": "计", "劃": "划", "發": "发"})
    simplified, traditional = list("上海计划发展"), list("上海計劃發展")
    read = replace(model, networks=replace(model.networks, chars=table))
    [expected], [found] = read.parse([chars(simplified)]), read.parse([chars(traditional)])
    assert "".join(found.tree.forms) == "".join(traditional)
    assert replace(found.tree, forms=expected.tree.forms) == expected.tree
    assert [model.parse([chars(simplified)])[0], inner_trees(found)] == [expected, inner_trees(expected)]


def test_gaps_go_with_their_sentences(joint):
    _, model = joint
    gaps = [None] * len(SENTENCES)
    gaps[2] = word_gaps([4, 5])
    gaps[5] = np.full(18, FREE, dtype=np.int8)
    gaps[5][6] = BREAK
    found = model.parse(all_chars(SENTENCES, gaps))
    assert found[2].tree.forms == (TEXT[:4], TEXT[4:9])
    assert 6 in np.cumsum(found[5].tree.lengths)
    free = model.parse(RAW)
    assert [found[k] for k in (0, 1, 3, 4)] == [free[k] for k in (0, 1, 3, 4)]


def test_several_threads_may_use_one_model(joint, one_role, pipeline):
    for model in (joint[1], one_role, pipeline):
        expected = model.parse(RAW, confidence=True)
        ranked = model.k_best(RAW[1:4], 2)
        with ThreadPoolExecutor(4) as pool:
            parsed = [pool.submit(model.parse, RAW, confidence=True) for _ in range(8)]
            several = [pool.submit(model.k_best, RAW[1:4], 2) for _ in range(4)]
            for future in parsed:
                assert_same(future.result(), expected)
            for future in several:
                for found, analyses in zip(future.result(), ranked, strict=True):
                    assert_same(found, analyses)


def test_the_runtime_needs_no_torch(joint, directory):
    program = """
import json, sys
from dataclasses import replace
from zishu.model.runtime import load_model
from zishu.sentences import word_sentence
model = load_model(sys.argv[1], threads=1)
sentences = [replace(word_sentence(chars), gaps=None) for chars in json.loads(sys.argv[2])]
trees = [analysis.tree for analysis in model.parse(sentences)]
assert not {"torch", "transformers", "onnx"} & set(sys.modules)
print(json.dumps([[tree.forms, tree.heads, tree.deprels, tree.upos] for tree in trees]))
"""
    run = subprocess.run(
        [sys.executable, "-c", program, directory, json.dumps(SENTENCES)],
        capture_output=True,
        text=True,
        check=True,
    )
    trees = [analysis.tree for analysis in load_model(directory).parse(RAW)]
    expected = [[list(part) for part in (t.forms, t.heads, t.deprels, t.upos)] for t in trees]
    assert json.loads(run.stdout) == expected
    assert run.stderr == ""


def test_reading_vocabularies_brings_no_compiler():
    program = "import sys, zishu.model.settings, zishu.model.vocabulary as v; v.Vocabulary.build({}); "
    program += "assert not {'numba', 'onnxruntime', 'torch'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_models_of_all_kinds_keep_fixed_arcs(joint, one_role, pipeline):
    text = "上海计划发展金融业。"
    pins = [(0, 2), (4, 6), (6, 9)]
    for model in (joint[1], one_role, pipeline):
        nlp = Parser(model)
        labels = getattr(model, "parser", model).settings.labels
        relation = next(label for label in labels if label not in ("INTRA", "root"))
        arcs = [(0, 6, relation), (6, None), (4, 6)]
        found = nlp(text, pins=pins, arcs=arcs)[0]
        for several in ([found], *nlp.k_best(text, 3, pins=pins, arcs=arcs)):
            for sentence in several:
                word = {word.start: word for word in sentence}
                assert word[0].head == word[4].head == word[6].id
                assert (word[0].deprel, word[6].head) == (relation, 0)
                assert [word[0].head_prob, word[0].label_prob] == pytest.approx([1.0, 1.0])


def test_pipeline(tmp_path):
    segmenter, treecrf = make_network("segment", 1), make_network("parse-words", 1)
    export_model(segmenter, tmp_path / "a")
    export_model(treecrf, tmp_path / "b")
    pipeline = write_pipeline(tmp_path / "a", tmp_path / "b", tmp_path / "both", name="两步")
    assert isinstance(pipeline, Pipeline)
    assert pipeline.settings.name == "两步"
    segments = load_model(tmp_path / "a").segment(RAW)
    words = [words_of(*pair) for pair in zip(RAW, segments, strict=True)]
    assert [analysis.tree.forms for analysis in pipeline.parse(RAW)] == words
    gaps = [word_gaps([len(sentence)]) for sentence in SENTENCES]
    whole = [analysis.tree.forms for analysis in pipeline.parse(all_chars(SENTENCES, gaps))]
    assert whole == [("".join(sentence),) for sentence in SENTENCES]
    parsed = pipeline.parse(all_words(WORDS))
    assert parsed == load_model(tmp_path / "b").parse(all_words(WORDS))
    assert [list(analysis.tree.forms) for analysis in parsed] == WORDS
    with pytest.raises(InputError, match=r"segmenter: the task must be 'segment', not 'parse-words'"):
        write_pipeline(tmp_path / "b", tmp_path / "b", tmp_path / "wrong")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "both"]


@pytest.fixture(scope="module")
def members(tmp_path_factory) -> list[Path]:
    """Two models with random weights, of different kinds and widths."""
    folder = tmp_path_factory.mktemp("members")
    export_model(make_network(label=7), folder / "a")
    export_model(make_network(kind="transformer", label=5), folder / "b")
    return [folder / "a", folder / "b"]


def test_an_ensemble_averages_scores(members, tmp_path):
    a, b = map(load_model, members)
    both = write_ensemble(members, tmp_path / "both", name="合")
    assert (both.settings.task, both.settings.roles, both.settings.name) == ("parse", 2, "合")
    outputs = both.networks.run(SENTENCES)
    parts = [model.networks.run(SENTENCES) for model in (a, b)]
    for name in ("inter", "intra", "upos"):
        expected = (getattr(parts[0], name) + getattr(parts[1], name)) / 2
        np.testing.assert_allclose(getattr(outputs, name), expected, atol=1e-5)
    arcs = np.zeros(3, dtype=np.int64), np.arange(3), np.arange(1, 4)
    expected = [
        model.networks.score_labels(part.label_dep[0, :3], part.label_head[0, 1:4])
        for model, part in zip((a, b), parts, strict=True)
    ]
    np.testing.assert_allclose(outputs.labels(*arcs), np.mean(expected, axis=0), atol=1e-5)


def test_an_ensemble_is_the_product_of_its_members(members, tmp_path):
    """P(tree) of the ensemble is proportional to the root of the product of the members': all trees, by k best."""
    both = write_ensemble(members, tmp_path / "both")
    words = all_words([["上", "海", "好"]])
    trees = [{} for _ in range(3)]
    for found, model in zip(trees, (*map(load_model, members), both), strict=True):
        for analysis in model.k_best(words, 100)[0]:
            found[analysis.tree.heads] = analysis.prob
    a, b, together = trees
    assert len(a) == len(b) == len(together) == 7  # projective trees over three words
    total = sum((a[heads] * b[heads]) ** 0.5 for heads in a)
    for heads, probability in together.items():
        assert probability == pytest.approx((a[heads] * b[heads]) ** 0.5 / total, rel=1e-4)


def test_an_ensemble_of_one_model_twice_is_that_model(members, tmp_path):
    twice = write_ensemble([members[0], members[0]], tmp_path / "twice")
    model = load_model(members[0])
    assert_same(twice.parse(RAW, confidence=True), model.parse(RAW, confidence=True))
    assert twice.parse(all_words(WORDS)) == model.parse(all_words(WORDS))


def test_members_of_an_ensemble_must_fit(members, tmp_path):
    export_model(make_network(roles=1), tmp_path / "one-role")
    export_model(make_network("segment", 1), tmp_path / "segmenter")
    with pytest.raises(InputError, match=r"wrong: members 1 and 2 of an ensemble differ in 'roles'"):
        write_ensemble([members[0], tmp_path / "one-role"], tmp_path / "wrong")
    with pytest.raises(InputError, match="parsers, not models for the task 'segment'"):
        write_ensemble([tmp_path / "segmenter"] * 2, tmp_path / "wrong")
    with pytest.raises(InputError, match="at least two members"):
        write_ensemble(members[:1], tmp_path / "wrong")
    with pytest.raises(InputError, match=r"nowhere: not a model \(it has no config\.json\)"):
        write_ensemble([members[0], tmp_path / "nowhere"], tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


def test_words_of_clusters_are_kept(joint):
    _, model = joint
    found = model.parse(all_words(WORDS))
    assert [list(analysis.tree.forms) for analysis in found] == WORDS
    assert len(inner_trees(found[2])[-1]) == 2  # é and x


def test_every_task_says_what_it_cannot_do(joint, tmp_path):
    _, model = joint
    with pytest.raises(InputError, match="'parse' is not a segmenter"):
        model.segment(RAW)
    segmenter = export_model(make_network("segment", 1), tmp_path / "a")
    with pytest.raises(InputError, match="a segmenter cannot parse"):
        segmenter.parse(all_words(WORDS))
    treecrf = export_model(make_network("parse-words", 1), tmp_path / "b")
    with pytest.raises(InputError, match="a model that parses words needs all words of a sentence"):
        treecrf.parse(RAW)


def test_no_sentences_and_empty_ones(joint):
    _, model = joint
    assert model.parse([]) == []
    assert model.k_best([], 2) == []
    with pytest.raises(InputError, match="sentence 1 is empty"):
        model.parse([chars("a"), RawSentence((), (), (), "")])


def test_a_network_without_parts_of_speech(tmp_path):
    model = export_model(make_network(upos=()), tmp_path / "model")
    assert all(analysis.tree.upos is None for analysis in model.parse(RAW))


def test_what_is_on_disk(joint, directory):
    names = sorted(path.name for path in directory.iterdir())
    assert names == [
        "bigrams.json",
        "chars.json",
        "config.json",
        "encoder.onnx",
        "labels.onnx",
        "scorer.onnx",
    ]
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    assert (config["format"], config["task"], config["roles"], config["name"]) == (1, "parse", 2, "小")
    assert config["labels"] == [INTRA, *LABELS]


def test_a_model_replaces_a_model_but_nothing_else(tmp_path):
    export_model(make_network(), tmp_path / "model")
    export_model(make_network(roles=1), tmp_path / "model")
    assert load_model(tmp_path / "model").settings.roles == 1
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("keep me")
    with pytest.raises(InputError, match="not a model, so it is not overwritten"):
        export_model(make_network(), tmp_path / "letters")
    assert (tmp_path / "letters" / "dear.txt").read_text() == "keep me"
    (tmp_path / "file").write_text("keep me, too")
    with pytest.raises(InputError, match="not a model, so it is not overwritten"):
        export_model(make_network(), tmp_path / "file")


def test_a_failed_export_leaves_the_old_model(tmp_path, monkeypatch):
    export_model(make_network(), tmp_path / "model")
    before = (tmp_path / "model" / "scorer.onnx").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(export, "write_graph", full)
        with pytest.raises(ZishuError, match="model: the model cannot be written: No space left on device"):
            export_model(make_network(roles=1), tmp_path / "model")
    assert (tmp_path / "model" / "scorer.onnx").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]

    def no_way_in(path, target):
        if path.name == "new":
            full()
        return rename(path, target)

    rename = Path.rename
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", no_way_in)
        with pytest.raises(ZishuError, match="No space left on device"):
            export_model(make_network(roles=1), tmp_path / "model")
    assert (tmp_path / "model" / "scorer.onnx").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_export_that_differs_is_refused(tmp_path, monkeypatch):
    exported = export.write_graph

    def wrong(module, inputs, outputs, path):
        if path.name == "labels.onnx":
            with torch.no_grad():
                module.weight[0, 0] += 1
        exported(module, inputs, outputs, path)

    monkeypatch.setattr(export, "write_graph", wrong)
    with pytest.raises(ZishuError, match="differs from the trained one in its output 'labels'"):
        export_model(make_network(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def rewrite(path, **changes):
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, **changes}), encoding="utf-8")


def test_missing_and_foreign_directories(tmp_path, spoilt):
    with pytest.raises(InputError, match="nowhere: no such model"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"chars\.json: a model is a directory, not a file"):
        load_model(spoilt / "chars.json")
    with pytest.raises(InputError, match=r"not a model \(it has no config\.json\)"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match=r"config\.json: not the settings of a Zishu model"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["chars.json", "bigrams.json", "encoder.onnx", "scorer.onnx", "labels.onnx"])
def test_missing_and_broken_files_are_named(spoilt, name):
    whole = (spoilt / name).read_bytes()
    (spoilt / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=name):
        load_model(spoilt)
    (spoilt / name).write_bytes(b"")
    with pytest.raises(InputError, match=name):
        load_model(spoilt)
    (spoilt / name).unlink()
    with pytest.raises(InputError, match=f"{name}: no such file"):
        load_model(spoilt)


def test_a_newer_format_is_refused(spoilt):
    rewrite(spoilt / "config.json", format=FORMAT + 1)
    with pytest.raises(InputError, match=rf"config\.json: the model has format {FORMAT + 1}"):
        load_model(spoilt)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"roles": 1}, r"scorer\.onnx: the network returns inter, intra"),
        ({"bigrams": False}, r"encoder\.onnx: the network reads bigrams, chars, lengths"),
        ({"upos": []}, r"scorer\.onnx: the network returns"),
        ({"labels": [INTRA, "root"]}, r"config\.json and the networks have different labels"),
        ({"upos": ["NOUN"]}, r"config\.json and the networks have different labels"),
    ],
)
def test_settings_of_another_model_are_found_out(spoilt, changes, message):
    rewrite(spoilt / "config.json", **changes)
    with pytest.raises(InputError, match=message):
        load_model(spoilt)


@pytest.mark.parametrize("name", ["chars.json", "bigrams.json"])
def test_a_vocabulary_of_another_model_is_found_out(spoilt, name):
    symbols = json.loads((spoilt / name).read_text(encoding="utf-8"))["symbols"]
    rewrite(spoilt / name, symbols=[*symbols, "too many"])
    with pytest.raises(InputError, match="the files of this model do not match"):
        load_model(spoilt)


def test_a_segmenter_without_tag_scores_is_refused(tmp_path):
    export_model(make_network("segment", 1), tmp_path / "model")
    rewrite(tmp_path / "model" / "config.json", transitions=[], starts=[], ends=[])
    with pytest.raises(InputError, match=r"config\.json: the scores of a segmenter's tag pairs are missing"):
        load_model(tmp_path / "model")
