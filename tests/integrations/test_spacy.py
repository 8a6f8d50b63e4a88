"""The component and the tokenizer in real pipelines of spaCy, with the bundled model."""

from __future__ import annotations

import importlib
import pickle
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zishu
from parsed_sentences import SHANGHAI, parsed
from zishu.document import Document
from zishu.errors import InputError, MissingExtra
from zishu.model.files import find_model
from zishu.parser import Parser
from zishu.text import characters

spacy = pytest.importorskip("spacy")

from spacy import displacy  # noqa: E402
from spacy.language import Language  # noqa: E402
from spacy.tokens import Doc, DocBin, Span  # noqa: E402
from spacy.training import Example  # noqa: E402

from zishu.integrations.spacy import TOKENIZER, make_component, make_doc, make_tokenizer  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = "我喜欢北京。他们在上海工作。"
TEXTS = [TEXT, "", "我们今天去学校。", "  他说：“你好！”\n\n我走了。 ", "她买了 3 本书。", " "]


@pytest.fixture(scope="module")
def nlp() -> Language:
    return pipeline()


@pytest.fixture(scope="module")
def parser() -> Parser:
    return zishu.load()


def pipeline(*, tokenizer: bool = False, component: bool = True, **config: Any) -> Language:
    own = {"nlp": {"tokenizer": {"@tokenizers": TOKENIZER}}} if tokenizer else {}
    made = spacy.blank("zh", config=own)
    if component:
        made.add_pipe("zishu", config=config)
    return made


def words_of(doc: Doc) -> list[str]:
    return [token.text for token in doc if not token.is_space]


