"""Train one system from its configuration: one flat loop, no callbacks.

A run lives in a folder:

    metrics.jsonl       one line for every epoch: losses, speed, dev scores
    curve.png           the same as a picture
    last.safetensors    everything needed to go on (see `zishu.train.checkpoint`)
    best.safetensors    the same, after the epoch with the best dev score
    evaluation/         counts of every dev and test sentence, for `zishu compare`
    model/              the exported model of the best epoch
    result.json         final scores; it exists when the run is finished

What a run does depends on its configuration and seed only: batches are a function of seed and epoch, and the random
state is part of the checkpoint, so a run that was killed at any moment and resumed ends as an unbroken one.
"""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from zishu import chart, metrics
from zishu.errors import ConfigError, InputError, ZishuError
from zishu.metrics import evaluation_file, save_evaluation
from zishu.model.runtime import load_model
from zishu.train.checkpoint import (
    Interrupted,
    load_checkpoint,
    optimiser_state,
    restore_optimiser,
    save_checkpoint,
    write_atomically,
)
from zishu.train.config import Config, config_from_dict, config_to_dict, run_directory
from zishu.train.data import batches_of, collate, make_example, read_treebank, sentence_characters
from zishu.train.evaluation import evaluate
from zishu.train.export import export_model, export_pipeline
from zishu.train.report import MetricsLog, Progress, plot_curve
from zishu.train.setup import build_network, inventory_from_json, inventory_to_json, read_structures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor

    from zishu.metrics import Evaluation
    from zishu.train.config import Task
    from zishu.train.data import Example, Inventory
    from zishu.train.systems import Network
    from zishu.tree import WordTree

LAST, BEST, RESULT, METRICS, CURVE, MODEL = (
    "last.safetensors",
    "best.safetensors",
    "result.json",
    "metrics.jsonl",
    "curve.png",
    "model",
)


@dataclass
class _Position:
    """Where a run is: the next batch of an epoch, and what has been gathered so far."""

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
    """All that changes while a run goes on, and what it needs to go on."""

    config: Config
    folder: Path
    inventory: Inventory
    network: Network
    optimiser: torch.optim.Optimizer
    average: dict[str, Tensor]  # empty without averaging
    position: _Position


def train(config: Config, *, resume: bool = False) -> dict[str, float]:
    """Train the configured system in its run folder, export the best epoch's model, return its final scores."""
    if config.task == "pipeline":
        return _train_pipeline(config, resume=resume)
    folder = run_directory(config)
    if (folder / RESULT).exists():
        return _finished(folder)
    folder.mkdir(parents=True, exist_ok=True)
    threads = config.run.threads or chart.get_threads()
    torch.set_num_threads(threads)
    chart.set_threads(threads)
    # The optimiser's averages of gradients that have become 0 decay into denormal numbers, which are slow.
    torch.set_flush_denormal(True)

    treebank = read_treebank(config.data.train, projective_only=config.task != "segment")
    dev = read_treebank(config.data.dev).trees
    going_on = resume and (folder / LAST).exists()
    run = _restore(config, folder) if going_on else _start(config, folder, treebank.trees)
    structures = read_structures(config)
    examples = [
        make_example(tree, run.inventory, config.structure, structures, task=config.task)
        for tree in treebank.trees
    ]
    log = MetricsLog(folder / METRICS, epochs=run.position.epoch)
    with _interruptible() as interrupted, Progress(config, len(examples), treebank.left_out) as progress:
        while run.position.epoch < config.optimiser.epochs and not _out_of_patience(run):
            _train_epoch(run, examples, progress, interrupted)
            _score_epoch(run, dev, log, progress)
    plot_curve(folder / METRICS, folder / CURVE)
    return _finish(run, dev)


def _train_epoch(
    run: _Run, examples: list[Example], progress: Progress, interrupted: threading.Event
) -> None:
    """Go through the rest of an epoch, with a checkpoint every now and then."""
    config, position = run.config, run.position
    network, task = run.network, config.task
    device = next(network.parameters()).device
    batches = batches_of(
        [example.length for example in examples],
        config.optimiser.batch_chars,
        seed=config.seed,
        epoch=position.epoch,
    )
    total_steps = config.optimiser.epochs * len(batches)
    progress.start_epoch(position.epoch, len(batches), position.batch)
    network.train()
    saved = time.monotonic()
    while position.batch < len(batches):
        started = time.monotonic()
        batch = collate([examples[k] for k in batches[position.batch]], run.inventory, task=task).to(device)
        _set_learning_rates(run, total_steps)
        run.optimiser.zero_grad(set_to_none=True)
        loss = network.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if config.optimiser.clip:
            torch.nn.utils.clip_grad_norm_(network.parameters(), config.optimiser.clip)
        run.optimiser.step()
        _update_average(run)
        chars = int(batch.lengths.sum())
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ZishuError(f"the loss is not a number (step {position.step}): lower the learning rate")
        position.loss += value * chars
        position.chars += chars
        position.step += 1
        position.batch += 1
        position.seconds += time.monotonic() - started
        progress.advance(value, chars)
        if interrupted.is_set():
            _save(run, LAST)
            raise Interrupted(run.folder)
        if time.monotonic() - saved >= config.run.checkpoint_seconds:
            _save(run, LAST)
            saved = time.monotonic()


