"""Train in several processes: shares of batches, sums of gradients, and real launches of two processes (gloo)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

import tiny
from zishu import cli
from zishu.errors import ConfigError, ZishuError
from zishu.train.checkpoint import load_checkpoint
from zishu.train.config import config_from_dict
from zishu.train.data import TrainingTree, make_example
from zishu.train.distributed import ALONE, Group, _launched
from zishu.train.initial import new_network

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENCODERS = {
    "bilstm": {"kind": "bilstm", "char_width": 16, "bigram_width": 8, "bigram_min_count": 1, "layers": 1, "hidden": 16},
    "transformer": {"kind": "transformer", "char_width": 16, "bigram_width": 0, "layers": 1, "hidden": 16,
                    "heads": 2, "feed_forward": 32},
}  # fmt: skip


# --- shares -------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 100), min_size=1), st.integers(1, 5))
def test_the_shares_of_a_batch_make_up_the_batch(lengths: list[int], size: int) -> None:
    batch = np.random.default_rng(0).permutation(len(lengths))[: len(lengths) // 2 + 1]
    batch = batch.tolist()
    shares = [Group(rank, size).shard(batch, [lengths[k] for k in batch]) for rank in range(size)]
    assert sorted(example for share in shares for example in share) == sorted(batch)
    # The order of the batch is kept, so that a group of one trains exactly as without a group.
    assert all(list(share) == [example for example in batch if example in share] for share in shares)


@pytest.mark.parametrize("task", ["parse", "parse-words", "segment"])
@pytest.mark.parametrize("size", [2, 7])  # seven processes and five sentences: two have nothing to do
def test_gradients_of_the_shares_add_up_to_those_of_the_batch(task: str, size: int) -> None:
    config = config_from_dict(
        {
            "name": "tiny",
            "task": task,
            "data": {"train": "train.conllu", "dev": "dev.conllu"},
            "encoder": {**ENCODERS["bilstm"], "dropout": 0.0, "embedding_dropout": 0.0},
            "scorer": {"arc": 16, "label": 8, "dropout": 0.0},
        }
    )
    torch.manual_seed(0)
    treebank = [*map(TrainingTree, tiny.TREES)]
    network = new_network(config, treebank)
    examples = [make_example(item, network, config.structure) for item in treebank]
    lengths = [example.length for example in examples]
    everything = network.loss(examples)
    everything.backward()
    expected = [weight.grad.clone() for weight in network.parameters()]
    network.zero_grad()
    total = torch.zeros(())
    for rank in range(size):
        share = Group(rank, size).shard(examples, lengths)
        if share:
            part = sum(e.units for e in share) / sum(e.units for e in examples)
            loss = network.loss(share) * part
            loss.backward()  # adds to the gradients
            total = total + loss.detach()
    assert float(total) == pytest.approx(everything.item(), rel=1e-5)
    for weight, gradient in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-4, atol=1e-6)


# --- a group ------------------------------------------------------------------------------------------------------


def test_a_group_of_one_changes_nothing() -> None:
    weight = torch.ones(3, requires_grad=True)
    (weight * 2).sum().backward()
    gradient = weight.grad
    assert ALONE.is_writer
    assert ALONE.reduce([weight], torch.tensor(0.5, dtype=torch.float64), False) == (0.5, False)
    assert weight.grad is gradient
    assert ALONE.tell(3.0) == 3.0
    batch = [4, 2]
    assert ALONE.shard(batch, [1, 1]) is batch
    state = torch.get_rng_state()
    ALONE.seed(0, 0)
    ALONE.spread([weight])
    ALONE.barrier()
    assert torch.equal(torch.get_rng_state(), state)


def test_random_numbers_follow_from_seed_step_and_rank_except_the_writers() -> None:
    def draw(rank: int, step: int) -> float:
        Group(rank, 3).seed(0, step)
        return float(torch.rand(()))

    first = draw(1, 5)
    assert draw(2, 5) != first
    assert draw(1, 6) != first
    torch.rand(100)
    assert draw(1, 5) == first
    assert draw(0, 5) != draw(0, 5)


def test_devices_of_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(3, 4, local_rank=1, local_size=2)
    gpus = 2
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert group.device("") == group.device("cuda") == torch.device("cuda", 1)
    assert group.device("cpu") == torch.device("cpu")
    assert ALONE.device("") == torch.device("cuda")
    assert ALONE.device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match="not cuda:0"):
        group.device("cuda:0")
    gpus = 1  # too few: all compute on the CPU, unless a GPU was asked for
    assert group.device("") == torch.device("cpu")
    with pytest.raises(ConfigError, match="not 2 GPUs"):
        group.device("cuda")
    with pytest.raises(ConfigError, match="quantum"):
        group.device("quantum")


def test_what_launchers_tell() -> None:
    assert _launched({}) == ALONE
    assert _launched({"RANK": "0", "WORLD_SIZE": "1"}) == ALONE
    assert _launched({"RANK": "1", "WORLD_SIZE": "2"}) == Group(1, 2, 1, 2)
    told = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert _launched(told) == Group(5, 8, 1, 4)
    with pytest.raises(ZishuError, match="WORLD_SIZE=two"):
        _launched({"RANK": "0", "WORLD_SIZE": "two"})


# --- launches -----------------------------------------------------------------------------------------------------

_LAUNCH = [
    sys.executable,
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node",
    "2",
    "-m",
    "zishu",
]
_SECONDS = 600  # for a launch on a busy machine

CONFIG = """
name = "tiny"
[data]
train = "data.conllu"
dev = "data.conllu"
[encoder]
{encoder}
dropout = 0.0
embedding_dropout = 0.0
[scorer]
arc = 16
label = 8
dropout = 0.0
[optimiser]
epochs = {epochs}
batch_chars = {batch_chars}
learning_rate = 0.01
averaging = 0.9
# Large: or rounding errors, where a gradient should be 0, would be scaled up to whole steps.
eps = 1e-3
"""


@pytest.fixture
def prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that writes a treebank and a configuration into a new current directory."""

    def write(*, encoder: str = "bilstm", epochs: int = 6, batch_chars: int = 40) -> None:
        tiny.write(Path("data.conllu"))
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in ENCODERS[encoder].items())
        text = CONFIG.format(encoder=lines, epochs=epochs, batch_chars=batch_chars)
        Path("tiny.toml").write_text(text, encoding="utf-8")

    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield write
    torch.set_num_threads(threads)


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start `zishu train` in two processes, with a process group of their own for signals."""
    command = [*_LAUNCH, "train", "tiny.toml", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def launch(*arguments: str) -> tuple[int, str, str]:
    """Run `zishu train` in two processes; return exit code, standard output, standard error."""
    process = start(*arguments)
    try:
        stdout, stderr = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return process.returncode, stdout, stderr


@contextmanager
def when_written(path: Path, action: Callable[[], Any]) -> Iterator[None]:
    """Call a function as soon as a file has a line."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            if path.exists() and "\n" in path.read_text(encoding="utf-8"):
                action()
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def assert_same_training(expected: Path, actual: Path) -> None:
    """Compare two finished runs: what they wrote, their curves and their weights."""
    files = [sorted(p.relative_to(run).as_posix() for p in run.rglob("*")) for run in (expected, actual)]
    assert files[0] == files[1]
    curves = [
        [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        for run in (expected, actual)
    ]
    for one, other in zip(*curves, strict=True):
        assert (one["epoch"], one["step"]) == (other["epoch"], other["step"])
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
    weights = [load_file(run / "last.safetensors") for run in (expected, actual)]
    assert weights[0].keys() == weights[1].keys()
    for name in weights[0]:
        if not name.startswith("random."):
            torch.testing.assert_close(weights[1][name], weights[0][name], rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.slow
# With 12 characters a batch is one sentence, and one process has nothing to do in every step.
@pytest.mark.parametrize(("encoder", "batch_chars"), [("bilstm", 40), ("transformer", 12)])
def test_two_processes_train_as_one(encoder: str, batch_chars: int, prepare: Callable[..., None]) -> None:
    prepare(encoder=encoder, batch_chars=batch_chars)
    assert cli.run(["train", "tiny.toml", "--directory", "one"]) == 0
    code, out, err = launch("--directory", "two")
    assert code == 0, err
    assert_same_training(Path("one"), Path("two"))
    # Only the writer prints.
    assert out.count("model: two/model") == 1
    assert err.count("tiny, seed 0: 5 sentences") == 1
    assert err.count("epoch 6/6") == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals to oneself")
def test_a_run_goes_on_with_another_number_of_processes(
    prepare: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(epochs=12)
    assert cli.run(["train", "tiny.toml", "--directory", "whole"]) == 0

    # Ctrl-C on a terminal reaches the launcher and all that it started.
    process = start("--directory", "two-one")
    with when_written(Path("two-one/metrics.jsonl"), lambda: os.killpg(process.pid, signal.SIGINT)):
        _, told = process.communicate(timeout=_SECONDS)
    assert process.returncode != 0
    command = "zishu train tiny.toml --directory two-one --resume"
    assert told.count("zishu: interrupted; the run is saved in two-one; to continue") == 1, told
    assert told.count(command) == 1
    assert not Path("two-one/result.json").exists()
    assert cli.run(command.split()[1:]) == 0
    assert_same_training(Path("whole"), Path("two-one"))

    metrics = Path("one-two/metrics.jsonl")
    with when_written(metrics, lambda: os.kill(os.getpid(), signal.SIGINT)):
        assert cli.run(["train", "tiny.toml", "--directory", "one-two"]) == cli.INTERRUPTED
    capsys.readouterr()
    code, _, err = launch("--directory", "one-two", "--resume")
    assert code == 0, err
    assert_same_training(Path("whole"), Path("one-two"))


@pytest.mark.slow
def test_an_error_of_one_process_ends_all(prepare: Callable[..., None]) -> None:
    prepare()
    Path("two").mkdir()
    Path("two/notes.txt").write_text("mine", encoding="utf-8")
    # Only the writer checks the folder; the other process waits for it and must neither hang nor print.
    code, _, err = launch("--directory", "two")
    assert code != 0
    said = [line for line in err.splitlines() if line.startswith("zishu: ")]
    assert said == ["zishu: two: is not empty: use --resume or another --directory, or remove it"]
    assert [path.name for path in Path("two").iterdir()] == ["notes.txt"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the processes under /proc")
def test_a_killed_process_ends_all(prepare: Callable[..., None]) -> None:
    prepare(epochs=1000)
    process = start("--directory", "two")

    def kill_one() -> None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8")
        os.kill(int(children.split()[-1]), signal.SIGKILL)

    with when_written(Path("two/metrics.jsonl"), kill_one):
        process.communicate(timeout=_SECONDS)
    assert process.returncode != 0
    # What the run had saved is whole.
    _, state = load_checkpoint(Path("two/last.safetensors"))
    assert 0 < state["position"]["epoch"] < 1000
