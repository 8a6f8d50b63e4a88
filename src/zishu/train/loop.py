"""Train one system from its configuration: one flat loop, no callbacks.

A run has a folder:

    run.json            settings, program and machine (see `zishu.train.provenance`)
    metrics.jsonl       one line for every epoch: losses, speed, dev scores
    curve.png           the same as a picture
    last.safetensors    everything needed to continue (see `zishu.train.checkpoint`)
    best.safetensors    the same, after the epoch with the best dev score
    evaluation/         counts of every dev and test sentence, for `zishu compare`
    model/              the exported model of the best epoch
    result.json         final scores; it exists when the run is finished

A run depends only on its configuration and seed: batches are a function of seed and epoch, and the random state is part
of the checkpoint. So a run that was killed at any moment and resumed gives the same result as an uninterrupted one.

Several processes may train one network (`zishu.train.distributed`). They do everything below in step, each with its
share of every batch; only the writer touches files, scores, and shows progress.
"""

from __future__ import annotations

import copy
import math
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from torch.optim.swa_utils import get_ema_multi_avg_fn

from zishu import chart
from zishu.errors import ZishuError
from zishu.model.decode import paper_decoding
from zishu.train.checkpoint import (
    BEST,
    Interrupted,
    load_checkpoint,
    restore_training,
    save_checkpoint,
    training_state,
    under,
)
from zishu.train.config import Config, TrainedTask, check_unchanged, config_from_dict
from zishu.train.data import Example, Gold, epoch_batches, make_examples, read_gold, read_treebank
from zishu.train.distributed import ALONE, Group
from zishu.train.evaluation import RESULT, dev_scores, finish, finish_pipeline, network_model, read_result
from zishu.train.initial import build_network, describe_network, load_initial, new_network, read_description
from zishu.train.optimisation import denormals_flushed, set_learning_rates
from zishu.train.provenance import record_run
from zishu.train.report import Progress, append_metrics, cut_metrics, plot_curve
from zishu.train.teacher import Teacher, load_teacher, read_raw_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torch import Tensor

    from zishu.train.network import Network

LAST, METRICS, CURVE = "last.safetensors", "metrics.jsonl", "curve.png"


