"""Train the systems of the tables in docs/results.md, one after the other.

    python tools/train_systems.py runs/small --like configs/fast.toml --encoder encoders/small \\
        --gsd GSD --structures WIST.conll

A system takes its task, objective and structures from `configs/SYSTEM.toml`, and everything else (encoder, scorer,
optimiser) from the configuration after `--like`, so that systems differ in one thing only. Each run learns from the
treebank in GSD alone and is scored on its dev and test set. All systems are trained with the first seed, then all with
the next one. Runs are in OUT/SYSTEM/seed-SEED. The command may be repeated: it skips finished runs and continues an
interrupted one. `tools/results.py --collect OUT docs/results/NAME` keeps the records, and `--records docs/results/NAME`
also skips the runs that have one there. The parser of given words, TreeCRF, is a part of every pipeline.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from zishu.train.config import Config, load_config
from zishu.train.evaluation import RESULT
from zishu.train.loop import train

# Every system with the number of seeds that its table has.
SEEDS = {
    "latent-c2f": 4,
    "pipeline": 4,
    "leftward": 4,
    "latent": 4,
    "rightward": 4,
    "annotated": 4,
    "yan-2020": 2,
    "wu-2021": 2,
    "transition": 2,
    "latent-c2f-no-single-root": 2,
    "latent-c2f-no-root-as-head": 2,
    "latent-c2f-no-constraints": 2,
    "latent-c2f-pseudo-projective": 2,
}


def main() -> None:
    """Train every system that is not finished."""
    parser = argparse.ArgumentParser(description="Train the systems of the tables.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--like", required=True, help="configuration for everything that systems share")
    parser.add_argument("--encoder", required=True, help="pre-trained encoder")
    parser.add_argument("--gsd", type=Path, required=True, help="folder with train, dev and test.conllu")
    parser.add_argument("--structures", default="", help="annotated words, for systems that need them")
    parser.add_argument("--records", type=Path, help="skip the runs whose records are in this folder")
    parser.add_argument("--systems", default=",".join(SEEDS), help="names, separated by commas")
    parser.add_argument("--seeds", type=int, default=max(SEEDS.values()), help="at most this many seeds")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    for seed in range(options.seeds):
        for system in options.systems.split(","):
            config = configure(system, seed, options)
            can_learn = config.structure.policy != "annotated" or config.data.structures
            if seed < SEEDS[system] and can_learn and not is_finished(config, options.records):
                scores = train(config, resume=config.folder.exists())
                sys.stdout.write(f"{config.folder}: {scores}\n")
                sys.stdout.flush()


def is_finished(config: Config, records: Path | None) -> bool:
    """Tell whether a run has a result, in its own folder or among the records."""
    folders = [config.folder] + ([records / Path(*config.folder.parts[-2:])] if records else [])
    return any((folder / RESULT).exists() for folder in folders)


def configure(system: str, seed: int, options: argparse.Namespace) -> Config:
    """Return the configuration of a run."""
    data = [f"data.{part}={options.gsd}/{part}.conllu" for part in ("train", "dev", "test")]
    config = load_config(f"configs/{system}.toml", [*data, f"seed={seed}"])
    like = load_config(options.like)
    annotated = config.structure.policy == "annotated"
    return replace(
        config,
        data=replace(config.data, structures=options.structures if annotated else ""),
        encoder=replace(like.encoder, pretrained=options.encoder),
        scorer=replace(like.scorer, upos=config.scorer.upos, tag_weight=0.0),
        optimiser=replace(like.optimiser, epochs=options.epochs),
        run=replace(
            like.run,
            directory=str(options.out / system / f"seed-{seed}"),
            precision=options.precision,
            threads=options.threads,
        ),
    )


if __name__ == "__main__":
    main()