def analysis(doc: Doc) -> list[tuple[Any, ...]]:
    return [
        (
            token.text,
            token.idx,
            token.whitespace_,
            token.pos_,
            token.dep_,
            token.head.i,
            token.is_sent_start,
            token._.char_heads,
            token._.root_char,
            None if token._.prob is None else round(token._.prob, 4),
        )
        for token in doc
    ]


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of texts in every call of `Parser.pipe`."""
    calls: list[int] = []
    real = Parser.pipe

    def counting(self: Parser, texts: Any, **options: Any) -> Any:
        texts = list(texts)
        calls.append(len(texts))
        return real(self, texts, **options)

    monkeypatch.setattr(Parser, "pipe", counting)
    return calls


# ---- the content of a document


def test_a_document_of_spacy_says_what_a_sentence_of_zishu_says() -> None:
    doc = make_doc(spacy.blank("zh").vocab, Document("   上海计划发展金融业。", (SHANGHAI,)))
    assert [token.text for token in doc] == ["   ", "上海", "计划", "发展", "金融业", "。"]
    assert [token.pos_ for token in doc] == ["SPACE", "PROPN", "VERB", "VERB", "NOUN", "PUNCT"]
    assert [token.dep_ for token in doc] == ["dep", "nsubj", "ROOT", "ccomp", "obj", "punct"]
    assert [token.head.i for token in doc] == [1, 2, 2, 2, 3, 2]
    assert [token._.char_heads for token in doc] == [None, (2, 0), (2, 0), (0, 1), (3, 1, 0), (0,)]
    assert [token._.root_char for token in doc] == [None, "海", "划", "发", "业", "。"]
    assert doc[3]._.prob == pytest.approx(0.75 * 0.9 * 0.8)
    assert (doc[3]._.boundary_prob, doc[3]._.head_prob, doc[3]._.label_prob) == (0.75, 0.9, 0.8)
    assert doc[0]._.prob is None
    assert doc[0]._.head_prob is None
    assert len(list(doc.sents)) == 1


def test_words_sentences_and_trees_are_those_of_the_parser(nlp: Language, parser: Parser) -> None:
    text = TEXTS[3] + TEXT
    doc, document = nlp(text), parser(text)
    tokens = [token for token in doc if not token.is_space]
    words = [word for sentence in document for word in sentence.words]
    assert [(token.text, token.idx) for token in tokens] == [(word.form, word.start) for word in words]
    assert [token.pos_ for token in tokens] == [word.upos for word in words]
    assert [token._.char_heads for token in tokens] == [word.char_heads for word in words]
    assert [token._.prob for token in tokens] == pytest.approx([word.prob for word in words], abs=1e-4)
    assert len(list(doc.sents)) == len(document)
    for span, sentence in zip(doc.sents, document, strict=True):
        assert span.text.strip() == sentence.text
        here = [token for token in span if not token.is_space]
        for token, word in zip(here, sentence.words, strict=True):
            assert token.head == (here[word.head - 1] if word.head else token)
            assert token.dep_ == (word.deprel if word.head else "ROOT")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n",
        " \n ",
        " 我",
        "我 ",
        "我  ",
        "我   你",
        "我\n你",
        "我 \n你",
        "我\u3000你",
        "\t我。\r\n\r\n你。\x85",
        "👨‍👩‍👧‍👦很开心🇨🇳！",
        "e\u0301 \u0301",
        "\x00",
        "\ufeff我\u200b你",
        "𠀀𠮷野家",
        "我。 " * 3,
    ],
)
def test_the_text_is_kept(nlp: Language, text: str) -> None:
    doc = nlp(text)
    assert doc.text == text
    assert all(text[token.idx :].startswith(token.text_with_ws) for token in doc)
    assert "".join(sentence.text_with_ws for sentence in doc.sents) == text
    assert all(token.text.isspace() == (token.pos_ == "SPACE") for token in doc)


@settings(max_examples=40)
@given(
    st.text(st.sampled_from("我们喜欢北京。！ab1 \n\t\u3000\u0301\u200d👩🇨\x00\x1f“”"), max_size=30)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)
def test_any_text_is_kept(nlp: Language, text: str) -> None:
    doc = nlp(text)
    assert doc.text == text
    assert words_of(doc) == [word.form for sentence in zishu_of(nlp)(text) for word in sentence.words]
    for sentence in doc.sents:
        assert sum(token.head == token for token in sentence) == 1
        assert all(token.head.sent == sentence for token in sentence)


def zishu_of(nlp: Language) -> Parser:
    found = nlp.get_pipe("zishu").engine.parser
    assert isinstance(found, Parser)
    return found


def test_tags_that_are_not_universal_go_where_spacy_keeps_tags() -> None:
    sentence = parsed([("我", "PN", 2, "nsubj", (0,)), ("走", "VERB", 0, "root", None)])
    doc = make_doc(spacy.blank("zh").vocab, Document("我走", (sentence,)))
    assert [(token.tag_, token.pos_) for token in doc] == [("PN", ""), ("", "VERB")]
    assert doc[1]._.char_heads is None
    assert doc[1]._.root_char is None
    assert doc[1]._.prob is None


def test_without_confidence_there_are_no_probabilities() -> None:
    doc = pipeline(confidence=False)(TEXT)
    assert doc[0]._.prob is None
    assert doc[0]._.char_heads == (0,)


def test_line_breaks_and_patterns() -> None:
    text = "我喜欢\n北京。"
    assert len(list(pipeline()(text).sents)) == 2
    assert len(list(pipeline(wrapped=True)(text).sents)) == 1
    odd = "明天12:30:45见"
    with_patterns, without = (words_of(pipeline(patterns=patterns)(odd)) for patterns in (True, False))
    assert "12:30:45" in with_patterns
    assert "".join(without) == odd


def test_words_of_a_lexicon_are_kept_whole(tmp_path: Path) -> None:
    assert words_of(pipeline(lexicon=["喜欢北京"])(TEXT))[:2] == ["我", "喜欢北京"]
    file = tmp_path / "words.txt"
    file.write_text("在上海\n", encoding="utf-8")
    assert "在上海" in words_of(pipeline(lexicon=str(file))(TEXT))


# ---- batches


def test_a_batch_is_parsed_at_once(nlp: Language, parses: list[int]) -> None:
    docs = list(nlp.pipe(TEXTS * 3, batch_size=12))
    assert parses == [12, 6]
    assert [doc.text for doc in docs] == TEXTS * 3
    assert [analysis(doc) for doc in docs[:6]] == [analysis(nlp(text)) for text in TEXTS]


def test_contexts_stay_with_their_texts(nlp: Language) -> None:
    pairs = [(text, {"number": number}) for number, text in enumerate(TEXTS)]
    found = list(nlp.pipe(pairs, as_tuples=True))
    assert [(doc.text, context) for doc, context in found] == pairs


def test_a_document_is_not_parsed_again(nlp: Language, parses: list[int]) -> None:
    doc = nlp(TEXT)
    assert nlp(doc) is doc
    assert [one is doc for one in nlp.pipe([doc])] == [True]
    assert sum(parses) == 1


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"tokenizer": True}])
def test_several_processes(options: dict[str, bool]) -> None:
    nlp = pipeline(**options)
    here = [analysis(nlp(text)) for text in TEXTS]  # the networks are in use when the process is forked
    docs = list(nlp.pipe(TEXTS * 2, n_process=2, batch_size=3))
    assert [doc.text for doc in docs] == TEXTS * 2
    assert [analysis(doc) for doc in docs] == here * 2


def test_a_bad_document_costs_no_other_one() -> None:
    nlp = pipeline(words="given")
    docs = [
        Doc(nlp.vocab, words=["我", "来"], spaces=[False, False]),
        Doc(nlp.vocab, words=["New York", "好"], spaces=[False, False]),
        Doc(nlp.vocab, words=["他", "走"], spaces=[False, False]),
    ]
    with pytest.raises(InputError, match="contains white space"):
        list(nlp.pipe(docs))
    failed: list[Doc] = []
    nlp.set_error_handler(lambda name, component, bad, error: failed.extend(bad))
    assert [doc.text for doc in nlp.pipe(docs)] == ["我来", "他走"]
    assert failed == [docs[1]]


# ---- the tokenizer, and given words


def test_the_tokenizer_gives_the_words_and_their_trees(nlp: Language) -> None:
    own = pipeline(tokenizer=True, component=False)
    for text in TEXTS:
        assert analysis(own.make_doc(text)) == analysis(nlp(text))
        assert analysis(own(text)) == analysis(nlp(text))


def test_tokenizer_and_component_parse_once(parses: list[int]) -> None:
    nlp = pipeline(tokenizer=True)
    nlp(TEXT)
    assert parses == [1]
    assert [doc.text for doc in nlp.tokenizer.pipe(TEXTS)] == TEXTS
    assert parses == [1, len(TEXTS)]


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InputError, match="lone surrogate at offset 2"):
        pipeline(tokenizer=True, component=False)("我们\ud800")


def test_given_words_are_kept(parser: Parser) -> None:
    nlp = pipeline(words="given")
    words = ["我", "喜欢", "  ", "北京", "。", "他", "在", "上海工作", "。"]
    doc = Doc(nlp.vocab, words=words, spaces=[False] * len(words))
    assert nlp(doc) is doc
    assert [token.text for token in doc] == words
    assert [sentence.text for sentence in doc.sents] == ["我喜欢  北京。", "他在上海工作。"]
    known = parser.parse_words([["我", "喜欢", "北京", "。"], ["他", "在", "上海工作", "。"]])
    tokens = [token for token in doc if not token.is_space]
    assert [token.pos_ for token in tokens] == [word.upos for sentence in known for word in sentence.words]
    assert [len(token._.char_heads) for token in tokens] == [len(characters(token.text)) for token in tokens]
    assert tokens[0].head.text == "喜欢"


def test_given_words_have_a_style_and_may_be_wrapped() -> None:
    words = ["我", "喜欢", "\n", "北京", "。"]
    tags, counts = [], []
    for config in ({}, {"style": "hk"}, {"wrapped": True}):
        nlp = pipeline(words="given", **config)
        doc = nlp(Doc(nlp.vocab, words=words, spaces=[False] * len(words)))
        tags.append([token.tag_ for token in doc if not token.is_space])
        counts.append(len(list(doc.sents)))
    assert all(tags[0])
    assert not any(tags[1])  # its treebank has no tag set of its own
    assert counts == [2, 2, 1]


def test_given_sentences_are_kept() -> None:
    nlp = spacy.blank("zh")
    nlp.add_pipe("sentencizer", config={"punct_chars": ["，"]})
    nlp.add_pipe("zishu", config={"words": "given"})
    doc = nlp("我来，他走。她说。")
    assert [sentence.text for sentence in doc.sents] == ["我来，", "他走。她说。"]
    assert [token.text for token in doc] == list("我来，他走。她说。")


def test_given_words_may_be_in_one_very_long_sentence() -> None:
    nlp = pipeline(words="given", confidence=False)
    docs = [nlp.make_doc("我们走，" * 150), nlp.make_doc(TEXT)]
    long, short = nlp.pipe(docs)
    assert all(token.dep_ for token in long)
    assert len(list(long.sents)) > 1
    assert len(list(short.sents)) == 2


def test_given_words_of_nothing() -> None:
    nlp = pipeline(words="given")
    assert [doc.text for doc in nlp.pipe(["", "  ", "我"])] == ["", "  ", "我"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"words": "given", "lexicon": ["我们"]}, "a lexicon cannot be used with given words"),
        ({"model": "/no/such/model"}, "no such model directory"),
    ],
)
def test_settings_that_make_no_sense(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        pipeline(**config)


# ---- together with the rest of spaCy


def test_what_earlier_components_found_is_carried_over() -> None:
    nlp = spacy.blank("zh")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "GPE", "pattern": [{"TEXT": "北"}, {"TEXT": "京"}], "id": "beijing"}])

    @Language.component("test_earlier")
    def earlier(doc: Doc) -> Doc:
        doc.spans["half"] = [Span(doc, 1, 2, label="X")]  # 喜 of 喜欢
        doc.user_data["source"] = "here"
        doc.cats["news"] = 0.5
        return doc

    nlp.add_pipe("test_earlier")
    nlp.add_pipe("zishu")
    doc = nlp(TEXT)
    assert [(span.text, span.label_, span.id_) for span in doc.ents] == [("北京", "GPE", "beijing")]
    assert [span.text for span in doc.spans["half"]] == ["喜欢"]
    assert doc.user_data["source"] == "here"
    assert doc.cats == {"news": 0.5}


def test_docbin(nlp: Language) -> None:
    docs = list(nlp.pipe(TEXTS))
    stored = DocBin(docs=docs, store_user_data=True, attrs=["HEAD", "DEP", "POS", "ENT_IOB"]).to_bytes()
    again = list(DocBin().from_bytes(stored).get_docs(spacy.blank("zh").vocab))
    assert [analysis(doc) for doc in again] == [analysis(doc) for doc in docs]


def test_bytes_of_a_document_and_a_span_as_a_document(nlp: Language) -> None:
    doc = nlp(TEXT)
    again = Doc(spacy.blank("zh").vocab).from_bytes(doc.to_bytes())
    assert analysis(again) == analysis(doc)
    second = list(doc.sents)[1].as_doc(copy_user_data=True)
    assert [token._.char_heads for token in second] == [token._.char_heads for token in list(doc.sents)[1]]


def test_displacy(nlp: Language) -> None:
    drawn = displacy.render(nlp("我喜欢北京。"), style="dep", jupyter=False)
    assert "喜欢" in drawn
    assert "nsubj" in drawn


def test_scores(nlp: Language) -> None:
    gold = nlp(TEXT)
    scores = nlp.evaluate([Example(nlp.make_doc(TEXT), gold)])
    assert scores["token_f"] == 1.0
    assert scores["dep_las"] == 1.0
    assert scores["pos_acc"] == 1.0
    assert scores["sents_f"] == 1.0


def test_initialising_a_pipeline_changes_nothing() -> None:
    nlp = pipeline(tokenizer=True)
    nlp.initialize()
    assert words_of(nlp("我喜欢北京。")) == ["我", "喜欢", "北京", "。"]


@pytest.mark.parametrize("factory", [make_component, make_tokenizer])
def test_factories_have_types_and_not_their_names(factory: Any) -> None:
    """spaCy 3.7 and 3.8 check the settings of a pipeline with pydantic 1, which cannot resolve names of types."""
    assert factory.__annotations__
    assert not any(isinstance(kind, str) for kind in factory.__annotations__.values())


# ---- storing pipelines


def files(folder: Path) -> set[str]:
    return {file.name for file in folder.rglob("*")}


@pytest.mark.parametrize("tokenizer", [False, True])
def test_a_stored_pipeline_has_settings_and_no_weights(tmp_path: Path, tokenizer: bool) -> None:
    nlp = pipeline(tokenizer=tokenizer, model=str(find_model()), confidence=False)
    nlp.to_disk(tmp_path / "nlp")
    assert not any(name.endswith(".onnx") for name in files(tmp_path))
    again = spacy.load(tmp_path / "nlp")
    assert again.get_pipe("zishu").engine.model == str(find_model())
    assert again.get_pipe("zishu").engine.confidence is False
    assert analysis(again(TEXT)) == analysis(nlp(TEXT))


def test_a_stored_pipeline_takes_its_model_along_if_asked(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(find_model(), model)
    pipeline(model=str(model), copy_model=True).to_disk(tmp_path / "nlp")
    shutil.rmtree(model)
    (tmp_path / "nlp").rename(tmp_path / "moved")
    again = spacy.load(tmp_path / "moved")
    assert zishu_of(again).path == tmp_path / "moved" / "zishu" / "model"
    again.to_disk(tmp_path / "moved")  # onto itself
    assert words_of(again("我喜欢北京。")) == ["我", "喜欢", "北京", "。"]


def test_a_model_is_stored_without_anything_else(tmp_path: Path) -> None:
    """Unknown files, links out of the model or the pipeline, and files of an earlier model are not stored."""
    model, victim, copy = tmp_path / "model", tmp_path / "victim", tmp_path / "nlp" / "zishu" / "model"
    shutil.copytree(find_model(), model)
    known = files(model)
    (model / "secret.txt").write_text("secret", encoding="utf-8")
    (model / "link").symlink_to("/etc")
    victim.write_text("precious", encoding="utf-8")
    copy.mkdir(parents=True)
    (copy / "config.json").write_text("{}", encoding="utf-8")
    (copy / "README.md").write_text("of another model", encoding="utf-8")
    (copy / "chars.json").symlink_to(victim)
    (model / "README.md").unlink()
    nlp = pipeline(model=str(model), copy_model=True)
    nlp.to_disk(tmp_path / "nlp")
    assert files(copy) == known - {"README.md"}
    assert victim.read_text(encoding="utf-8") == "precious"
    (model / "chars.json").unlink()
    (model / "chars.json").symlink_to(victim)
    with pytest.raises(InputError, match=r"chars\.json: is a link"):
        nlp.to_disk(tmp_path / "other")


@pytest.mark.parametrize("how", [pickle.dumps, Language.to_bytes])
def test_pipelines_as_bytes(nlp: Language, how: Callable[[Language], bytes]) -> None:
    data = how(nlp)
    assert len(data) < 5_000_000
    again = pickle.loads(data) if how is pickle.dumps else pipeline().from_bytes(data)
    assert analysis(again(TEXT)) == analysis(nlp(TEXT))


@pytest.mark.slow
def test_entry_points_make_the_names_known() -> None:
    program = (
        "import spacy; nlp = spacy.blank('zh'); nlp.add_pipe('zishu'); print(nlp('我喜欢北京。').text)\n"
        f"spacy.blank('zh', config={{'nlp': {{'tokenizer': {{'@tokenizers': '{TOKENIZER}'}}}}}})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("我喜欢北京。\n", "")


def test_without_spacy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "spacy"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "zishu.integrations.spacy")
    with pytest.raises(MissingExtra, match=r"zishu\[spacy\]"):
        importlib.import_module("zishu.integrations.spacy")