@dataclass
class _Position:
    """Hold the position of a run: the next batch of an epoch, and sums so far."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss: float = 0.0  # of this epoch, summed over its characters
    chars: int = 0
    seconds: float = 0.0
    best: float = -1.0
    best_epoch: int = -1


@dataclass(eq=False)
class _Run:
    """Hold the state of a run, and what it needs to continue."""

    config: Config
    network: Network
    average: Network | None  # of the network so far; None without averaging
    optimiser: torch.optim.Optimizer
    group: Group
    position: _Position
    teacher: Teacher | None = None
    steps: int = 0  # of the whole run

    @property
    def scored(self) -> Network:
        """Return the network that is scored and exported."""
        return self.average or self.network


@denormals_flushed()
def train(config: Config, *, resume: bool = False, group: Group = ALONE) -> dict[str, float]:
    """Train the configured system in its run folder, export the best epoch's model, return its final scores.

    All processes of a group call this; the writer gets the scores, the others an empty result.
    """
    folder = config.folder
    # The writer decides for all: another process may arrive late, when the folder has changed.
    if group.tell((folder / RESULT).exists()):
        return read_result(folder) if group.is_writer else {}
    if config.task == "pipeline":
        return _train_pipeline(config, group, resume=resume)
    if group.is_writer:
        folder.mkdir(parents=True, exist_ok=True)
    threads = config.run.threads or chart.get_threads()
    torch.set_num_threads(threads)
    chart.set_threads(threads)

    treebank, problems = read_treebank(config)
    dev = read_gold(config.data.dev)
    if group.tell(resume and (folder / LAST).exists()):
        run = _restore(config, group, LAST)
    else:
        torch.manual_seed(config.seed)
        network = load_initial(config, treebank) if config.initial else new_network(config, treebank)
        run = _begin(config, group, network)
    if group.is_writer:
        record_run(config, folder, device=run.network.device.type, processes=group.size)
        cut_metrics(folder / METRICS, epochs=run.position.epoch)
    run.teacher = load_teacher(config, run.network.settings)
    examples = make_examples(config, run.network, treebank, problems)
    examples += read_raw_text(config, run.network.settings.styles)
    console = Console(stderr=True, quiet=not group.is_writer)
    with _interruptible() as interrupted, Progress(config, len(examples), console=console) as progress:
        for problem in problems:
            progress.say(f"left out: {problem}")
        epochs, patience = config.optimiser.epochs, config.run.patience or math.inf
        run.steps = sum(len(epoch_batches(config, examples, epoch)) for epoch in range(epochs))
        while (epoch := run.position.epoch) < epochs and epoch - 1 - run.position.best_epoch < patience:
            _train_epoch(run, epoch_batches(config, examples, epoch), progress, interrupted)
            _end_epoch(run, dev, progress)
    if group.is_writer:
        plot_curve(folder / METRICS, folder / CURVE)
        # The results are those of the best weights.
        run = _restore(config, group, BEST)
        finish(config, run.scored, treebank, dev, best_epoch=run.position.best_epoch + 1)
    group.barrier()
    return read_result(folder) if group.is_writer else {}


def _train_epoch(
    run: _Run, batches: Sequence[Sequence[Example]], progress: Progress, interrupted: threading.Event
) -> None:
    """Run the rest of an epoch, with occasional checkpoints."""
    config, position, network, group = run.config, run.position, run.network, run.group
    progress.start_epoch(position.epoch, len(batches), position.batch)
    network.train()
    group.spread(network.parameters())
    saved = time.monotonic()
    while position.batch < len(batches):
        started = time.monotonic()
        batch = batches[position.batch]
        warmup = config.optimiser.warmup
        set_learning_rates([run.optimiser], position.step, run.steps, warmup=warmup, decay=1 - warmup)
        lengths = [example.length for example in batch]
        loss = _backward(run, batch, group.shard(batch, lengths))
        value, stop = group.reduce(network.parameters(), loss, interrupted.is_set())
        if not math.isfinite(value):
            raise ZishuError(f"the loss is not a number (step {position.step}): lower the learning rate")
        if config.optimiser.clip:
            torch.nn.utils.clip_grad_norm_(network.parameters(), config.optimiser.clip)
        run.optimiser.step()
        _update_average(run)
        chars = sum(lengths)
        position.loss += value * chars
        position.chars += chars
        position.step += 1
        position.batch += 1
        position.seconds += time.monotonic() - started
        progress.advance(value, chars)
        if stop:
            _save(run, LAST)
            # A launcher ends all processes when the first one exits, so none may exit before everything is saved.
            group.barrier()
            raise Interrupted(config.folder)
        if time.monotonic() - saved >= config.run.checkpoint_seconds:
            _save(run, LAST)
            saved = time.monotonic()


def _backward(run: _Run, batch: Sequence[Example], share: Sequence[Example]) -> Tensor | None:
    """Compute the gradients of a share of a batch, and return its contribution to the batch's loss."""
    run.optimiser.zero_grad(set_to_none=True)
    if not share:
        return None
    config, network = run.config, run.network
    run.group.seed(config.seed, run.position.step)
    # The loss is the mean over the share's own units.
    part = sum(example.units for example in share) / sum(example.units for example in batch)
    with torch.autocast(network.device.type, torch.bfloat16, enabled=config.run.precision == "bfloat16"):
        if share[0].raw:
            assert run.teacher is not None
            loss = run.teacher.loss(network, share) * (part * config.teacher.weight)
        else:
            loss = network.loss(share) * part
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


