"""Measure how much a model gains from sentences of a new domain: the table of docs/adapt.md.

    python bench/adapt.py MODEL --train hk/train.conllu --dev hk/dev.conllu --general gsd/dev.conllu -o build/adapt

MODEL has not seen the domain. For each number of sentences it is adapted to

    full      complete trees
    words     words only
    doubtful  the true boundaries, heads and relations of the five words in each sentence that the model doubts most

The sentences are chosen at random or by `zishu suggest`, once per seed. Each adapted model is scored on the dev set of
the domain, in its style, and on the general dev set, which shows what was forgotten. `--scratch CONFIG` also trains that
configuration on the same complete trees alone. Every result is one line of results.jsonl in the output folder; when the
command is started again, it skips finished results.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zishu
from zishu import metrics
from zishu.annotations import partial_to_conllu
from zishu.formats.conllu import from_tree, read_conllu, trees_of, write_conllu
from zishu.model.model import Model, gold_sentence, parse_trees
from zishu.model.runtime import load_model
from zishu.partial import PartialTree, partial_tree
from zishu.suggest import suggest
from zishu.train.adapt import adapt
from zishu.train.adapt_data import AdaptOptions
from zishu.train.config import load_config
from zishu.train.loop import train

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zishu.document import Sentence
    from zishu.tree import WordTree

KINDS = ("full", "words", "doubtful")
CHOICES = ("random", "suggest")
_DOUBTFUL = 5
_SCORES = ("seg", "uf", "lf")


def main() -> None:
    """Run all missing measurements and print the table."""
    options = _options()
    folder: Path = options.output
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.jsonl"
    pool = [tree for path in options.train for tree in trees_of(read_conllu(path)) if tree.is_projective]
    dev = [tree for path in options.dev for tree in trees_of(read_conllu(path))]
    general = trees_of(read_conllu(options.general))
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    keys = {tuple(one["key"]) for one in done}
    for key in _plan(options):
        if key in keys:
            continue
        started = time.process_time()
        model = load_model(_make(key, pool, options))
        styles = model.settings.styles
        scores = {
            "domain": _score(model, dev, options.style if options.style in styles else None),
            "general": _score(model, general, styles[0] if styles and key[0] != "scratch" else None),
        }
        line = {"key": key, **scores, "cpu": round(time.process_time() - started)}
        with results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        done.append(line)
        print(json.dumps(line), flush=True)
    print(table(done))


def _options() -> Any:
    parser = argparse.ArgumentParser(description="Measure adaptation to a domain.")
    parser.add_argument("model")
    parser.add_argument("--train", nargs="+", required=True)
    parser.add_argument("--dev", nargs="+", required=True)
    parser.add_argument("--general", required=True)
    parser.add_argument("--style", default="hk", help="style of the domain, new or known")
    parser.add_argument("--sizes", default="0,25,50,100,200,400")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--choices", default=",".join(CHOICES))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--scratch", default="", help="configuration to train on the same trees alone")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    return parser.parse_args()


def _plan(options: Any) -> list[tuple[str, str, int, int]]:
    """List the runs: (kind, choice, number of sentences, seed)."""
    sizes = [int(size) for size in options.sizes.split(",")]
    plan = [("none", "none", 0, 0)] if 0 in sizes else []
    for seed in map(int, options.seeds.split(",")):
        for size in sizes:
            if size:
                pairs = [
                    (kind, how) for kind in options.kinds.split(",") for how in options.choices.split(",")
                ]
                plan += [(kind, how, size, seed) for kind, how in pairs]
                plan += [("scratch", "random", size, seed)] if options.scratch else []
    return plan


def _make(key: tuple[str, str, int, int], pool: Sequence[WordTree], options: Any) -> Path:
    """Adapt the model, or train one, and return its folder."""
    kind, how, size, seed = key
    if kind == "none":
        return Path(options.model)
    folder = options.output / "-".join(map(str, key))
    parser = zishu.load(options.model)
    pool = list(pool)
    random.Random(seed).shuffle(pool)
    if how == "suggest":
        parsed = _parse(parser, pool)
        place = {id(sentence): k for k, sentence in enumerate(parsed)}
        chosen = [pool[place[id(one.sentence)]] for one in suggest(parsed, size)]
    else:
        chosen = pool[:size]
    path = options.output / f"{folder.name}.conllu"
    if kind == "scratch":
        with path.open("w", encoding="utf-8") as file:
            write_conllu((from_tree(tree, sent_id=str(k)) for k, tree in enumerate(chosen)), file)
        overrides = [f'data.train={{{options.style}="{path}"}}', f'data.dev={{{options.style}="{path}"}}']
        train(load_config(options.scratch, [*overrides, f"seed={seed}", f"run.directory={folder}"]))
        return folder / "model"
    known = [
        _known(tree, kind, sentence) for tree, sentence in zip(chosen, _parse(parser, chosen), strict=True)
    ]
    path.write_text(
        "".join(partial_to_conllu(tree, sent_id=str(k)) for k, tree in enumerate(known)), encoding="utf-8"
    )
    adapt(
        folder,
        AdaptOptions(
            gold=(str(path),),
            model=options.model,
            hold_out=False,
            style=options.style,
            epochs=options.epochs,
            seed=seed,
        ),
        threads=options.threads,
    )
    return folder / "model"


def _parse(parser: zishu.Parser, trees: Sequence[WordTree]) -> list[Sentence]:
    return [sentence for [sentence] in parser.analyse([gold_sentence(tree, words=False) for tree in trees])]


def _known(tree: WordTree, kind: str, sentence: Sentence) -> PartialTree:
    """Return the part of a gold tree that the annotator gives; `sentence` is the model's parse."""
    full = partial_tree(tree)
    if kind == "full":
        return full
    if kind == "words":
        return PartialTree(full.chars, full.gaps)
    place, spans = 1, []
    for word in sentence:
        spans.append((word.prob or 0.0, place, place + len(word.chars)))
        place += len(word.chars)
    asked = {k for _, start, end in sorted(spans)[:_DOUBTFUL] for k in range(start, end)}
    told = [word for word in full.words if asked & set(range(*word.span))]
    # An annotator who names a head also knows its word.
    certain = {word.span for word in told} | {word.head for word in told if word.head != (0, 1)}
    gaps = full.gaps.copy()
    gaps[1:-1] = 0
    for start, end in certain:
        gaps[start : end - 1] = 1
        gaps[[start - 1, end - 1]] = 2
    return PartialTree(full.chars, gaps, tuple(told))


def _score(model: Any, gold: Sequence[WordTree], style: str | None) -> dict[str, float]:
    assert isinstance(model, Model)
    found = metrics.evaluate(zip(gold, parse_trees(model.in_style(style), gold), strict=True))
    return {name: round(found.value(name), 2) for name in _SCORES}


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Lay out the means over seeds as Markdown."""
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for line in lines:
        kind, how, size, _ = line["key"]
        groups.setdefault((kind, how, size), []).append(line)
    rows = [
        "| sentences | known | chosen | seeds | F1seg | UF | LF | general F1seg | LF |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (kind, how, size), several in sorted(groups.items(), key=lambda item: (item[0][2], item[0])):
        cells = [
            f"{statistics.mean(one[part][name] for one in several):.1f}"
            for part, name in (*(("domain", name) for name in _SCORES), ("general", "seg"), ("general", "lf"))
        ]
        rows.append("| " + " | ".join([str(size), kind, how, str(len(several)), *cells]) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