def _score_epoch(run: _Run, dev: tuple[WordTree, ...], log: MetricsLog, progress: Progress) -> None:
    """Score the dev set after an epoch, keep the best weights, and turn to the next epoch."""
    position = run.position
    with _averaged(run):
        scores = _scores(evaluate(run.network, run.inventory, dev), run.config.task)
    line = {
        "epoch": position.epoch + 1,
        "step": position.step,
        "loss": position.loss / position.chars,
        "seconds": round(position.seconds, 1),
        "chars_per_second": round(position.chars / max(position.seconds, 1e-9)),
        "dev": scores,
    }
    # Of two equal epochs the later one has seen more.
    better = scores[_criterion(run.config.task)] >= position.best
    if better:
        position.best, position.best_epoch = scores[_criterion(run.config.task)], position.epoch
    position.epoch += 1
    position.batch, position.loss, position.chars, position.seconds = 0, 0.0, 0, 0.0
    if better:
        _save(run, BEST)
    log.append(line)
    _save(run, LAST)
    progress.end_epoch(line, better=better)


def _finish(run: _Run, dev: tuple[WordTree, ...]) -> dict[str, float]:
    """Export the best weights, score them on dev and, once, on test; write result.json."""
    config, folder = run.config, run.folder
    best = _restore(config, folder, BEST)
    parts = {"dev": dev}
    if config.data.test:
        parts["test"] = read_treebank(config.data.test).trees
    result: dict[str, Any] = {
        "name": config.name,
        "seed": config.seed,
        "best_epoch": best.position.best_epoch + 1,
    }
    with _averaged(best):
        for part, gold in parts.items():
            words_only = config.task == "parse-words"
            found = evaluate(best.network, best.inventory, gold)
            result.update(_record(folder, part, found, config.task, given_words=words_only))
            if config.task == "parse":
                found = evaluate(best.network, best.inventory, gold, given_words=True)
                result.update(_record(folder, part, found, "parse-words", given_words=True))
        export_model(best.network, folder / MODEL, training={"config": config_to_dict(config), **result})
    _write_result(folder, result)
    return _flat(result)


def _record(
    folder: Path, part: str, evaluation: Evaluation, task: str, *, given_words: bool
) -> dict[str, dict[str, float]]:
    """Keep an evaluation for later comparisons, and return its entry in result.json."""
    save_evaluation(evaluation, folder / evaluation_file(part, given_words=given_words))
    return {f"{part}_given_words" if given_words else part: _scores(evaluation, task)}


