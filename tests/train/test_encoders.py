from __future__ import annotations

import json
import re
import shutil
import socket
import time
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel, RobertaConfig, RobertaModel

from zishu.errors import ConfigError, InputError
from zishu.model.vocabulary import Vocabulary
from zishu.model.windows import plan_windows, spans
from zishu.train._hf import Bert, hf_vocabulary
from zishu.train.config import EncoderConfig
from zishu.train.encoders import (
    _FAR,
    BiLSTM,
    Dropout,
    Embeddings,
    Encoder,
    SharedDropout,
    Topped,
    Transformer,
    build_encoder,
    distance_buckets,
    drop_embeddings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor

CHARS = "上海计划发展金融业中国人民银行布了关于进一步推改革开放的通知"
VOCABULARY = Vocabulary.build(dict.fromkeys(CHARS, 1))
BIGRAMS = Vocabulary.build({left + right: 1 for left in CHARS[:6] for right in CHARS[:6]})
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
KINDS = ["bilstm", "transformer", "bert"]
POSITIONS = 32  # of the tiny BERT: room for 30 characters


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Keep tiny matrices on one core: threads would spend their time waiting for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(1)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of a tiny BERT with random weights."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("bert")
    write_vocabulary(folder, "ab" + CHARS)
    config = BertConfig(
        vocab_size=len(SPECIAL) + 2 + len(CHARS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=POSITIONS,
    )
    BertModel(config).save_pretrained(folder)
    return str(folder)


def write_vocabulary(folder: Path, chars: str, **options: object) -> None:
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *chars]) + "\n", encoding="utf-8")
    settings = {"tokenizer_class": "BertTokenizer", **options}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def tiny(kind: str, bert: str = "", **options: object) -> EncoderConfig:
    sizes: dict[str, object] = {
        "char_width": 8,
        "bigram_width": 6,
        "hidden": 12,
        "heads": 3,
        "feed_forward": 20,
        "neighbours": True,
        "window_overlap": 8,
        "pretrained": bert if kind == "bert" else "",
    }
    return EncoderConfig(kind=kind, **(sizes | options))  # type: ignore[arg-type]


def build(kind: str, bert: str, **options: object) -> Encoder:
    vocabulary = hf_vocabulary(bert) if kind == "bert" else VOCABULARY
    return build_encoder(tiny(kind, bert, **options), vocabulary, BIGRAMS)


