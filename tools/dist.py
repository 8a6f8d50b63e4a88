"""Build the distribution and test it as a user would install it.

    python tools/dist.py [--base]

- Build sdist and wheel twice, the wheel from the sdist. Both builds must have the same bytes.
- Run `twine check`.
- Require the models, the configurations and both licence texts in the wheel, and no tests or records of runs in the
  sdist.
- Install the wheel into an empty environment and parse. Then install its extra `train`, and train one step on five
  sentences with a configuration from the wheel. `--base` skips the training, which needs PyTorch.

The archives are written to dist/. This took two minutes on two cores of a server. Every command is printed with
its time, and has a time limit, so that a step that hangs ends the program.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
IN_WHEEL = (
    "zishu/configs/latent-c2f-bilstm.toml",
    "zishu/models/default/encoder.onnx",
    "zishu/models/fast/encoder.onnx",
    "zishu/py.typed",
    ".dist-info/licenses/LICENSE",
    ".dist-info/licenses/LICENSE-CC-BY-SA-4.0",
)
NOT_IN_SDIST = ("/tests/", "/encoders/", "/docs/results/", "/bench/", "/.ci/")
TIME_LIMIT = 1200  # seconds for one command, enough for a busy machine


def main() -> None:
    """Build and check; the first failure ends the program."""
    parser = argparse.ArgumentParser(description="Build the distribution and check it.")
    parser.add_argument("--base", action="store_true", help="do not install and test the extra for training")
    base = parser.parse_args().base
    if "SOURCE_DATE_EPOCH" not in os.environ:  # use the time of the last commit
        os.environ["SOURCE_DATE_EPOCH"] = run("git", "log", "-1", "--format=%ct").strip()
    with tempfile.TemporaryDirectory() as folder:
        sdist, wheel = build(DIST)
        again = build(Path(folder) / "again")
        for one, other in zip((sdist, wheel), again, strict=True):
            require(one.read_bytes() == other.read_bytes(), f"{one.name} is not reproducible")
        run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel))
        check_contents(sdist, wheel)
        try_wheel(wheel, Path(folder), train=not base)
    for path in (sdist, wheel):
        sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB\n")


def build(folder: Path) -> tuple[Path, Path]:
    """Build into an empty folder; return sdist and wheel."""
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> None:
    """Check the contents of the two archives."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("/METADATA"))
    for wanted in IN_WHEEL:
        require(any(name.endswith(wanted) for name in names), f"the wheel has no {wanted}")
    require("](docs/" not in metadata, "the README of the package has relative links")
    with tarfile.open(sdist) as archive:
        held = archive.getnames()
    for part in NOT_IN_SDIST:
        require(not any(part in name for name in held), f"the sdist has files in {part}")


def try_wheel(wheel: Path, folder: Path, *, train: bool) -> None:
    """Install the wheel into an empty environment, parse, and train one step on five sentences."""
    run(sys.executable, "-m", "venv", str(folder / "venv"))
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    # Without --no-compile, pip compiles thousands of modules that this check never imports.
    install = (str(programs / "python"), "-m", "pip", "install", "--quiet", "--no-compile")
    constraints = ("--constraint", str(ROOT / "constraints.txt"))
    zishu = str(programs / "zishu")
    run(*install, *constraints, str(wheel), cwd=folder)
    parsed = run(zishu, "parse", "--format", "conllu", "上海计划发展金融业。", cwd=folder)
    require("\t计划\t" in parsed, f"the installed package does not parse:\n{parsed}")
    if not train:
        return
    run(*install, *constraints, f"zishu[train] @ {wheel.as_uri()}", cwd=folder)
    treebank = ROOT / "examples" / "sample.conllu"
    data = [f"--set=data.{part}={treebank}" for part in ("train", "dev")]
    small = [
        "--set=optimiser.epochs=1",
        "--set=encoder.hidden=8",
        "--set=scorer.arc=8",
        "--set=scorer.label=8",
        "--set=run.threads=1",  # several threads on a busy machine mostly wait for each other
    ]
    run(zishu, "train", "latent-c2f-bilstm", *data, *small, "--directory", "run", cwd=folder)
    run(zishu, "parse", "--model", "run/model", "上海计划发展金融业。", cwd=folder)


def run(*command: str, cwd: Path = ROOT) -> str:
    """Run a command and return its output. If it fails or takes too long, stop with a message."""
    sys.stdout.write(f"$ {' '.join(command)}\n")
    sys.stdout.flush()
    started = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=TIME_LIMIT,
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"the command took more than {TIME_LIMIT} seconds")
    sys.stdout.write(f"  {time.monotonic() - started:.0f} s\n")
    require(done.returncode == 0, f"{done.stdout}{done.stderr}")
    return done.stdout


def require(holds: bool, message: str) -> None:
    """Stop with a message unless a condition holds."""
    if not holds:
        sys.exit(message)


if __name__ == "__main__":
    main()
