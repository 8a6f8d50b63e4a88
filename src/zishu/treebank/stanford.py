"""Convert trees to Stanford Dependencies with the user's own Stanford parser.

The paper's "SD" conversion is made by version 3.3.0 of the Stanford parser, a Java program under the GPL which is
the user's to fetch. This module writes the trees into a file, runs

    java -cp JAR edu.stanford.nlp.trees.international.pennchinese.ChineseGrammaticalStructure
         -basic -conllx -keepPunct -encoding utf-8 -treeFile FILE

and reads the CoNLL-X that it prints. The trees go in with their function tags and without empty elements, all
those of one call in one run, for Java takes a second to start.

Words must come back as they went in. The program corrects what it takes for errors of the treebank and may
lose a word by that: such a sentence has no result. If more than `TOLERATED` of them differ, or if there are more
or fewer sentences, it is another program than this module thinks, and an error.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zishu.errors import FormatError, InputError, ZishuError
from zishu.formats.brackets import format_tree
from zishu.formats.conllu import read_conllu
from zishu.treebank.ctb import Dependencies, unescape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zishu.formats.brackets import Tree
    from zishu.formats.conllu import ConlluSentence

MAIN_CLASS: Final = "edu.stanford.nlp.trees.international.pennchinese.ChineseGrammaticalStructure"
OPTIONS: Final = ("-basic", "-conllx", "-keepPunct", "-encoding", "utf-8")
TOLERATED: Final = 0.01


def find_java(jar: Path) -> str:
    """Return the path of Java; a missing Java or jar is an error that says so."""
    if not jar.is_file():
        raise InputError(f"{jar}: no such file; --stanford-jar wants the stanford-parser.jar of a release")
    java = shutil.which("java")
    if java is None:
        raise ZishuError("java is not on PATH, and the Stanford parser needs it")
    return java


def stanford_dependencies(trees: Sequence[Tree], jar: Path, names: Sequence[str]) -> list[Dependencies | str]:
    """Convert trees without empty elements; a sentence that fails has a string that says why.

    The names are what errors call the sentences. Heads are as the program gives them, a tree or not.
    """
    java = find_java(jar)
    if not trees:
        return []
    # The program runs inside, so the files live as long as it may read or write them, and no longer.
    with tempfile.TemporaryDirectory(prefix="zishu-") as folder:
        parsed = _run(java, jar, trees, Path(folder))
    if len(parsed) != len(trees):
        first = next(
            (
                name
                for name, pair in zip(names, zip(trees, parsed, strict=False), strict=False)
                if _problem(*pair)
            ),
            names[min(len(parsed), len(names) - 1)],
        )
        message = f"{len(parsed)} sentences for {len(trees)} trees, different from {first} on"
        raise ZishuError(f"the Stanford parser's output does not fit: {message}")
    results: list[Dependencies | str] = []
    bad = []
    for name, tree, sentence in zip(names, trees, parsed, strict=True):
        if problem := _problem(tree, sentence):
            bad.append(f"{name}: {problem}")
        results.append(problem or _dependencies(tree, sentence))
    if len(bad) > TOLERATED * len(trees):
        message = f"{len(bad)} of {len(trees)} sentences have other words; the first is {bad[0]}"
        raise ZishuError(f"the Stanford parser's output does not fit: {message}")
    return results


def _run(java: str, jar: Path, trees: Sequence[Tree], folder: Path) -> list[ConlluSentence]:
    """Run the program on the trees, with all its files in a folder."""
    source, output, log = folder / "trees", folder / "output", folder / "log"
    source.write_text("".join(format_tree(tree) + "\n" for tree in trees), encoding="utf-8")
    command = [java, "-cp", str(jar), MAIN_CLASS, *OPTIONS, "-treeFile", str(source)]
    # Files and not pipes: the output of a whole treebank is large, and two pipes have to be read at once.
    with output.open("wb") as out, log.open("wb") as err:
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False
        ).returncode
    if code:
        lines = log.read_text(encoding="utf-8", errors="backslashreplace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        raise ZishuError(f"the Stanford parser failed with exit code {code}: {last}")
    try:
        return list(read_conllu(output, name="its output", dialect="x"))
    except FormatError as error:
        raise ZishuError(f"the Stanford parser did not print CoNLL-X: {error}") from None


def _problem(tree: Tree, sentence: ConlluSentence) -> str:
    """Say how the words of a result differ from those of its tree, the empty string if they do not."""
    words = [leaf.word for leaf in tree.leaves()]
    found = [token.form for token in sentence.tokens]
    if len(words) != len(found):
        return f"the Stanford parser gives {len(found)} words for {len(words)}"
    for number, (word, form) in enumerate(zip(words, found, strict=True), start=1):
        if word != form:
            return f"the Stanford parser gives {form} for word {number}, {word}"
    return ""


def _dependencies(tree: Tree, sentence: ConlluSentence) -> Dependencies | str:
    heads = [token.head for token in sentence.tokens]
    if None in heads:
        return f"the Stanford parser gives no head for word {heads.index(None) + 1}"
    return Dependencies(
        tuple(unescape(token.form) for token in sentence.tokens),
        tuple(leaf.category for leaf in tree.leaves()),
        tuple(head for head in heads if head is not None),
        tuple(token.deprel for token in sentence.tokens),
    )