def _end_epoch(run: _Run, dev: Gold, progress: Progress) -> None:
    """Score the dev set after an epoch, keep the best weights, and move on to the next epoch."""
    position = run.position
    scores: dict[str, float] = {}
    if run.group.is_writer:
        model = network_model(run.scored)
        scores = dev_scores(model, dev, decoding=paper_decoding(model.settings))
    line = {
        "epoch": position.epoch + 1,
        "step": position.step,
        "loss": position.loss / position.chars,
        "seconds": round(position.seconds, 1),
        "chars_per_second": round(position.chars / max(position.seconds, 1e-9)),
        "dev": scores,
    }
    score = run.group.tell(scores.get("lf" if run.config.can.parses else "seg", 0.0))
    # If two epochs are equal, the later one has seen more.
    better = score >= position.best
    if better:
        position.best, position.best_epoch = score, position.epoch
    position.epoch += 1
    position.batch, position.loss, position.chars, position.seconds = 0, 0.0, 0, 0.0
    if better:
        _save(run, BEST)
    if run.group.is_writer:
        append_metrics(run.config.folder / METRICS, line)
    _save(run, LAST)
    progress.end_epoch(line, better=better)


def _train_pipeline(config: Config, group: Group, *, resume: bool) -> dict[str, float]:
    """Train a segmenter and a word-level parser separately, and combine them in one model directory."""
    parts: dict[TrainedTask, Path] = {
        "segment": config.folder / "segmenter",
        "parse-words": config.folder / "treecrf",
    }
    for task, place in parts.items():
        run = replace(config.run, directory=str(place))
        part = replace(config, task=task, name=f"{config.name}-{place.name}", run=run)
        train(part, resume=resume, group=group)
    if group.is_writer:
        finish_pipeline(config, segmenter=parts["segment"], treecrf=parts["parse-words"])
    group.barrier()
    return read_result(config.folder) if group.is_writer else {}


def _begin(config: Config, group: Group, network: Network) -> _Run:
    """Return a run before its first step."""
    network.to(group.device(config.run.device))
    average = copy.deepcopy(network) if config.optimiser.averaging else None
    return _Run(config, network, average, _optimiser(config, network), group, _Position())


def _restore(config: Config, group: Group, name: str) -> _Run:
    """Return a run as a checkpoint has it."""
    path = config.folder / name
    tensors, state = load_checkpoint(path)
    before = config_from_dict(state["config"], source=str(path))
    check_unchanged(replace(config, run=before.run), before)  # where and how the program runs may change
    network = build_network(config, *read_description(config, state), hf_config=state["encoder"])
    run = _begin(config, group, network)
    restore_training(tensors, network, {"": run.optimiser})
    if run.average:
        run.average.load_state_dict({**network.state_dict(), **under("average.", tensors)})
    run.position = _Position(**state["position"])
    return run


def _save(run: _Run, name: str) -> None:
    if not run.group.is_writer:
        return
    tensors = training_state(run.network, {"": run.optimiser})
    if run.average:
        tensors |= {f"average.{name}": weight for name, weight in run.average.named_parameters()}
    state = {"config": asdict(run.config), "position": vars(run.position)}
    save_checkpoint(run.config.folder / name, tensors, {**state, **describe_network(run.network)})


def _optimiser(config: Config, network: Network) -> torch.optim.Optimizer:
    """Return AdamW with separate learning rates for a pre-trained encoder (Appendix A.4) and for styles."""
    settings = config.optimiser
    groups: dict[float, list[Tensor]] = {}
    for name, weight in network.named_parameters():
        is_pretrained = name.startswith("encoder.") and not name.startswith("encoder.top.")
        starts = config.encoder.pretrained and is_pretrained
        rate = settings.encoder_learning_rate if starts else settings.learning_rate
        if name.endswith("styles.weight"):
            rate = settings.style_learning_rate or rate
        groups.setdefault(rate, []).append(weight)
    return torch.optim.AdamW(
        [{"params": weights, "lr": rate, "peak": rate} for rate, weights in groups.items()],
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def _update_average(run: _Run) -> None:
    """Move the average towards the weights; fast at first, because early weights are of little value."""
    if run.average:
        decay = min(run.config.optimiser.averaging, (1 + run.position.step) / (10 + run.position.step))
        average = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        average(list(run.average.parameters()), list(run.network.parameters()), None)


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Turn Ctrl-C into a flag that the loop checks between two steps, when its state is consistent."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.signal(signal.SIGINT, lambda *_: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
