"""Checkpoints: round trips, damage, full disks, kill -9."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from zishu.errors import InputError, ZishuError
from zishu.train import checkpoint
from zishu.train.checkpoint import (
    Interrupted,
    load_checkpoint,
    restore_training,
    save_checkpoint,
    training_state,
    write_atomically,
)

if TYPE_CHECKING:
    from pathlib import Path

STATE: dict[str, Any] = {
    "config": {"name": "x", "optimiser": {"eps": 1e-12}},
    "labels": ["INTRA", "主语", "x\ny"],
    "step": 17,
    "best": float("-inf"),
    "random": {"state": 2**127 + 1},
    "nothing": None,
}


def _tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "model.weight": torch.randn(5, 3, generator=generator),
        "model.transposed": torch.randn(4, 6, generator=generator).t(),
        "model.half": torch.randn(3, generator=generator).to(torch.bfloat16),
        "model.number": torch.tensor(3.5, dtype=torch.float64),
        "model.empty": torch.zeros(0, 4),
        "model.flags": torch.tensor([True, False, True]),
        "random.torch": torch.get_rng_state(),
    }


def _list(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "last.safetensors"


def test_round_trip(path: Path) -> None:
    tensors = _tensors()
    save_checkpoint(path, tensors, STATE)
    loaded, state = load_checkpoint(path)
    assert state == STATE
    assert loaded.keys() == tensors.keys()
    assert load_file(path).keys() == tensors.keys()  # any reader of the format reads it
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)
    assert _list(path.parent) == [path.name]


def test_weights_that_share_memory_and_need_gradients(path: Path) -> None:
    weight = nn.Parameter(torch.arange(6.0).reshape(2, 3))
    save_checkpoint(path, {"a": weight, "b": weight, "row": weight[1]}, {})
    loaded, _ = load_checkpoint(path)
    assert torch.equal(loaded["a"], weight)
    assert torch.equal(loaded["b"], weight)
    assert torch.equal(loaded["row"], weight[1])


def test_what_was_loaded_survives_the_next_save(path: Path) -> None:
    save_checkpoint(path, {"a": torch.ones(1000)}, {})
    loaded, _ = load_checkpoint(path)
    save_checkpoint(path, {"a": torch.zeros(1000)}, {})
    assert torch.equal(loaded["a"], torch.ones(1000))
    loaded["a"] += 1  # and changing it does not reach the file
    assert torch.equal(load_checkpoint(path)[0]["a"], torch.zeros(1000))


def test_random_state_round_trip(path: Path) -> None:
    save_checkpoint(path, {"random.torch": torch.get_rng_state()}, {})
    expected = torch.rand(3)
    torch.set_rng_state(load_checkpoint(path)[0]["random.torch"])
    assert torch.equal(torch.rand(3), expected)


def test_every_truncation_is_an_input_error(path: Path) -> None:
    save_checkpoint(path, _tensors(), STATE)
    whole = path.read_bytes()
    for length in [*range(64), *range(64, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"last\.safetensors: damaged"):
            load_checkpoint(path)


def test_every_changed_byte_is_an_input_error(path: Path) -> None:
    save_checkpoint(path, {"a": torch.arange(10.0)}, STATE)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        with pytest.raises(InputError, match=r"last\.safetensors: "):
            load_checkpoint(path)


def test_other_files_are_input_errors(path: Path) -> None:
    save_file({"a": torch.ones(3)}, path)
    with pytest.raises(InputError, match="not a checkpoint of Zishu"):
        load_checkpoint(path)
    save_file({"a": torch.ones(3)}, path, metadata={"zishu.checkpoint": "99"})
    with pytest.raises(InputError, match="format 99 of checkpoints; this version reads format 1"):
        load_checkpoint(path)
    with pytest.raises(FileNotFoundError):
        load_checkpoint(path.with_name("absent"))


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_previous_checkpoint(
    path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    save_checkpoint(path, {"a": torch.zeros(3)}, {"step": 1})

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint.os, failing, fail)
    with pytest.raises(ZishuError, match=r"last\.safetensors: cannot be saved \(No space left on device\)"):
        save_checkpoint(path, {"a": torch.ones(3)}, {"step": 2})
    with pytest.raises(ZishuError, match="cannot be saved"):
        write_atomically(path.with_name("result.json"), "{}")
    monkeypatch.undo()
    assert load_checkpoint(path)[1] == {"step": 1}
    assert _list(path.parent) == [path.name]


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of processes")
def test_a_file_that_cannot_grow_leaves_the_previous_checkpoint(path: Path) -> None:
    # The system itself refuses to write on, in the middle of the tensors.
    code = """
