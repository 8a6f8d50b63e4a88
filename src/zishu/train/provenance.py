"""Record how a run was made in run.json, next to its results, so that numbers can be traced and repeated.

    config          every setting of the run, including defaults
    zishu, commit   the version, and the commit if this is a checkout (with "+" if files below it have changed)
    python, torch   their versions
    machine         processor, cores, threads in use, device, number of processes

It is written when a run starts and again when it is resumed, so it names the last machine.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from zishu import __version__
from zishu.model.files import write_json

if TYPE_CHECKING:
    from zishu.train.config import Config

RUN = "run.json"


def record_run(config: Config, folder: Path, *, device: str, processes: int = 1) -> None:
    """Write the settings, the program and the machine of a run."""
    found = {
        "config": asdict(config),
        "zishu": __version__,
        "commit": commit_of(Path(__file__).parents[1]),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "device": device,
            "processes": processes,
        },
    }
    write_json(folder / RUN, found)


def commit_of(package: Path) -> str:
    """Return the commit of a package's checkout, with "+" if the package differs from it; "" if it is installed.

    A package that merely lies inside another repository (for example in a virtual environment) is not part of it.
    """
    is_tracked = _git(package, "ls-files", "--error-unmatch", "__init__.py")
    commit = _git(package, "rev-parse", "HEAD") if is_tracked else ""
    return commit + ("+" if commit and _git(package, "status", "--porcelain", "--", ".") else "")


def processor() -> str:
    """Name the processor as the system does."""
    lines = []
    with contextlib.suppress(OSError):  # only Linux has this file
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _git(folder: Path, *arguments: str) -> str:
    """Return the output of git, empty if it fails or git is missing."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
