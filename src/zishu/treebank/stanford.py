"""Convert trees to Stanford Dependencies with the user's own Stanford parser.

The paper's "SD" conversion uses version 3.3.0 of the Stanford parser, a Java program under the GPL that users must
download themselves. This module writes the trees into a file, runs

    java -cp JAR edu.stanford.nlp.trees.international.pennchinese.ChineseGrammaticalStructure
         -basic -conllx -keepPunct -encoding utf-8 -treeFile FILE

and reads the CoNLL-X that it prints. The trees keep their function tags but have no empty elements. One run converts
all trees of a call, because Java takes a second to start.

The result is matched with the trees by `zishu.treebank.converted`.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zishu.errors import FormatError, InputError, ZishuError
from zishu.formats.brackets import Tree, format_tree
from zishu.formats.conllu import read_conllu
from zishu.treebank.converted import match_trees

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zishu.tree import WordTree

MAIN_CLASS: Final = "edu.stanford.nlp.trees.international.pennchinese.ChineseGrammaticalStructure"
OPTIONS: Final = ("-basic", "-conllx", "-keepPunct", "-encoding", "utf-8")


def find_java(jar: Path) -> str:
    """Return the path of Java; raise an error if Java or the jar is missing."""
    if not jar.is_file():
        raise InputError(
            f"{jar}: no such file; --stanford-jar must name the stanford-parser.jar of a release"
        )
    java = shutil.which("java")
    if java is None:
        raise ZishuError("java is not on PATH, and the Stanford parser needs it")
    return java


def stanford_dependencies(trees: Sequence[Tree], jar: Path) -> list[WordTree | str]:
    """Convert trees without empty elements; a sentence that fails has the reason as a string."""
    java = find_java(jar)
    if not trees:
        return []
    # The program runs inside this block, so its files exist exactly as long as it needs them.
    with tempfile.TemporaryDirectory(prefix="zishu-") as folder:
        source, output, log = (Path(folder, name) for name in ("trees", "output", "log"))
        source.write_text("".join(format_tree(tree) + "\n" for tree in trees), encoding="utf-8")
        command = [java, "-cp", str(jar), MAIN_CLASS, *OPTIONS, "-treeFile", str(source)]
        # Files instead of pipes: the output of a whole treebank is large, and two pipes must be read at once.
        with output.open("wb") as out, log.open("wb") as err:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False)
        if done.returncode:
            lines = log.read_text(encoding="utf-8", errors="backslashreplace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
            raise ZishuError(f"the Stanford parser failed with exit code {done.returncode}: {last}")
        try:
            parsed = list(read_conllu(output, name="its output", dialect="x"))
        except FormatError as error:
            raise ZishuError(f"the Stanford parser did not print CoNLL-X: {error}") from None
    return match_trees(trees, parsed, "the Stanford parser's output")