import resource, signal, sys, torch
from zishu.errors import ZishuError
from zishu.train.checkpoint import load_checkpoint, save_checkpoint
path = sys.argv[1]
save_checkpoint(path, {"a": torch.zeros(1000)}, {"step": 1})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save_checkpoint(path, {"a": torch.ones(1_000_000)}, {"step": 2})
except ZishuError as error:
    print(error)
print(load_checkpoint(path)[1])
"""
    run = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    assert run.stdout.splitlines() == [
        f"{path}: cannot be saved (File too large); the previous file, if any, is unchanged",
        "{'step': 1}",
    ]
    assert _list(path.parent) == [path.name]


def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(
        ZishuError, match=r"x/last\.safetensors: cannot be saved \(No such file or directory\)"
    ):
        save_checkpoint(tmp_path / "x" / "last.safetensors", _tensors(), {})


def test_the_rest_of_a_killed_save_goes_with_the_next_one(path: Path) -> None:
    stale = path.with_name(f".{path.name}.0123456789abcdef.unfinished")
    stale.write_bytes(b"x" * 10_000)
    save_checkpoint(path, _tensors(), STATE)
    assert _list(path.parent) == [path.name]
    assert load_checkpoint(path)[1] == STATE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kill_minus_9_at_any_moment_leaves_a_whole_checkpoint(path: Path) -> None:
    # One process imports torch and forks a child for every kill. Each save has the same number everywhere.
    code = """
import os, random, signal, sys, time, torch
from pathlib import Path
from zishu.train.checkpoint import load_checkpoint, save_checkpoint
torch.set_num_threads(1)
path = Path(sys.argv[1])
moments = random.Random(0)
def save(step):
    tensors = {f"model.{k}": torch.full((250_000,), float(step)) for k in range(4)}
    save_checkpoint(path, tensors, {"step": step})
step, interrupted = 0, 0
save(0)
for _ in range(30):
    child = os.fork()
    if not child:
        while True:
            step += 1
            save(step)
    time.sleep(moments.uniform(0.02, 0.08))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    names = {file.name for file in path.parent.iterdir()}
    unfinished = [name for name in names - {path.name} if name.endswith(".unfinished")]
    assert len(names) - 1 == len(unfinished) <= 1, names
    interrupted += len(unfinished)
    tensors, state = load_checkpoint(path)
    assert state["step"] >= step
    step = state["step"]
    for tensor in tensors.values():
        assert (tensor == step).all()
print(step, interrupted)
"""
    run = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    steps, interrupted = map(int, run.stdout.split())
    # Check the test itself: checkpoints were written, and some kills came in the middle of one.
    assert steps > 0
    assert interrupted > 0


def _network() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def _optimiser(network: nn.Module) -> torch.optim.Optimizer:
    first, *others = network.parameters()
    groups = [{"params": others, "lr": 0.1}, {"params": [first], "lr": 0.01}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.9), eps=1e-12)


def _step(network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    network(torch.arange(6.0).reshape(2, 3)).square().sum().backward()
    optimiser.step()


def test_an_optimiser_goes_on_exactly_where_it_was(path: Path) -> None:
    network = _network()
    optimiser = _optimiser(network)
    for _ in range(3):
        _step(network, optimiser)
    tensors = training_state(network, {"": optimiser})
    assert "optimiser.0.weight.exp_avg_sq" in tensors
    save_checkpoint(path, tensors, {})
    for _ in range(3):
        _step(network, optimiser)

    loaded, _ = load_checkpoint(path)
    again = _network()
    restored = _optimiser(again)
    restore_training(loaded, again, {"": restored})
    for _ in range(3):
        _step(again, restored)
    for weight, other in zip(network.parameters(), again.parameters(), strict=True):
        assert torch.equal(weight, other)


def test_an_optimiser_without_a_step_has_no_state(path: Path) -> None:
    network = _network()
    optimiser = _optimiser(network)
    tensors = training_state(network, {"0.": optimiser})
    assert not any("optimiser" in name for name in tensors)
    restore_training(tensors, network, {"0.": optimiser})
    _step(network, optimiser)


def test_the_state_of_another_model_is_an_input_error() -> None:
    network = _network()
    optimiser = _optimiser(network)
    tensors = training_state(network, {}) | {"optimiser.7.weight.step": torch.tensor(1.0)}
    with pytest.raises(InputError, match=r"optimiser's state for 7\.weight"):
        restore_training(tensors, network, {"": optimiser})


def test_write_atomically(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_atomically(path, "一\n")
    write_atomically(path, "二\n")
    assert path.read_text(encoding="utf-8") == "二\n"
    assert _list(tmp_path) == ["result.json"]


def test_interrupted_says_where_the_run_is(tmp_path: Path) -> None:
    interrupted = Interrupted(tmp_path)
    assert str(interrupted) == f"interrupted; the run is saved in {tmp_path}"
