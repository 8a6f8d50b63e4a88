"""Make the tables of docs/results.md and docs/adapt.md from the records under docs/results, and collect such records.

    python tools/results.py                         update the tables of the pages
    python tools/results.py --check                 only check whether they are up to date: exit code 1 if not
    python tools/results.py --collect runs/bert docs/results/bert      keep the records of finished runs

A table of a page is between two comments. The first one contains the command that makes it:

    <!-- table: zishu compare docs/results/bert/latent --markdown -->
    <!-- end -->

Between them are the command, for the reader, and its output. A command is `zishu compare`, `zishu analyse`,
`python SCRIPT`, or `runs FOLDER...`, which lists the runs in some folders: epochs, time, commit, machine.

A record is everything that a run writes except its weights: run.json, metrics.jsonl, result.json, evaluation/*.json.gz.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from zishu.analysis.tables import Table, escape_markdown
from zishu.cli import run as zishu

PAGES = (Path("docs/results.md"), Path("docs/adapt.md"))
TABLE = re.compile(r"(<!-- table: (?P<command>.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
ABSOLUTE = re.compile(r'"/[^"\n]*?([^"/\n]+/[^"/\n]+)"')
RECORDS = ("run.json", "metrics.jsonl", "result.json", "evaluation/*.json.gz", "decoding/*.json")


def main() -> int:
    """Run the command that the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(description="Make the tables of the docs.")
    parser.add_argument("--check", action="store_true", help="only check whether the pages are up to date")
    parser.add_argument(
        "--collect", nargs=2, type=Path, metavar=("RUNS", "DEST"), help="keep records of runs"
    )
    arguments = parser.parse_args()
    if arguments.collect:
        for path in collect(*arguments.collect):
            sys.stdout.write(f"{path}\n")
        return 0
    stale = 0
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = with_tables(before)
        stale |= before != after
        if not arguments.check:
            page.write_text(after, encoding="utf-8")
    return int(stale and arguments.check)


def with_tables(page: str) -> str:
    """Return a page with updated tables."""

    def fill(match: re.Match[str]) -> str:
        command = " ".join(match["command"].split())
        shown = "" if command.startswith("runs ") else f"\n```sh\n{command}\n```\n"
        return f"{match[1]}{shown}\n{output_of(command)}\n\n{match[3]}"

    return TABLE.sub(fill, page)


def output_of(command: str) -> str:
    """Return what a command prints."""
    name, *arguments = shlex.split(command)
    if name == "runs":
        return list_runs([Path(folder) for folder in arguments])
    if name == "python":
        done = subprocess.run(
            [sys.executable, *arguments], check=True, stdout=subprocess.PIPE, encoding="utf-8"
        )
        return done.stdout.strip()
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = zishu(arguments)
    if name != "zishu" or code:
        raise SystemExit(f"{command}: exit code {code}\n{err.getvalue()}")
    return out.getvalue().strip()


def list_runs(folders: list[Path]) -> str:
    """Return a table of the runs in some folders, with their settings and machines."""
    head = ["run", "seed", "epochs", "best", "minutes", "commit", "processor", "threads"]
    rows = []
    for folder in folders:
        for path in sorted(folder.rglob("run.json")):
            made = json.loads(path.read_text(encoding="utf-8"))
            result = _read(path.with_name("result.json"))
            epochs = [json.loads(line) for line in _lines(path.with_name("metrics.jsonl"))]
            machine = made["machine"]
            rows.append(
                [
                    f"`{path.parent.as_posix()}`",
                    str(made["config"]["seed"]),
                    f"{len(epochs)} of {made['config']['optimiser']['epochs']}",
                    str(result.get("best_epoch", "-")),
                    f"{sum(epoch['seconds'] for epoch in epochs) / 60:.0f}",
                    f"`{made['commit'][:7]}`",
                    escape_markdown(machine["processor"]),
                    f"{machine['threads']} of {machine['cores']}",
                ]
            )
    return Table(head, rows).to_markdown()


def collect(runs: Path, destination: Path) -> list[Path]:
    """Copy the records of all finished runs below a folder; return the copies.

    Of absolute paths only the last two parts are kept: the others say nothing to readers.
    """
    copies = []
    for result in sorted(runs.rglob("result.json")):
        for pattern in RECORDS:
            for path in sorted(result.parent.glob(pattern)):
                copy = destination / path.relative_to(runs)
                copy.parent.mkdir(parents=True, exist_ok=True)
                if path.suffix == ".gz":
                    shutil.copyfile(path, copy)
                else:
                    text = path.read_text(encoding="utf-8")
                    copy.write_text(ABSOLUTE.sub(r'"\1"', text), encoding="utf-8")
                copies.append(copy)
    return copies


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
