"""tools/train_systems.py: the systems of the tables differ only in what their names say."""

import argparse
from dataclasses import asdict
from pathlib import Path

import pytest

from project_tools import ROOT, load_tool

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
