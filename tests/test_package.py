"""The package as its users see it: what `import zishu` offers, and what it does not load."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

import pytest

import zishu
from zishu import errors
from zishu.cli import COMMANDS

# Modules that parsing must never load, and modules that a light import must not load.
HEAVY = (
    "torch",
    "transformers",
    "safetensors",
    "matplotlib",
    "onnx",
    "numba",
    "llvmlite",
    "onnxruntime",
    "numpy",
)
TRAINING = HEAVY[:5]


def loaded_by(code: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has loaded after running some code."""
    program = (
        f"{code}\nimport json, sys\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout.splitlines()[-1]))


def test_the_probe_sees_what_is_loaded() -> None:
    assert "numpy" in loaded_by("import numpy")


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import zishu").isdisjoint(HEAVY)
    objects = (
        "from zishu import Document, Lexicon, Sentence, Word\nWord(1, '好', 0, 1, None, 0, 'root', (0,)).prob"
    )
    assert loaded_by(objects).isdisjoint(HEAVY)


def test_importing_the_package_is_quick() -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import zishu"], capture_output=True, text=True, check=True
    )
    # Lines "import time: self [us] | cumulative | name"; a package comes after what it imports. Other programs on the
    # machine slow down the import, hence the generous bound. Any of the heavy packages would still exceed it.
    total = next(int(line.split("|")[1]) for line in ran.stderr.splitlines() if line.endswith("| zishu"))
    assert total < 300_000


def test_what_parses_brings_the_runtime_but_no_training() -> None:
    loaded = loaded_by("import zishu\nassert zishu.load is zishu.parser.load")
    assert {"numpy", "llvmlite", "onnxruntime"} <= loaded
    assert loaded.isdisjoint({*TRAINING, "numba"})


@pytest.mark.parametrize("command", [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)])
def test_the_command_line_starts_without_anything_heavy(command: list[str]) -> None:
    quietly = "with contextlib.redirect_stdout(io.StringIO()):"
    code = f"import contextlib, io\nfrom zishu.cli import run\n{quietly}\n    assert run({command!r}) == 0"
    assert loaded_by(code).isdisjoint(HEAVY)


