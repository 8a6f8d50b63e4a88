"""Walk the imports of the package: a module uses only the layers below its own.

Imports inside functions and under `TYPE_CHECKING` count too: a module also depends on the types that it names. The
one exception is `LATE`: methods for the user's convenience that only call a layer above.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import zishu

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(zishu.__file__).parent

_GROUND = {
    "arcs",
    "arguments",
    "errors",
    "compression",
    "reading",
    "writing",
    "gaps",
    "deal",
    "text",
    "splitting",
    "tree",
    "tags",
    "partial",
    "forest",
    "projectivity",
    "transitions",
}
_RUNTIME = _GROUND | {"document", "chart", "model", "formats", "render"}

# A layer is a module or package directly under `zishu`; each may import those named here, and itself.
LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "arguments": {"errors"},
    "compression": {"errors"},
    "reading": {"errors", "compression"},
    "writing": {"errors", "compression", "reading"},
    "gaps": set(),
    "deal": set(),
    "arcs": {"errors"},
    "text": {"arcs", "gaps"},
    "splitting": {"errors", "text"},
    "tree": {"errors", "text"},
    "tags": {"text", "tree"},
    "partial": {"errors", "arcs", "gaps", "tags", "text", "tree"},
    "forest": {"arcs", "errors", "gaps", "partial", "text", "tree"},
    "projectivity": {"errors", "text", "tree"},
    "transitions": {"gaps"},
    "chart": {"errors", "gaps", "deal"},
    "document": {"errors", "tags", "text", "tree"},
    "formats": _GROUND | {"document"},
    "render": _GROUND | {"document"},
    "lexicon": _GROUND,
    "patterns": set(),
    "constraints": _GROUND | {"lexicon", "patterns"},
    "sentences": _GROUND | {"lexicon", "constraints"},
    "annotations": _GROUND | {"formats", "sentences"},
    "metrics": _GROUND,
    "stats": _GROUND | {"formats"},
    "structures": _GROUND | {"formats"},
    "treebank": _GROUND | {"formats"},
    "model": _GROUND | {"chart", "document", "sentences", "structures"},
    "parser": _RUNTIME | {"lexicon", "constraints", "sentences"},
    "suggest": _RUNTIME | {"lexicon", "sentences", "parser"},
    "analysis": _RUNTIME | {"metrics", "treebank", "parser", "structures"},
    "granularity": _GROUND | {"document", "structures"},
    "corpus": _RUNTIME | {"lexicon", "constraints", "sentences", "parser", "granularity"},
    "train": _RUNTIME | {"metrics", "treebank", "structures", "sentences", "annotations", "lexicon"},
}
# The top: these may import everything below, not one another.
_ALL = {*LAYERS}
LAYERS |= {"cli": _ALL | {"serve", "integrations"}, "serve": _ALL, "integrations": _ALL}
LAYERS["__main__"] = {"cli"}
# `zishu/__init__.py` re-exports what users need, and must stay light.
LAYERS["__init__"] = {"errors", "document", "lexicon", "parser"}

# What a layer may import inside functions only: `sentence.to_conllu()` is easier to read than a function of another
# module.
LATE: dict[str, set[str]] = {"document": {"formats", "render"}}

# Names that any module may take from `zishu` itself.
FROM_ROOT = {"__version__"}

# Packages that only one layer or file may import; other modules must go through it.
HOMES: dict[str, tuple[str, ...]] = {
    "torch": ("train",),
    "transformers": ("train/_hf.py",),
    "tokenizers": ("train/_hf.py",),
    "huggingface_hub": ("train/_hf.py",),
    "safetensors": ("train",),
    "onnx": ("train",),
    "onnxscript": ("train",),
    "numba": ("chart/_build.py", "chart/_kernels.py", "chart/_vectors.py"),
    "llvmlite": ("chart/_build.py", "chart/_compiled.py", "chart/_vectors.py"),
    "onnxruntime": ("model", "train/quantise.py", "train/encoder_graph.py"),
    "typer": ("cli",),
    "matplotlib": ("train", "analysis"),
    "spacy": ("integrations",),
    "ray": ("corpus/ray.py",),
    "fsspec": ("corpus/storage.py",),
    "zstandard": ("compression.py",),
    "pyarrow": ("corpus/tables.py",),
    "uvicorn": ("serve",),
    "pydantic": ("serve",),
    "prometheus_client": ("serve",),
}


def imported_names(source: str) -> Iterator[tuple[int, str, bool]]:
    """Yield every import: its line, its dotted name, and whether it is inside a function."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    late = {id(inner) for function in functions for inner in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, id(node) in late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}", id(node) in late) for alias in node.names)


def layer_of(path: str) -> str:
    return path.removesuffix(".py").partition("/")[0]