def _write_result(folder: Path, result: dict[str, Any]) -> None:
    write_atomically(folder / RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def _train_pipeline(config: Config, *, resume: bool) -> dict[str, float]:
    """Train a segmenter and a parser of words, each on its own, and put both into one model directory."""
    folder = run_directory(config)
    if (folder / RESULT).exists():
        return _finished(folder)
    parts: dict[Task, Path] = {"segment": folder / "segmenter", "parse-words": folder / "treecrf"}
    for task, place in parts.items():
        run = replace(config.run, directory=str(place))
        train(replace(config, task=task, name=f"{config.name}-{place.name}", run=run), resume=resume)
    export_pipeline(parts["segment"] / MODEL, parts["parse-words"] / MODEL, folder / MODEL, name=config.name)
    result = _score_pipeline(config, folder)
    _write_result(folder, result)
    return _flat(result)


def _score_pipeline(config: Config, folder: Path) -> dict[str, Any]:
    """Score the exported pipeline on raw dev and test text."""
    model = load_model(folder / MODEL)
    result: dict[str, Any] = {"name": config.name, "seed": config.seed}
    for part, path in (("dev", config.data.dev), ("test", config.data.test)):
        if path:
            gold = read_treebank(path).trees
            analyses = model.parse([sentence_characters(tree) for tree in gold])
            pairs = zip(gold, (analysis.tree for analysis in analyses), strict=True)
            result.update(_record(folder, part, metrics.evaluate(pairs), "parse", given_words=False))
    return result


def _start(config: Config, folder: Path, trees: tuple[WordTree, ...]) -> _Run:
    torch.manual_seed(config.seed)
    network, inventory = build_network(config, trees)
    network.to(_device(config))
    average = {}
    if config.optimiser.averaging:
        average = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    return _Run(config, folder, inventory, network, _optimiser(config, network), average, _Position())


def _device(config: Config) -> torch.device:
    try:
        return torch.device(config.run.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise ConfigError(f"run.device: {str(error).splitlines()[0]}") from error


def _optimiser(config: Config, network: Network) -> torch.optim.Optimizer:
    """AdamW with its own learning rate for a pre-trained encoder (Appendix A.4)."""
    settings = config.optimiser
    groups: dict[bool, list[Tensor]] = {True: [], False: []}
    for name, weight in network.named_parameters():
        groups[config.encoder.kind == "bert" and name.startswith("encoder.")].append(weight)
    rates = {True: settings.encoder_learning_rate, False: settings.learning_rate}
    return torch.optim.AdamW(
        [{"params": groups[k], "lr": rates[k], "peak": rates[k]} for k in (True, False) if groups[k]],
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def _set_learning_rates(run: _Run, total_steps: int) -> None:
    """Rise linearly to the peak over the warm-up, then fall linearly to 0."""
    warmup = run.config.optimiser.warmup * total_steps
    step = run.position.step
    share = (step + 1) / warmup if step < warmup else (total_steps - step) / max(1.0, total_steps - warmup)
    for group in run.optimiser.param_groups:
        group["lr"] = group["peak"] * min(1.0, share)


def _update_average(run: _Run) -> None:
    """Move the average towards the weights; it starts fast, as the first weights are worth little."""
    if run.average:
        decay = min(run.config.optimiser.averaging, (1 + run.position.step) / (10 + run.position.step))
        weights = dict(run.network.named_parameters())
        with torch.no_grad():
            torch._foreach_lerp_(
                list(run.average.values()), [weights[name] for name in run.average], 1 - decay
            )


@contextmanager
def _averaged(run: _Run) -> Iterator[None]:
    """Put the averaged weights in place of the last ones for a while."""
    if not run.average:
        yield
        return
    weights = dict(run.network.named_parameters())
    with torch.no_grad():
        kept = {name: weights[name].detach().clone() for name in run.average}
        for name, value in run.average.items():
            weights[name].copy_(value)
        try:
            yield
        finally:
            for name, value in kept.items():
                weights[name].copy_(value)


def _save(run: _Run, name: str) -> None:
    tensors = {f"model.{key}": value for key, value in run.network.state_dict().items()}
    tensors.update({f"average.{key}": value for key, value in run.average.items()})
    tensors.update(optimiser_state(run.optimiser, _names(run.network)))
    tensors["random.torch"] = torch.get_rng_state()
    device = _device(run.config)
    if device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(device)
    state = {
        "config": config_to_dict(run.config),
        "inventory": inventory_to_json(run.inventory),
        "encoder": getattr(run.network.encoder, "hf_config", None),
        "position": vars(run.position),
    }
    save_checkpoint(run.folder / name, tensors, state)


def _restore(config: Config, folder: Path, name: str = LAST) -> _Run:
    tensors, state = load_checkpoint(folder / name)
    _check_same(config, config_from_dict(state["config"], source=str(folder / name)))
    inventory = inventory_from_json(state["inventory"])
    network, _ = build_network(config, (), inventory=inventory, hf_config=state["encoder"])
    network.load_state_dict(_under("model.", tensors))
    device = _device(config)
    network.to(device)
    average = {key: value.to(device) for key, value in _under("average.", tensors).items()}
    optimiser = _optimiser(config, network)
    restore_optimiser(optimiser, _names(network), tensors)
    torch.set_rng_state(tensors["random.torch"])
    if device.type == "cuda" and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"], device)
    return _Run(config, folder, inventory, network, optimiser, average, _Position(**state["position"]))


def _names(network: Network) -> dict[Tensor, str]:
    return {weight: name for name, weight in network.named_parameters()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _check_same(config: Config, before: Config) -> None:
    """Refuse to go on with another configuration: only where and how the program runs may change."""
    if replace(config, run=before.run) != before:
        raise InputError(
            "the configuration differs from the one this run was started with: "
            "go on with the same one, or start in another folder"
        )


def _out_of_patience(run: _Run) -> bool:
    patience = run.config.run.patience
    return patience > 0 and run.position.epoch - 1 - run.position.best_epoch >= patience


def _criterion(task: str) -> str:
    return "seg" if task == "segment" else "lf"


def _scores(evaluation: Evaluation, task: str) -> dict[str, float]:
    """Pick the scores that mean something for a task; with given words UF and LF are UAS and LAS."""
    names = {
        "segment": ("seg",),
        "parse-words": ("uf", "lf", "ucm", "lcm", "upos"),
        "parse": ("seg", "uf", "lf", "ucm", "lcm", "upos"),
    }[task]
    if evaluation.scores.overall.upos is None:
        names = tuple(name for name in names if name != "upos")
    return {name: round(evaluation.value(name), 3) for name in names}


def _flat(result: dict[str, Any]) -> dict[str, float]:
    return {
        f"{part}.{name}": value
        for part, scores in result.items()
        if isinstance(scores, dict)
        for name, value in scores.items()
    }


def _finished(folder: Path) -> dict[str, float]:
    return _flat(json.loads((folder / RESULT).read_text(encoding="utf-8")))


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Turn Ctrl-C into a flag that the loop looks at between two steps, when its state is whole."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.signal(signal.SIGINT, lambda *_: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
