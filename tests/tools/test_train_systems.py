"""tools/train_systems.py: systems differ only in what their names say; what is finished stays, the rest goes on."""

import argparse
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

import tiny
from project_tools import ROOT, load_tool
from zishu.train import loop
from zishu.train.checkpoint import Interrupted, load_checkpoint

OWN = {"name", "task", "objective", "structure", "run"}  # what a system may have for itself


@pytest.fixture(scope="module")
def tool():
    return load_tool("train_systems")


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    return argparse.Namespace(
        out=tmp_path / "runs", like="configs/fast.toml", encoder="encoders/small", gsd=Path("gsd"),
        structures="words.conll", epochs=3, precision="float32", threads=1,
    )  # fmt: skip


def test_systems_share_everything_else(tool, options):
    first, *others = [asdict(tool.configure(system, 1, options)) for system in tool.SEEDS]
    for other in others:
        differing = {key for key in first if key not in OWN and other[key] != first[key]}
        if other["structure"]["policy"] == "annotated":
            assert other["data"].pop("structures") == "words.conll"
            assert other["data"].items() <= first["data"].items()
            differing.discard("data")
        if other["name"] == "latent-c2f-pseudo-projective":
            assert other["data"] == {**first["data"], "pseudo_projective": True}
            differing.discard("data")
        if other["name"] == "yan-2020":  # its authors learn no parts of speech
            assert other["scorer"] == {**first["scorer"], "upos": False}
            differing.discard("scorer")
        assert not differing, other["name"]


def test_every_system_and_seed_has_its_own_folder(tool, options):
    folders = {tool.configure(system, seed, options).folder for system in tool.SEEDS for seed in (0, 1)}
    assert len(folders) == 2 * len(tool.SEEDS)
    assert options.out / "latent-c2f" / "seed-1" in folders


@pytest.mark.parametrize("place", ["runs", "records"])
def test_a_run_with_a_result_or_a_record_is_finished(tool, options, tmp_path, place):
    config = tool.configure("leftward", 1, options)
    other = tool.configure("leftward", 0, options)
    folder = tmp_path / place / "leftward" / "seed-1"
    folder.mkdir(parents=True)
    assert not tool.is_finished(config, tmp_path / "records")
    (folder / "result.json").write_text("{}", encoding="utf-8")
    assert tool.is_finished(config, tmp_path / "records")
    assert not tool.is_finished(other, tmp_path / "records")
    assert tool.is_finished(config, None) == (place == "runs")


LIKE = """
name = "tiny"
[data]
train = "unused"
dev = "unused"
[encoder]
kind = "bilstm"
char_width = 16
bigram_width = 0
layers = 1
hidden = 16
[scorer]
arc = 16
label = 8
[optimiser]
batch_chars = 20
learning_rate = 0.01
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The arguments for training on a tiny treebank; the caller adds the systems."""
    monkeypatch.chdir(ROOT)
    (tmp_path / "like.toml").write_text(LIKE, encoding="utf-8")
    for part in ("train", "dev", "test"):
        tiny.write(tmp_path / f"{part}.conllu")
    like, gsd = str(tmp_path / "like.toml"), str(tmp_path)
    return ["--like", like, "--encoder", "", "--gsd", gsd, "--epochs", "2", "--threads", "1"]


def run(tool, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["train_systems.py", *map(str, arguments)])
    tool.main()


def test_what_is_finished_or_recorded_is_skipped_and_the_first_seeds_come_first(
    tool, command, tmp_path, monkeypatch
):
    trained = []
    monkeypatch.setattr(tool, "train", lambda config, resume: trained.append((config.folder, resume)))
    out, records = tmp_path / "runs", tmp_path / "records"
    for folder in (out / "leftward" / "seed-0", records / "latent-c2f" / "seed-1"):
        folder.mkdir(parents=True)
        (folder / "result.json").write_text("{}", encoding="utf-8")
    (out / "yan-2020" / "seed-1").mkdir(parents=True)  # begun
    systems = "latent-c2f,leftward,annotated,yan-2020"
    run(tool, monkeypatch, out, *command, "--systems", systems, "--records", records, "--seeds", 3)
    assert trained == [
        (out / "latent-c2f" / "seed-0", False),
        (out / "yan-2020" / "seed-0", False),
        (out / "leftward" / "seed-1", False),
        (out / "yan-2020" / "seed-1", True),
        (out / "latent-c2f" / "seed-2", False),
        (out / "leftward" / "seed-2", False),
    ]  # "annotated" has no annotated words to learn from


def test_an_interrupted_run_goes_on_and_ends_as_an_unbroken_one(tool, command, tmp_path, monkeypatch):
    systems = ("--systems", "leftward,transition", "--seeds", "1")
    run(tool, monkeypatch, tmp_path / "unbroken", *command, *systems)
    set_rates = loop.set_learning_rates

    def interrupt(optimisers, step, steps, **shares):
        if step == 3:
            signal.raise_signal(signal.SIGINT)
        set_rates(optimisers, step, steps, **shares)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "set_learning_rates", interrupt)
        with pytest.raises(Interrupted):
            run(tool, monkeypatch, tmp_path / "runs", *command, *systems)
    assert not (tmp_path / "runs" / "leftward" / "seed-0" / "result.json").exists()
    run(tool, monkeypatch, tmp_path / "runs", *command, *systems)
    for system in ("leftward", "transition"):
        first, second = (tmp_path / out / system / "seed-0" for out in ("unbroken", "runs"))
        assert (first / "result.json").read_text() == (second / "result.json").read_text()
        weights, others = (load_checkpoint(folder / "last.safetensors")[0] for folder in (first, second))
        assert weights.keys() == others.keys()
        assert all(torch.equal(weights[name], others[name]) for name in weights)
    before = (tmp_path / "runs" / "leftward" / "seed-0" / "last.safetensors").stat().st_mtime_ns
    run(tool, monkeypatch, tmp_path / "runs", *command, *systems)  # both are finished
    assert (tmp_path / "runs" / "leftward" / "seed-0" / "last.safetensors").stat().st_mtime_ns == before