def test_everything_outside_training_works_without_the_training_extra() -> None:
    root = Path(zishu.__file__).parent
    modules = [
        ".".join(("zishu", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        for path in sorted(root.rglob("*.py"))
    ]
    outside = [name for name in modules if not name.startswith("zishu.train")]
    assert len(outside) > 10
    # None in sys.modules makes an import fail as if the package were not installed.
    block = "import sys\n" + "".join(f"sys.modules[{name!r}] = None\n" for name in TRAINING)
    loaded_by(block + "".join(f"import {name}\n" for name in outside))


def test_training_without_its_extra_says_what_to_install() -> None:
    code = "import sys\nsys.modules['torch'] = None\nimport zishu.train"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "pip install 'zishu[train]'" in ran.stderr


def test_public_names_are_sorted_unique_and_there() -> None:
    assert zishu.__all__ == sorted(set(zishu.__all__))
    for name in zishu.__all__:
        assert getattr(zishu, name) is not None
    assert set(zishu.__all__) <= set(dir(zishu))


def test_public_names_are_those_of_the_design() -> None:
    assert {"Document", "Lexicon", "Parser", "Sentence", "Word", "load"} <= set(zishu.__all__)
    for name in ("Document", "Lexicon", "Parser", "Sentence", "Word", "load"):
        assert getattr(zishu, name).__module__.startswith("zishu.")
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = zishu.Nonsense


def test_every_error_is_public() -> None:
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert defined <= set(zishu.__all__)


def test_the_version_is_the_installed_one_and_well_formed() -> None:
    assert zishu.__version__ == metadata.version("zishu")
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", zishu.__version__)


def test_type_checkers_find_the_marker() -> None:
    assert resources.files("zishu").joinpath("py.typed").is_file()


def test_training_packages_are_no_base_dependency() -> None:
    required = metadata.requires("zishu") or []
    base = {re.match(r"[\w-]+", line)[0] for line in required if "extra ==" not in line}  # type: ignore[index]
    assert base.isdisjoint(TRAINING)
    assert {"numba", "numpy", "onnxruntime"} <= base


ROOT = Path(__file__).parent.parent
READMES = [ROOT / "README.md", ROOT / "README.zh.md"]
DOCUMENTS = [*READMES, *sorted(ROOT.glob("docs/*.md"))]

_DECIMAL = re.compile(r"\d+\.\d+")


def blocks(language: str, *documents: Path) -> list[str]:
    """Return the code blocks of documents; a block that several documents have comes once."""
    block = re.compile(rf"^```{language}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    found = [text for path in documents for text in block.findall(path.read_text(encoding="utf-8"))]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("block", blocks("console", *DOCUMENTS), ids=lambda block: block.partition("\n")[0])
def test_the_commands_of_the_documents_print_what_they_say(block: str) -> None:
    command, expected = re.fullmatch(r"\$ ([^\n]+)\n(.*)", block, re.DOTALL).groups()  # type: ignore[union-attr]
    program, *arguments = shlex.split(command)
    start = {"python": [], "zishu": ["-c", "from zishu.cli import main; main()"]}[program]
    ran = subprocess.run(
        [sys.executable, *start, *arguments],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    printed, shown = ran.stdout.rstrip().splitlines(), expected.rstrip().splitlines()
    if shown[-1] == "...":
        shown.pop()
        printed = printed[: len(shown)]
    assert [_DECIMAL.sub("#", line) for line in printed] == [_DECIMAL.sub("#", line) for line in shown]
    # Networks in 8 bits may round an activation differently on another processor.
    for line, other in zip(printed, shown, strict=True):
        numbers, others = (list(map(float, _DECIMAL.findall(text))) for text in (line, other))
        assert numbers == pytest.approx(others, abs=0.1)


def test_the_python_of_the_readme_gives_what_it_says() -> None:
    (block,) = blocks("pycon", *READMES)  # the same in both languages
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    results = runner.run(doctest.DocTestParser().get_doctest(block, {}, "README", str(READMES[0]), 0))
    assert results.attempted > 3
    assert results.failed == 0


def test_the_readmes_have_the_same_parts() -> None:
    english, chinese = (path.read_text(encoding="utf-8") for path in READMES)
    for pattern in (r"(?m)^## ", r"(?m)^\|", r"(?s)```\w+\n.*?```", r"\]\(([\w/.-]+)\)", r"\d+\.\d"):
        ours, theirs = (re.findall(pattern, text) for text in (english, chinese))
        if "w/" in pattern:  # links: each README names the other one first
            ours, theirs = (
                [link for link in links if not link.startswith("README")] for links in (ours, theirs)
            )
        assert ours == theirs, pattern


def test_links_and_files_that_the_documents_name_exist() -> None:
    for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"]:
        text = document.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (document.parent / link).exists(), f"{document.name}: {link}"
        for path in re.findall(r"`((?:src|tests|examples|bench|configs)/[\w/.-]*)`", text):
            assert (ROOT / path).exists(), f"{document.name}: {path}"
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (`.*?`) \|", contributing.partition("## The code")[2], re.MULTILINE)
    names = [name for cell in listed for name in re.findall(r"`([\w/]+(?:\.py|/))`", cell)]
    assert len(names) > 10
    for name in names:
        assert (Path(zishu.__file__).parent / name).exists(), name


def test_every_page_of_the_documentation_is_in_the_menu() -> None:
    menu = set(
        re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert {path.name for path in ROOT.glob("docs/*.md")} <= menu


def test_continuous_integration_only_calls_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.MULTILINE))
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())  # type: ignore[index]
    assert phony <= targets
    helped = set(re.findall(r'@echo "make ([\w-]+)', makefile))
    assert phony - helped == {"help", "lint", "types"}  # the last two are parts of `make test`
    definitions = [*ROOT.glob(".github/workflows/*.yml"), ROOT / ".gitlab-ci.yml", ROOT / ".ci/run"]
    assert len(definitions) == 3
    for path in definitions:
        text = path.read_text(encoding="utf-8")
        called = set(re.findall(r"^\s*(?:- run: |- )?make ([\w-]+)", text, re.MULTILINE))
        assert {"test", "docs"} <= called <= targets, path
        if path.suffix == ".yml":
            yaml = pytest.importorskip("yaml", reason="comes with transformers")
            content = yaml.safe_load(text)
            jobs = content.get("jobs", content)
            assert {"test", "versions", "docs", "dist"} <= set(jobs), path


def test_the_repository_stays_small() -> None:
    """Without the bundled models, a clone has less than 8 MB; encoders are made by the user and ignored."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a clone of the repository")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert len(files) > 300
    left_out = (ROOT / "src/zishu/models", ROOT / "encoders")
    sizes = [
        f.stat().st_size for f in files if f.is_file() and not any(f.is_relative_to(x) for x in left_out)
    ]
    assert sum(sizes) < 8_000_000
    assert "/encoders/" in (ROOT / ".gitignore").read_text(encoding="utf-8").split()


def test_onnx_runtime_is_told_to_stay_offline_before_it_is_imported() -> None:
    code = (
        "import sys, os, zishu; assert 'onnxruntime' not in sys.modules; "
        "assert os.environ['ORT_DISABLE_TELEMETRY'] == '1'"
    )
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
