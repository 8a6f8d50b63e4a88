"""Model folders from strangers: each error is one clear line, nothing hangs, and no other file is reached."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from zishu import cli, load
from zishu.errors import InputError, printable
from zishu.model.calibration import Calibration, Fit, set_temperatures
from zishu.model.directory import copy_model, write_ensemble
from zishu.model.files import find_model
from zishu.model.operators import ALLOWED, check_network
from zishu.model.runtime import load_model

onnx = pytest.importorskip("onnx")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Copy the bundled model, so that a test can damage it."""
    shutil.copytree(find_model(), tmp_path / "model")
    return tmp_path / "model"


def change(path: Path, **values: Any) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, **values}), encoding="utf-8")


def assert_refused(folder: Path, capsys: pytest.CaptureFixture[str], *parts: str) -> None:
    assert cli.run(["parse", "我来。", "--model", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "internal error" not in error
    assert error.rstrip("\n").isprintable()
    for part in parts:
        assert part in error


@pytest.mark.parametrize(
    "text",
    [
        '"temperature": 1e400',
        '"temperature": 1e-300',
        '"temperature": NaN',
        f'"temperature": 1{"0" * 400}',
        '"label_temperature": 0',
        f'"window": 1{"0" * 30}',
        '"window": 5, "window_overlap": 5',
        '"window": -1',
        '"labels": ["INTRA", "root", ""]',
        '"labels": ["INTRA", "root", "a b"]',
        r'"labels": ["INTRA", "root", "\u001b[31m"]',
        r'"upos": ["NOUN\n"]',
        r'"name": "\u001b]0;title\u0007"',
        r'"task": "\u001b[2J"',
        '"format": true',
        f'"training": {"[" * 60}{"]" * 60}',
        f'"training": {"[" * 100_000}{"]" * 100_000}',
    ],
)
def test_odd_settings(model: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = model / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    for key in re.findall(r'"(\w+)":', text):
        settings.pop(key, None)
    rest = json.dumps(settings)
    path.write_text("{" + text + ", " + rest[1:], encoding="utf-8")
    assert_refused(model, capsys, str(path))
    assert cli.run(["info", str(model)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["config.json", "chars.json", "encoder.onnx"])
def test_what_is_not_a_file(model: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (model / name).unlink()
    os.mkfifo(model / name)
    assert_refused(model, capsys, str(model))
    (model / name).unlink()
    (model / name).symlink_to("/dev/zero")
    assert_refused(model, capsys, str(model))
    (model / name).unlink()
    with (model / name).open("wb") as file:
        file.truncate(1 << 40)  # takes no space
    assert_refused(model, capsys, "is too large")


def spoil(path: Path, change: Callable[[Any], None]) -> None:
    network = onnx.load(path)
    change(network)
    onnx.save(network, path)


def add_loop(network: Any) -> None:
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["again"], ["on"])],
        "body",
        [
            onnx.helper.make_tensor_value_info("round", onnx.TensorProto.INT64, []),
            onnx.helper.make_tensor_value_info("again", onnx.TensorProto.BOOL, []),
        ],
        [onnx.helper.make_tensor_value_info("on", onnx.TensorProto.BOOL, [])],
    )
    network.graph.node.append(onnx.helper.make_node("Loop", ["", ""], [], body=body))


def add_function(network: Any) -> None:
    network.functions.append(onnx.helper.make_function("x", "f", [], [], [], []))


def add_operator(network: Any) -> None:
    network.graph.node.append(onnx.helper.make_node("Run", [], [], domain="evil"))


def keep_outside(network: Any) -> None:
    weights = network.graph.initializer[0]
    weights.data_location = onnx.TensorProto.EXTERNAL
    entry = weights.external_data.add()
    entry.key, entry.value = "location", "../secret"


@pytest.mark.parametrize(
    ("spoiling", "part"),
    [
        (add_loop, "'Loop'"),
        (add_function, "functions"),
        (add_operator, "'evil.Run'"),
        (keep_outside, "weights in another file"),
    ],
)
def test_only_networks_like_ours_are_loaded(
    model: Path, capsys: pytest.CaptureFixture[str], spoiling: Callable[[Any], None], part: str
) -> None:
    network = onnx.load(model / "scorer.onnx")
    spoiling(network)
    (model / "scorer.onnx").write_bytes(network.SerializeToString())
    if spoiling is add_loop:
        # A graph inside an operator is noticed before the operator is.
        part = "a graph inside an operator"
    assert_refused(model, capsys, "scorer.onnx", part)


def test_a_loop_is_no_allowed_operator() -> None:
    assert not ALLOWED & {"Loop", "If", "Scan", "SequenceMap"}


def test_bytes_that_are_no_network(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    random = np.random.default_rng(0)
    for data in (b"", b"\xff" * 100, b"\x3a\xff\xff\xff\xff\x0f", random.bytes(1000)):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"a\.onnx"):
            check_network(path)


def test_scores_that_are_not_numbers(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def ruin(network: Any) -> None:
        for weights in network.graph.initializer:
            array = onnx.numpy_helper.to_array(weights)
            if array.dtype == np.float32 and array.size > 1:
                weights.CopyFrom(onnx.numpy_helper.from_array(np.full_like(array, np.nan), weights.name))

    spoil(model / "labels.onnx", ruin)
    assert_refused(model, capsys, str(model), "not finite numbers")


def test_scores_that_are_not_numbers_for_some_texts_only() -> None:
    networks = load().model.networks
    ends = np.zeros_like(networks.run([["上"]]).label_dep[0])
    assert np.isfinite(networks.score_labels(ends, ends)).all()
    ends[1, 0] = np.nan
    with pytest.raises(InputError, match="not finite numbers"):
        networks.score_labels(ends, ends)


def test_an_ensemble_or_pipeline_inside_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for task, parts in (("ensemble", ("member-1", "member-2")), ("pipeline", ("segmenter", "treecrf"))):
        folder = tmp_path / task
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"format": 1, "task": task}), encoding="utf-8")
        for part in parts:
            (folder / part).symlink_to(folder)
        assert_refused(folder, capsys, "a part of a model cannot be")
        assert cli.run(["info", str(folder)]) == 2
        assert "a part of a model cannot be" in capsys.readouterr().err
    folder = tmp_path / "ensemble"
    for number in range(3, 70):
        (folder / f"member-{number}").symlink_to(folder)
    assert_refused(folder, capsys, "at most 64 members")