def violations(path: str, source: str) -> list[str]:
    """List the forbidden imports of the module at this path under the package."""
    layer = layer_of(path)
    found = []
    for line, name, late in imported_names(source):
        package, *rest = name.split(".")
        target = rest[0] if rest else "__init__"
        if name.startswith("."):
            problem = "relative import: the rule of this project is absolute ones"
        elif package != "zishu":
            homes = HOMES.get(package, (layer,))
            problem = "" if layer in homes or path in homes else f"only {', '.join(homes)} may import it"
        elif target in LAYERS:
            allowed = LAYERS[layer] | {layer} | (LATE.get(layer, set()) if late else set())
            # The command line prints the version of the package, so it may import the package itself.
            problem = "" if target in allowed or layer == "cli" else f"{layer} may not import {target}"
        else:
            problem = "" if target in FROM_ROOT else f"{target} is no layer: import from where it is defined"
        if problem:
            found.append(f"line {line}: {name}: {problem}")
    return found


PATHS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", PATHS)
def test_a_module_imports_only_from_layers_below(path: str) -> None:
    assert violations(path, (ROOT / path).read_text(encoding="utf-8")) == []


def test_every_layer_of_the_package_is_in_the_table() -> None:
    assert {layer_of(path) for path in PATHS} <= set(LAYERS)


def test_the_reading_order_names_every_layer() -> None:
    guide = ROOT.parents[1] / "CONTRIBUTING.md"
    if not guide.is_file():
        pytest.skip("an installed package has no guide beside it")
    table = guide.read_text(encoding="utf-8").partition("## The code, in the order to read it")[2]
    named = set(re.findall(r"`(\w+)(?:\.py|/)", table.partition("\n## ")[0]))
    assert set(LAYERS) - {"__init__", "__main__"} <= named


# Tests of the package as a whole; all others have the name of what they test.
WHOLE = {"any_text", "examples", "layers", "package", "tokens", "ways"}


def test_the_tests_lie_where_the_code_does() -> None:
    tests = Path(__file__).parent
    named = {path.stem.removeprefix("test_") for path in tests.glob("test_*.py")}
    assert named - WHOLE <= {path.stem for path in ROOT.glob("*.py")}
    folders = {path.parent.relative_to(tests).parts[0] for path in tests.glob("*/**/test_*.py")}
    assert folders <= {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"tools"}


# The torch chart offers the classes of the chart.
TWICE = {"Marginals", "TreeDistribution", "Trees"}


def test_a_class_has_a_name_of_its_own() -> None:
    """No two classes have the same name, so a reader never has to ask which one is meant."""
    homes: dict[str, list[str]] = {}
    for path in PATHS:
        for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path)
    assert {name: paths for name, paths in homes.items() if len(paths) > 1 and name not in TWICE} == {}


def test_layers_have_an_order() -> None:
    remaining = {layer: set(below) for layer, below in LAYERS.items()}
    while remaining:
        lowest = {layer for layer, below in remaining.items() if not below & remaining.keys()}
        assert lowest, f"these layers import one another in a circle: {sorted(remaining)}"
        remaining = {layer: below for layer, below in remaining.items() if layer not in lowest}


def test_only_training_reaches_torch() -> None:
    above = {layer for layer, below in LAYERS.items() if "train" in below}
    assert above == {"cli", "serve", "integrations"}


@pytest.mark.parametrize(
    ("path", "source", "name"),
    [
        ("tree.py", "from zishu.chart import best_tree", "zishu.chart"),
        ("chart/__init__.py", "import zishu.train.loop", "zishu.train"),
        ("model/decode.py", "from zishu import train", "zishu.train"),
        ("forest.py", "def f():\n    from zishu.parser import Parser", "zishu.parser"),
        ("text.py", "if TYPE_CHECKING:\n    from zishu.tree import WordTree", "zishu.tree"),
        ("parser.py", "import torch.nn as nn", "torch.nn"),
        ("train/encoders.py", "from transformers import AutoModel", "transformers"),
        ("chart/chain.py", "from numba import njit", "numba"),
        ("metrics.py", "import zishu", "zishu"),
        ("metrics.py", "from zishu import ZishuError", "zishu.ZishuError"),
        ("formats/conllu.py", "from . import jsonl", "."),
        ("corpus/files.py", "from zishu.cli import run", "zishu.cli"),
        ("corpus/shards.py", "def f():\n    import fsspec", "fsspec"),
        ("document.py", "from zishu.formats.jsonl import to_json", "zishu.formats"),
        ("document.py", "def f():\n    from zishu.model.model import Model", "zishu.model.model.Model"),
    ],
)
def test_the_walk_finds_what_it_should(path: str, source: str, name: str) -> None:
    found = violations(path, source)
    assert len(found) == 1
    assert name in found[0]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tree.py", "import os\nfrom zishu.text import characters\nfrom zishu.errors import InvalidTree"),
        ("train/loop.py", "import torch\nfrom zishu import chart\nfrom zishu.train.config import Config"),
        ("train/_hf.py", "from transformers import AutoModel"),
        ("metrics.py", "from zishu import __version__"),
        ("document.py", "def f():\n    from zishu.formats.jsonl import to_json"),
        ("cli/__init__.py", "import zishu\nfrom zishu.train import loop"),
    ],
)
def test_the_walk_lets_pass_what_it_should(path: str, source: str) -> None:
    assert violations(path, source) == []
