"""Make a small model in the present format, for the test that every released format stays readable.

    python tests/model/make_format.py

trains on the sentences of tests/helpers/tiny.py until it knows them, and writes the model and its analyses into
tests/model/formats/N, where N is the number of the format. Run it once, when the number has changed, and never
replace the model of a released format.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import tiny
import zishu
from zishu.cli import run
from zishu.model.settings import FORMAT

FORMATS = Path(__file__).parent / "formats"
SIZES = (
    "encoder.char_width=16", "encoder.bigram_width=8", "encoder.layers=1", "encoder.hidden=16", "encoder.dropout=0",
    "encoder.embedding_dropout=0", "scorer.arc=16", "scorer.label=8", "scorer.dropout=0", "optimiser.epochs=60",
    "optimiser.learning_rate=0.01",
)  # fmt: skip


def main() -> None:
    """Train, export, and keep the analyses."""
    folder = FORMATS / str(FORMAT)
    if folder.exists():
        sys.exit(f"{folder} exists")
    with tempfile.TemporaryDirectory() as work:
        treebank = tiny.write(Path(work, "tiny.conllu"))
        settings = [f"--set={text}" for text in (f"data.train={treebank}", f"data.dev={treebank}", *SIZES)]
        if run(["train", "latent-c2f-bilstm", *settings, "--directory", f"{work}/run"]):
            sys.exit("training failed")
        shutil.copytree(Path(work, "run/model"), folder)
    analyses = analyse(folder)
    (folder / "analyses.json").write_text(
        json.dumps(analyses, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )


def analyse(folder: Path) -> dict[str, list[list[object]]]:
    """Return the words of every sentence, with tags, heads, relations and inner heads."""
    nlp = zishu.load(folder)
    return {
        text: [[w.form, w.upos, w.head, w.deprel, list(w.char_heads or ())] for w in nlp(text)[0]]
        for text in ("".join(tree.forms) for tree in tiny.TREES)
    }


if __name__ == "__main__":
    main()