def test_a_model_that_takes_too_long(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zishu.model.runtime.PATIENCE", 0.0)
    with pytest.raises(InputError, match="loading took more than 0 seconds"):
        load_model(model)


def test_a_card_does_not_steer_the_terminal(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model / "README.md").write_text("card \x1b[31m\u202e 字\n", encoding="utf-8")
    change(
        model / "config.json", training={"config": {"data": [1]}, "dev": {"\x1b[2J": "\x07"}, "seed": "\x9b"}
    )
    assert cli.run(["info", str(model)]) == 0
    out = capsys.readouterr().out
    assert r"card \x1b[31m\u202e 字" in out
    assert out.replace("\n", "").isprintable()
    assert printable("字\t树\n é") == "字\t树\n é"


def test_only_the_files_of_a_model_are_copied(model: Path, tmp_path: Path) -> None:
    (model / "secret.txt").write_text("secret", encoding="utf-8")
    (model / "more").mkdir()
    (model / "link").symlink_to("/etc/passwd")
    both = tmp_path / "both"
    write_ensemble([model, find_model()], both)
    names = {path.name for path in (both / "member-1").iterdir()}
    assert names == {path.name for path in find_model().iterdir() if path.name != "__pycache__"}
    (model / "chars.json").rename(tmp_path / "elsewhere.json")
    (model / "chars.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(InputError, match=r"chars\.json: is a link and cannot be copied"):
        write_ensemble([model, model], tmp_path / "more")
    assert not (tmp_path / "more").exists()
    with pytest.raises(InputError, match="is a link"):
        copy_model(model, tmp_path / "copy")


def test_a_model_is_not_replaced_by_its_ensemble(model: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(model)
    for output in (model, tmp_path / "link"):
        with pytest.raises(InputError, match="is one of the models to combine"):
            write_ensemble([find_model(), model], output)
    assert load_model(model).settings.task == "parse"


def test_a_calibration_does_not_write_through_links(model: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    (model / ".config.json").symlink_to(victim)
    set_temperatures(model, Calibration(*[Fit(2.0, 1.0, 1.0, 1)] * 3))
    assert victim.read_text(encoding="utf-8") == "precious"
    assert load_model(model).settings.temperature == 2.0
