"""Measure how much a model gains from sentences of a new domain: the table of docs/adapt.md.

    python bench/adapt.py MODEL --train hk/train.conllu --dev hk/dev.conllu --general gsd/dev.conllu -o build/adapt
    python bench/adapt.py --table build/adapt/results.jsonl     only print the table of earlier results

MODEL has not seen the domain. For each number of sentences it is adapted to

    complete     complete trees
    words        words only
    five words   the true boundaries, heads and relations of the five words in each sentence that the model doubts most

The sentences are chosen at random, anew for every seed, or by `zishu suggest`. Each adapted model is scored on the dev
set of the domain, in its style, and on the general dev set in the model's first style, which shows what was forgotten.
`--scratch CONFIG` also trains that configuration on the same random trees alone. Every result is one line of
results.jsonl in the output folder; when the command is started again, it skips finished results. Several processes may
share a folder if their seeds differ.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zishu.analysis.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zishu.document import Sentence
    from zishu.partial import PartialTree
    from zishu.tree import WordTree

KINDS = ("complete", "words", "five words")
CHOICES = ("random", "suggest")
SCRATCH = "from scratch"
_DOUBTFUL = 5
_COLUMNS = (("domain", "seg"), ("domain", "uf"), ("domain", "lf"), ("general", "seg"), ("general", "lf"))


class Run(NamedTuple):
    """Name one adapted or trained model."""

    sentences: int
    known: str
    chosen: str
    seed: int


def main() -> None:
    """Run all missing measurements and print the table."""
    options = _options()
    if options.table:
        print(table(_read(options.table)))
        return
    folder: Path = options.output
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.jsonl"
    done = {Run(*(line[name] for name in Run._fields)) for line in _read(results)}
    for run in _plan(options):
        if run not in done:
            line = json.dumps(_measure(run, options))
            with results.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            print(line, flush=True)
    print(table(_read(results)))


def _options() -> Any:
    parser = argparse.ArgumentParser(description="Measure adaptation to a domain.")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--train", nargs="+")
    parser.add_argument("--dev", nargs="+")
    parser.add_argument("--general")
    parser.add_argument("--style", default="hk", help="style of the domain, new or known")
    parser.add_argument("--sizes", default="0,25,50,100,200,400")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--choices", default=",".join(CHOICES))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument(
        "--scratch",
        nargs="+",
        metavar=("CONFIG", "KEY=VALUE"),
        help="train this configuration on the trees alone",
    )
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--table", type=Path, metavar="FILE", help="only print the table of these results")
    options = parser.parse_args()
    needed = (options.model, options.train, options.dev, options.general, options.output)
    if not options.table and not all(needed):
        parser.error("give MODEL, --train, --dev, --general and --output, or --table")
    return options


def _plan(options: Any) -> list[Run]:
    """List the runs, all of one seed before those of the next."""
    sizes = [int(size) for size in options.sizes.split(",")]
    seeds = [int(seed) for seed in options.seeds.split(",")]
    plan = [Run(0, "-", "-", seeds[0])] if 0 in sizes else []
    for seed in seeds:
        for size in filter(None, sizes):
            for kind in options.kinds.split(","):
                plan += [Run(size, kind, how, seed) for how in options.choices.split(",")]
            plan += [Run(size, SCRATCH, "random", seed)] if options.scratch else []
    return plan


def _measure(run: Run, options: Any) -> dict[str, Any]:
    """Adapt the model, or train one, and score it."""
    # Imported here, as below, because the table needs none of this.
    from zishu.model.runtime import load_model

    started = time.process_time()
    words, made = _make(run, options)
    seconds = time.process_time() - started
    model = load_model(made)
    styles = model.settings.styles
    scores = {
        "domain": _score(
            model, _trees(tuple(options.dev)), options.style if options.style in styles else None
        ),
        "general": _score(
            model, _trees((options.general,)), None if run.known == SCRATCH else next(iter(styles), None)
        ),
    }
    if run.sentences:
        shutil.rmtree(made.parent)
    return {**run._asdict(), "words": words, **scores, "cpu": round(seconds)}


def _make(run: Run, options: Any) -> tuple[int, Path]:
    """Return the number of words of the chosen sentences and the folder of the model that learned from them."""
    from zishu.annotations import partial_to_conllu
    from zishu.suggest import suggest
    from zishu.train.adapt import adapt
    from zishu.train.adapt_data import AdaptOptions
    from zishu.train.config import load_config
    from zishu.train.loop import train

    if not run.sentences:
        return 0, Path(options.model)
    folder = options.output / "-".join(map(str, run)).replace(" ", "-")
    pool = [tree for tree in _trees(tuple(options.train)) if tree.is_projective]
    random.Random(run.seed).shuffle(pool)
    parses = _parses(options.model, tuple(options.train))
    chosen = pool[: run.sentences]
    if run.chosen == "suggest":
        trees = {id(parses[tree]): tree for tree in pool}
        found = suggest((parses[tree] for tree in pool), run.sentences)
        chosen = [trees[id(one.sentence)] for one in found]
    path = folder.with_suffix(".conllu")
    kind = "complete" if run.known == SCRATCH else run.known
    known = [_known(tree, kind, parses[tree]) for tree in chosen]
    lines = [partial_to_conllu(tree, sent_id=str(k)) for k, tree in enumerate(known)]
    path.write_text("".join(lines), encoding="utf-8")
    if run.known == SCRATCH:
        config, *changes = options.scratch
        few = folder.with_suffix(".dev.conllu")  # training needs some sentences to score
        few.write_text("".join(lines[:20]), encoding="utf-8")
        changes += [f"data.train={json.dumps(str(path))}", f"data.dev={json.dumps(str(few))}", "data.test="]
        changes += [f"seed={run.seed}", f"run.directory={folder}", f"run.threads={options.threads}"]
        train(load_config(config, changes))
        few.unlink()
    else:
        adapt(
            folder,
            AdaptOptions(
                gold=(str(path),), model=options.model, hold_out=False, style=options.style, seed=run.seed
            ),
            threads=options.threads,
        )
    path.unlink()
    return sum(len(tree.forms) for tree in chosen), folder / "model"


@cache
def _trees(paths: tuple[str, ...]) -> list[WordTree]:
    from zishu.formats.conllu import read_conllu, trees_of

    return [tree for path in paths for tree in trees_of(read_conllu(path))]


@cache
def _parses(model: str, paths: tuple[str, ...]) -> dict[WordTree, Sentence]:
    """Parse the sentences of the domain by the model that has not seen it."""
    import zishu
    from zishu.model.model import gold_sentence

    trees = _trees(paths)
    parsed = zishu.load(model).analyse([gold_sentence(tree, words=False) for tree in trees])
    return {tree: sentence for tree, [sentence] in zip(trees, parsed, strict=True)}


def _known(tree: WordTree, kind: str, sentence: Sentence) -> PartialTree:
    """Return the part of a gold tree that the annotator gives; `sentence` is the model's parse."""
    from zishu.partial import PartialTree, partial_tree

    full = partial_tree(tree)
    if kind == "complete":
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
    from zishu.train.evaluation import evaluate_model

    found = evaluate_model(model, gold, style=style or "")
    return {name: round(found.value(name), 2) for name in ("seg", "uf", "lf")}


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Lay out means and standard deviations over seeds as Markdown."""
    groups: dict[tuple[int, str, str], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["sentences"], line["known"], line["chosen"]), []).append(line)
    order = ["-", *KINDS, SCRATCH]
    head = ["sentences", "words", "known", "chosen", "seeds"]
    head += ["F1seg", "UF", "LF", "general F1seg", "general LF"]
    rows = []
    for (size, known, chosen), several in sorted(
        groups.items(), key=lambda item: (item[0][0], order.index(item[0][1]), item[0][2])
    ):
        words = f"{statistics.mean(line['words'] for line in several):,.0f}"
        cells = [str(size), words, known, chosen, str(len(several))]
        for part, name in _COLUMNS:
            values = [line[part][name] for line in several]
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread}")
        rows.append(cells)
    return Table(head, rows).to_markdown()


if __name__ == "__main__":
    main()