def sentences(*lengths: int, width: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return random sentences of these lengths, with noise for padding: it must not matter."""
    size = 1 + max(*lengths, width)
    chars = torch.randint(5, 30, (len(lengths), size))
    chars[:, 0] = 2
    return chars, torch.tensor(lengths), torch.randint(4, 36, (len(lengths), size))


# --- all three ------------------------------------------------------------------------------------------------


def test_activation() -> None:
    """The chosen function, and no other, stands between the linear layers."""
    torch.manual_seed(0)
    gelu = build("transformer", "").eval()
    relu = build("transformer", "", activation="relu").eval()
    relu.load_state_dict(gelu.state_dict())
    inputs = sentences(5, 3)
    with torch.inference_mode():
        assert not torch.allclose(gelu(*inputs), relu(*inputs))
        for module in list(gelu.modules()):
            for name, child in module.named_children():
                if isinstance(child, torch.nn.GELU):
                    setattr(module, name, torch.nn.ReLU())
        assert torch.equal(gelu(*inputs), relu(*inputs))


@pytest.mark.parametrize("kind", KINDS)
def test_shape(kind: str, bert: str) -> None:
    encoder = build(kind, bert)
    for lengths in ((1,), (7, 3, 5), (1, 1)):
        encoded = encoder(*sentences(*lengths))
        assert encoded.shape == (len(lengths), 1 + max(lengths), encoder.width)
        assert encoded.dtype == torch.float32
        assert encoded.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [(9, 4, 1, 6), (50, 4, 31, 30)])  # the second needs windows in a BERT
def test_a_sentence_is_encoded_as_if_it_were_alone(kind: str, bert: str, lengths: tuple[int, ...]) -> None:
    encoder = build(kind, bert).eval()
    chars, counts, bigrams = sentences(*lengths, width=max(lengths) + 2)
    together = encoder(chars, counts, bigrams)
    assert together.shape[:2] == chars.shape
    for b, n in enumerate(lengths):
        alone = encoder(chars[b : b + 1, : n + 1], counts[b : b + 1], bigrams[b : b + 1, : n + 1])
        torch.testing.assert_close(together[b, : n + 1], alone[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_position_sees_the_whole_sentence(kind: str, bert: str) -> None:
    encoder = build(kind, bert).eval()
    chars, lengths, bigrams = sentences(6)
    plain = encoder(chars, lengths, bigrams)
    for changed in (1, 6):
        other = chars.clone()
        other[0, changed] = 4 + other[0, changed] % 20
        difference = (encoder(other, lengths, bigrams) - plain).abs().amax(-1)[0]
        assert (difference > 0).all(), "both directions, ROOT included"


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_the_embeddings(kind: str, bert: str) -> None:
    encoder = build(kind, bert, dropout=0.0, embedding_dropout=0.0)
    chars, lengths, bigrams = sentences(5, 3)
    encoder(chars, lengths, bigrams)[0, 1, 0].backward()
    if isinstance(encoder, Bert):
        tables = [(encoder.core.model.get_input_embeddings(), chars)]
    else:
        tables = [(encoder.embeddings.chars, chars), (encoder.embeddings.bigrams, bigrams)]
    for table, ids in tables:
        touched = table.weight.grad.abs().sum(-1) > 0
        assert touched[ids[0, :6]].all()
    # The loss only uses the first sentence, so characters of the second one get no gradient.
    only_second = set(chars[1].tolist()) - set(chars[0].tolist()) - {3}
    grad = tables[0][0].weight.grad
    assert all(grad[number].abs().sum() == 0 for number in only_second)


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_random_and_evaluation_is_not(kind: str, bert: str) -> None:
    encoder = build(kind, bert)
    inputs = sentences(8, 5)
    assert not torch.equal(encoder(*inputs), encoder(*inputs))
    encoder.eval()
    assert torch.equal(encoder(*inputs), encoder(*inputs))


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_needs_no_pretrained_weights(kind: str, bert: str) -> None:
    first = build(kind, bert).eval()
    stored = json.loads(json.dumps(first.hf_config))
    vocabulary = hf_vocabulary(bert) if kind == "bert" else VOCABULARY
    config = tiny(kind, "/no/such/folder" if kind == "bert" else "")
    second = build_encoder(config, vocabulary, BIGRAMS, hf_config=stored).eval()
    inputs = sentences(6, 2)
    assert not torch.allclose(first(*inputs), second(*inputs))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(*inputs), second(*inputs))


@pytest.mark.parametrize("kind", [*KINDS, "mixed bert"])
def test_onnx_gives_the_same_encodings(kind: str, bert: str, tmp_path: Path) -> None:
    switches = {"mixed_layers": 2, "output_dropout": 0.5, "separator": False}
    encoder = build(kind.split()[-1], bert, **(switches if kind == "mixed bert" else {})).eval()
    if isinstance(encoder, Bert) and encoder.core.mix is not None:
        torch.nn.init.normal_(encoder.core.mix.weights)
    path = str(tmp_path / "encoder.onnx")
    rows = {0: "batch", 1: "n"}
    with warnings.catch_warnings():
        # This exporter is deprecated, but the new one fixes the length of an LSTM (pytorch 191855). What it traces
        # inside torch's LSTM and transformers does not depend on the example.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            encoder,
            sentences(7, 2, 5),
            path,
            dynamo=False,
            opset_version=17,
            input_names=["chars", "lengths", "bigrams"],
            output_names=["encoded"],
            dynamic_axes={"chars": rows, "bigrams": rows, "lengths": {0: "batch"}, "encoded": rows},
        )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = {node.name for node in session.get_inputs()}
    for lengths in ((7, 2, 5), (1,), (1, 1, 1, 1), (30,), (30, 1), (2,) * 9):
        inputs = dict(zip(("chars", "lengths", "bigrams"), sentences(*lengths), strict=True))
        (encoded,) = session.run(None, {k: v.numpy() for k, v in inputs.items() if k in names})
        expected = encoder(**inputs).detach().numpy()
        for b, n in enumerate(lengths):
            np.testing.assert_allclose(encoded[b, : n + 1], expected[b, : n + 1], atol=1e-5)


# --- learning from scratch ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bilstm", "transformer"])
def test_bigrams_are_optional(kind: str) -> None:
    encoder = build_encoder(tiny(kind, bigram_width=0), VOCABULARY, None).eval()
    chars, lengths, bigrams = sentences(5, 3)
    assert torch.equal(encoder(chars, lengths), encoder(chars, lengths, bigrams))
    with pytest.raises(ConfigError, match="bigram_width"):
        build_encoder(tiny(kind), VOCABULARY, None)
    with pytest.raises(ValueError, match="bigrams"):
        build_encoder(tiny(kind), VOCABULARY, BIGRAMS)(chars, lengths)


def test_characters_are_forgotten_in_training_only() -> None:
    embeddings = Embeddings(tiny("bilstm", character_dropout=0.5, embedding_dropout=0.0), VOCABULARY, BIGRAMS)
    chars, _, bigrams = sentences(400)
    unknown = embeddings.chars.weight[VOCABULARY.unknown]
    unknown_pair = embeddings.bigrams.weight[BIGRAMS.unknown]

    def forgotten() -> tuple[Tensor, Tensor]:
        by_char, by_pair = embeddings(chars, bigrams)[0].split([8, 6], dim=-1)
        return (by_char == unknown).all(-1), (by_pair == unknown_pair).all(-1)

    lost, lost_pairs = forgotten()
    assert 0.4 < lost[1:].float().mean() < 0.6
    assert not lost[0]
    assert torch.equal(lost_pairs[1:], lost[1:] | lost[:-1])
    embeddings.eval()
    assert not any(part.any() for part in forgotten())


def test_dropped_embeddings_are_made_up_for() -> None:
    parts = [torch.ones(1, 5000, 2), torch.ones(1, 5000, 3)]
    left, right = (part[0, :, 0] for part in drop_embeddings(parts, 0.3))
    pairs = set(zip(left.tolist(), right.tolist(), strict=True))
    assert pairs == {(1.0, 1.0), (2.0, 0.0), (0.0, 2.0), (0.0, 0.0)}
    assert ((left == 0).float().mean() - 0.3).abs() < 0.03
    dropped = drop_embeddings(parts, 0.3)[1][0]
    assert torch.equal(dropped[:, 0], dropped[:, 2]), "an embedding is dropped as a whole"


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_features_one_by_one_and_their_mean(rate: float) -> None:
    layer = Dropout(rate)
    x = torch.full((31, 7, 1001), 3.0, requires_grad=True)  # a number of features that four does not divide
    torch.manual_seed(1)
    dropped = layer(x)
    kept = dropped != 0
    assert torch.allclose(dropped[kept], torch.tensor(3 / (1 - rate)))
    # Each of the four that share a random number has its chance, within five standard deviations.
    for k in range(4):
        share = kept.flatten()[k::4].float()
        assert abs(float(share.mean()) - (1 - rate)) < 5 * (rate * (1 - rate) / len(share)) ** 0.5
    # Neighbours, which come from one random number, do not depend on each other.
    pairs = (kept[..., :-1] & kept[..., 1:]).float().mean()
    assert float(pairs) == pytest.approx((1 - rate) ** 2, abs=0.01)
    dropped.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad != 0, kept)
    torch.manual_seed(1)
    assert torch.equal(layer(x), dropped)
    assert layer.eval()(x) is x


def test_shared_dropout_is_the_same_at_every_position() -> None:
    dropped = SharedDropout(0.5)(torch.ones(3, 7, 100))
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(dropped[0], dropped[1])


def test_lstm_starts_orthogonal_with_open_forget_gates() -> None:
    encoder = build_encoder(tiny("bilstm"), VOCABULARY, BIGRAMS)
    assert isinstance(encoder, BiLSTM)
    for lstm in (*encoder.recurrence.forwards, *encoder.recurrence.backwards):
        for gate in lstm.weight_hh_l0.chunk(4):
            torch.testing.assert_close(gate @ gate.T, torch.eye(12), atol=1e-5, rtol=0)
        bias = (lstm.bias_ih_l0 + lstm.bias_hh_l0).chunk(4)
        assert [gate.unique().tolist() for gate in bias] == [[0], [1], [0], [0]]


def test_bilstm_equals_torch_with_packed_sequences() -> None:
    encoder = build_encoder(tiny("bilstm", layers=1), VOCABULARY, BIGRAMS).eval()
    assert isinstance(encoder, BiLSTM)
    twin = torch.nn.LSTM(14, 12, batch_first=True, bidirectional=True)
    weights = encoder.recurrence.forwards[0].state_dict()
    weights |= {
        f"{name}_reverse": weight for name, weight in encoder.recurrence.backwards[0].state_dict().items()
    }
    twin.load_state_dict(weights)
    chars, lengths, bigrams = sentences(8, 1, 5)
    embedded = encoder.embeddings(chars, bigrams)
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        embedded, lengths + 1, batch_first=True, enforce_sorted=False
    )
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(twin(packed)[0], batch_first=True)
    inside = torch.arange(9) <= lengths[:, None]
    torch.testing.assert_close(encoder(chars, lengths, bigrams)[inside], expected[inside])


def test_distances_far_apart_share_a_bucket() -> None:
    distance = torch.arange(-1000, 1001)
    buckets = distance_buckets(distance).tolist()
    assert sorted(set(buckets)) == list(range(max(buckets) + 1))
    ahead = buckets[1000:]
    assert ahead == sorted(ahead)
    assert ahead[:17] == list(range(17))
    assert len(set(ahead[_FAR:])) == 1
    assert ahead[_FAR] != ahead[_FAR - 1]
    assert not set(ahead) & set(buckets[:1000]), "before and after are told apart"


def test_transformer_reads_sentences_longer_than_any_trained_on() -> None:
    encoder = build_encoder(tiny("transformer"), VOCABULARY, BIGRAMS).eval()
    assert encoder(*sentences(700, 384)).isfinite().all()
    with pytest.raises(ConfigError, match="multiple of heads"):
        build_encoder(tiny("transformer", hidden=13), VOCABULARY, BIGRAMS)


def test_transformer_knows_positions() -> None:
    encoder = build_encoder(tiny("transformer", layers=1), VOCABULARY, BIGRAMS).eval()
    assert isinstance(encoder, Transformer)
    chars = torch.tensor([[2, 7, 8, 9]])
    swapped = torch.tensor([[2, 8, 7, 9]])
    same = torch.full_like(chars, 5)
    torch.nn.init.normal_(encoder.blocks[0].distances.weight)
    one, other = (encoder(ids, torch.tensor([3]), same)[0, 3] for ids in (chars, swapped))
    assert not torch.allclose(one, other, atol=1e-4)


def test_a_recurrent_layer_on_top() -> None:
    base = build_encoder(tiny("transformer"), VOCABULARY, BIGRAMS).eval()
    topped = build_encoder(tiny("transformer", top=5), VOCABULARY, BIGRAMS, weights=base.state_dict()).eval()
    assert isinstance(topped, Topped)
    chars, lengths, bigrams = sentences(7, 4)
    encoded = topped(chars, lengths, bigrams)
    assert encoded.shape == (2, 8, topped.width) == (2, 8, 10)
    torch.testing.assert_close(topped.base(chars, lengths, bigrams), base(chars, lengths, bigrams))
    alone = topped(chars[1:, :5], lengths[1:], bigrams[1:, :5])
    torch.testing.assert_close(encoded[1, :5], alone[0])


def test_a_recurrent_layer_on_a_bert(bert: str) -> None:
    topped = build("bert", bert, top=5).eval()
    assert isinstance(topped, Bert)
    assert topped.top is not None
    chars, lengths, _ = sentences(7, 4)
    encoded = topped(chars, lengths)
    assert encoded.shape == (2, 8, topped.width) == (2, 8, 10)
    torch.testing.assert_close(encoded, topped.top(topped.core(chars, lengths), lengths))
    alone = topped(chars[1:, :5], lengths[1:])
    torch.testing.assert_close(encoded[1, :5], alone[0])


def test_weights_to_start_from() -> None:
    first = build_encoder(tiny("bilstm"), VOCABULARY, BIGRAMS).eval()
    weights = first.state_dict()
    second = build_encoder(tiny("bilstm"), VOCABULARY, BIGRAMS, weights=weights).eval()
    inputs = sentences(4)
    assert torch.equal(first(*inputs), second(*inputs))
    with pytest.raises(ConfigError, match="do not match"):
        build_encoder(tiny("bilstm", hidden=8), VOCABULARY, BIGRAMS, weights=weights)


# --- BERT -----------------------------------------------------------------------------------------------------


def test_bert_vocabulary(bert: str) -> None:
    vocabulary = hf_vocabulary(bert)
    assert vocabulary.symbols[:5] == tuple(SPECIAL)
    assert (vocabulary.pad, vocabulary.unknown, vocabulary.bos, vocabulary.eos) == (0, 1, 2, 3)
    assert vocabulary.lowercase
    assert vocabulary.ids(["上", "海", "A", "b", "龘"]) == [7, 8, 5, 6, 1]


@pytest.mark.parametrize(("chars", "lowercase"), [("a", True), ("aA", False)])
def test_capitals_of_a_tokeniser_that_keeps_them(tmp_path: Path, chars: str, lowercase: bool) -> None:
    write_vocabulary(tmp_path, chars, do_lower_case=False)
    BertConfig().save_pretrained(tmp_path)
    assert hf_vocabulary(str(tmp_path)).lowercase is lowercase


def test_bert_reads_what_its_own_tokeniser_gives(bert: str) -> None:
    """Compute the expected output independently: the tokeniser's own tokens and padding, through the plain model."""
    from transformers import AutoTokenizer

    encoder = build("bert", bert).eval()
    texts = ["上海计划发展金融业", "通知", "中国人民"]
    batch = AutoTokenizer.from_pretrained(bert)(texts, padding=True, return_tensors="pt")
    expected = BertModel.from_pretrained(bert).eval()(**batch).last_hidden_state
    vocabulary = hf_vocabulary(bert)
    chars = torch.zeros(3, 10, dtype=torch.long)
    for row, text in zip(chars, texts, strict=True):
        row[: len(text) + 1] = torch.tensor([vocabulary.bos, *vocabulary.ids(list(text))])
    encoded = encoder(chars, torch.tensor([9, 2, 4]))
    for b, text in enumerate(texts):
        n = len(text) + 1
        torch.testing.assert_close(encoded[b, :n], expected[b, :n], atol=1e-5, rtol=1e-5)


def test_windows_are_plain_passes_over_parts_of_the_sentence(bert: str) -> None:
    encoder = build("bert", bert).eval()
    assert isinstance(encoder, Bert)
    assert encoder.longest == POSITIONS - 2
    chars, lengths, _ = sentences(45)
    encoded = encoder(chars, lengths)[0]
    head = encoder.core(chars[:, :31], torch.tensor([30]))[0]
    tail = encoder.core(torch.cat((chars[:, :1], chars[:, 16:]), 1), torch.tensor([30]))[0]
    # Windows 1..30 and 16..45 share 16..30; 23 is the middle.
    torch.testing.assert_close(encoded[:23], head[:23], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(encoded[23:], tail[8:], atol=1e-5, rtol=1e-5)


def test_gradients_pass_through_windows(bert: str) -> None:
    encoder = build("bert", bert)
    assert isinstance(encoder, Bert)
    chars, lengths, _ = sentences(100)
    chars[0, 1:] = torch.arange(100) % 25 + 7
    encoder(chars, lengths)[0, 100, 0].backward()
    assert encoder.core.model.get_input_embeddings().weight.grad[chars[0, 100]].abs().sum() > 0


def test_bert_keeps_its_own_dropout_and_single_precision(bert: str, tmp_path: Path) -> None:
    encoder = build("bert", bert, dropout=0.9)
    rates = {module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)}
    assert rates == {0.1}
    BertModel.from_pretrained(bert).half().save_pretrained(tmp_path)
    half = build_encoder(tiny("bert", str(tmp_path)), hf_vocabulary(bert), None)
    assert {parameter.dtype for parameter in half.parameters()} == {torch.float32}


def test_the_last_layers_of_a_bert_are_mixed(bert: str) -> None:
    encoder = build("bert", bert, mixed_layers=2).eval()
    assert isinstance(encoder, Bert)
    assert encoder.core.mix is not None
    with torch.no_grad():
        encoder.core.mix.weights.copy_(torch.tensor([0.0, 1.5]))
        encoder.core.mix.scale.fill_(2.0)
    chars, lengths, _ = sentences(6)
    tokens = torch.cat((chars, torch.tensor([[3]])), dim=1)
    states = BertModel.from_pretrained(bert).eval()(tokens, output_hidden_states=True).hidden_states
    share = 1 / (1 + np.exp(1.5))
    expected = 2 * (share * states[-2] + (1 - share) * states[-1])
    torch.testing.assert_close(encoder(chars, lengths), expected[:, :-1], atol=1e-5, rtol=1e-5)
    encoder(chars, lengths).square().sum().backward()
    assert encoder.core.mix.weights.grad is not None
    assert encoder.core.mix.weights.grad.abs().sum() > 0


def test_the_first_layers_of_a_bert_can_be_all_of_it(bert: str) -> None:
    encoder = build("bert", bert, first_layers=1).eval()
    assert isinstance(encoder, Bert)
    assert encoder.hf_config["num_hidden_layers"] == 1  # so a stored model is built again with as many
    chars, lengths, _ = sentences(6)
    tokens = torch.cat((chars, torch.tensor([[3]])), dim=1)
    states = BertModel.from_pretrained(bert).eval()(tokens, output_hidden_states=True).hidden_states
    torch.testing.assert_close(encoder(chars, lengths), states[1][:, :-1], atol=1e-5, rtol=1e-5)


def test_a_bert_without_separator_reads_the_characters_only(bert: str) -> None:
    encoder = build("bert", bert, separator=False).eval()
    chars, lengths, _ = sentences(6, 3)
    encoded = encoder(chars, lengths)
    model = BertModel.from_pretrained(bert).eval()
    for b, n in enumerate((6, 3)):
        expected = model(chars[b : b + 1, : n + 1]).last_hidden_state[0]
        torch.testing.assert_close(encoded[b, : n + 1], expected, atol=1e-5, rtol=1e-5)
    with_separator = build("bert", bert).eval()(chars, lengths)
    assert not torch.allclose(encoded[0], with_separator[0], atol=1e-3)


def test_dropout_after_a_bert(bert: str) -> None:
    encoder = build("bert", bert, output_dropout=0.5)
    inputs = sentences(20, 20, 20)
    assert 0.35 < (encoder(*inputs) == 0).float().mean() < 0.65
    assert (encoder.eval()(*inputs) != 0).all()
    assert (build("bert", bert)(*inputs) != 0).all()


def test_other_models_than_bert(tmp_path: Path) -> None:
    vocabulary = Vocabulary((*SPECIAL, *CHARS), pad=0, unknown=1, bos=2, eos=3)
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    roberta = RobertaConfig(vocab_size=40, max_position_embeddings=19, pad_token_id=0, **shape)
    distil = DistilBertConfig(
        vocab_size=40, max_position_embeddings=18, dim=8, n_layers=1, n_heads=2, hidden_dim=8
    )
    for name, model in (("roberta", RobertaModel(roberta)), ("distil", DistilBertModel(distil))):
        model.save_pretrained(tmp_path / name)
        encoder = build_encoder(tiny("bert", str(tmp_path / name)), vocabulary, None).eval()
        assert encoder.longest == 16
        assert encoder(*sentences(16, 40)).shape == (2, 41, 8)
        again = build_encoder(tiny("bert"), vocabulary, None, hf_config=encoder.hf_config)
        again.load_state_dict(encoder.state_dict())


def test_what_is_wrong_with_a_bert_is_said(bert: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        build_encoder(tiny("bert"), VOCABULARY, None)
    with pytest.raises(ConfigError, match="cannot load"):
        build_encoder(tiny("bert", str(tmp_path)), VOCABULARY, None)
    with pytest.raises(ConfigError, match="window_overlap"):
        build("bert", bert, window_overlap=30)
    with pytest.raises(ConfigError, match=r"mixed_layers: this model has 2 layers, not 3"):
        build("bert", bert, mixed_layers=3)
    with pytest.raises(ConfigError, match=r"first_layers: this model has 2 layers, not 3"):
        build("bert", bert, first_layers=3)
    large = Vocabulary.build({chr(0x4E00 + i): 1 for i in range(100)})
    with pytest.raises(ConfigError, match="embeddings"):
        build_encoder(tiny("bert", bert), large, None)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Make every look-up of a host fail, and record it."""
    asked: list[object] = []

    def look_up(host: object, *_: object, **__: object) -> NoReturn:
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


@pytest.mark.parametrize("name", ["no-such-folder", "encoders/samll", "./bert", "bert-base-chinese"])
def test_a_mistyped_folder_fails_without_the_network(no_network: list[object], name: str) -> None:
    with pytest.raises(ConfigError, match=f"no such folder: {re.escape(name)} .*hub:NAME"):
        hf_vocabulary(name)
    with pytest.raises(ConfigError, match="no such folder"):
        build_encoder(tiny("bert", name), VOCABULARY, None)
    assert no_network == []


def test_the_hub_is_asked_by_its_own_name_and_fails_soon(
    no_network: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    began = time.monotonic()
    with pytest.raises(ConfigError, match="hub:zishu/none: the hub cannot be reached"):
        hf_vocabulary("hub:zishu/none")
    assert time.monotonic() - began < 10
    assert no_network


def test_weights_that_could_run_code_are_not_read(bert: str, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").unlink()
    torch.save(BertModel.from_pretrained(bert).state_dict(), tmp_path / "bert" / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"weights are in pytorch_model\.bin, which could run code"):
        build_encoder(tiny("bert", str(tmp_path / "bert")), hf_vocabulary(bert), None)


def test_code_of_a_model_is_not_run(bert: str, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "bert")
    auto_map = {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}
    change_config(tmp_path / "bert", model_type="mine", auto_map=auto_map)
    (tmp_path / "bert" / "mine.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="cannot load"):
        build_encoder(tiny("bert", str(tmp_path / "bert")), hf_vocabulary(bert), None)
    assert not (tmp_path / "ran").exists()


def change_config(folder: Path, **values: object) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | values), encoding="utf-8")


@pytest.mark.parametrize(
    "values",
    [
        {"hidden_size": "x"},
        {"hidden_size": -4},
        {"hidden_size": 10**15},
        {"num_attention_heads": 0},
        {"vocab_size": 10**13},
        {"model_type": [1]},
        {"hidden_act": "\x1b[31m"},
        {"dtype": "evil", "torch_dtype": "evil"},  # the old name, too
    ],
    ids=str,
)
def test_odd_settings_of_an_encoder_are_one_error(
    bert: str, tmp_path: Path, values: dict[str, object]
) -> None:
    folder = tmp_path / "bert"
    shutil.copytree(bert, folder)
    change_config(folder, **values)
    with pytest.raises(ConfigError, match="cannot load"):
        build_encoder(tiny("bert", str(folder)), hf_vocabulary(bert), None)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", b""),
        ("model.safetensors", b"junk" * 100),
        ("config.json", b"[" * 100_000 + b"]" * 100_000),
        ("config.json", b"null"),
        ("config.json", b"[1]"),
        ("tokenizer_config.json", b"[" * 100_000 + b"]" * 100_000),
        ("tokenizer_config.json", b"null"),
        ("tokenizer.json", b'{"model": {"type": "evil"}}'),
        ("vocab.txt", b"\xff\xfe\x00"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_damaged_files_of_an_encoder_are_one_error(
    bert: str, tmp_path: Path, name: str, content: bytes
) -> None:
    folder = tmp_path / "bert"
    shutil.copytree(bert, folder)
    (folder / name).write_bytes(content)
    with pytest.raises(ConfigError, match="cannot load"):
        build_encoder(tiny("bert", str(folder)), hf_vocabulary(str(folder)), None)


# --- windows --------------------------------------------------------------------------------------------------


@given(st.integers(1, 90), st.integers(1, 20), st.data())
def test_spans_cover_overlap_and_are_full(length: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    windows = spans(length, size, overlap)
    assert windows[0][0] == 1
    assert windows[-1][1] == length + 1
    if len(windows) > 1:
        assert all(stop - start == size for start, stop in windows)
        assert all(left[1] - right[0] >= overlap and left[0] < right[0] for left, right in pairwise(windows))
        assert (len(windows) - 1) * (size - overlap) + overlap < length, "no window too many"
    else:
        assert length <= size


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(1, 20), st.data())
def test_each_character_comes_from_where_it_is_farthest_from_the_edges(
    lengths: list[int], size: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    plan = plan_windows(lengths, size, overlap)
    assert plan.position.shape == (len(plan.sentence), 1 + plan.lengths.max())
    for b, n in enumerate(lengths):
        # The value at each position restores the sentence, every position once.
        assert plan.position[plan.window[b], plan.place[b]][: n + 1].tolist() == list(range(n + 1))
        assert (plan.sentence[plan.window[b]] == b).all()
        assert plan.place[b, 0] == 0
        for position in range(1, n + 1):
            room = {
                w: min(position - plan.position[w, 1], plan.position[w, plan.lengths[w]] - position)
                for w in np.flatnonzero(plan.sentence == b)
                if plan.position[w, 1] <= position <= plan.position[w, plan.lengths[w]]
            }
            assert room[plan.window[b, position]] == max(room.values())


def test_windows_that_cannot_be() -> None:
    for size, overlap in ((5, 5), (0, 0), (4, -1)):
        with pytest.raises(InputError, match="overlap"):
            plan_windows([10], size, overlap)
