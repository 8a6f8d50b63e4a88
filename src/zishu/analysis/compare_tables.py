"""Write a comparison of systems as tables of text, as Markdown, as LaTeX (booktabs), or as plain values for JSON.

Every format states which sentences were scored, how many, what the numbers mean, and the metrics' signature.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zishu.analysis.compare import DECIMALS, Comparison
from zishu.analysis.tables import ABSENT, Table, escape_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zishu.metrics import Bootstrap

_TESTED = ("difference", "low", "high", "p_value", "p_corrected")
_LATEX_TITLES = {"seeds": "Seeds", "F1seg": "F1$_{seg}$", "UF": "UF$_{dep}$", "LF": "LF$_{dep}$"}
_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    **{char: f"\\{char}" for char in "&%$#_{}"},
}


def to_text(comparison: Comparison) -> tuple[list[Table], list[str]]:
    """Return the tables of scores and differences, and the notes below them with the signature."""

    def cell(mean: str, sd: str, best: bool) -> str:
        # The mark, or a blank instead, keeps the numbers of a column aligned.
        return (f"{mean} ± {sd}" if sd else mean) + ("*" if best else " ")

    scores, *differences = _tables(comparison, cell)
    head = (*scores.header[:2], *(f"{title} " for title in scores.header[2:]))
    signed = [comparison.signature] if comparison.signature else []
    return [Table(head, scores.rows), *differences], [*_notes(comparison, best="*"), *signed]


def to_markdown(comparison: Comparison) -> str:
    """Return a table of scores, a table of differences if there are any, and the notes."""

    def cell(mean: str, sd: str, best: bool) -> str:
        return (f"**{mean}**" if best else mean) + (f" ± {sd}" if sd else "")

    blocks = [table.to_markdown() for table in _tables(comparison, cell, escape_markdown)]
    signed = [f"`{comparison.signature}`"] if comparison.signature else []
    notes = [escape_markdown(note) for note in _notes(comparison, best="bold")]
    return "\n\n".join([*blocks, " ".join([*notes, *signed])])


def to_latex(comparison: Comparison) -> str:
    """Return a table environment; it needs the package booktabs."""

    def cell(mean: str, sd: str, best: bool) -> str:
        text = "--" if mean == ABSENT else mean
        return (rf"\textbf{{{text}}}" if best else text) + (rf" $\pm$ {sd}" if sd else "")

    scores, *differences = _tables(comparison, cell, _escape_latex)
    lines = ["% needs \\usepackage{booktabs}", r"\begin{table}[tb]", r"  \centering"]
    lines.append(Table(_latex_titles(scores.header), scores.rows).to_latex())
    for table in differences:
        rows = [[name, *map(_latex_difference, cells)] for name, *cells in table.rows]
        lines += ["", r"  \medskip", Table(_latex_titles(table.header), rows).to_latex()]
    signed = [rf"\texttt{{{_escape_latex(comparison.signature)}}}"] if comparison.signature else []
    caption = " ".join([*(_escape_latex(note) for note in _notes(comparison, best="bold")), *signed])
    lines += [rf"  \caption{{{caption}}}", r"\end{table}"]
    return "\n".join(lines)


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """Return everything as plain values, unrounded; `sd` is null for one seed."""
    return {
        "set": comparison.part,
        "given_words": comparison.given_words,
        "sentences": comparison.sentences,
        "signature": comparison.signature,
        "metrics": dict(comparison.titles),
        "baseline": comparison.baseline,
        "samples": comparison.samples if comparison.baseline is not None else None,
        "draw_seeds": comparison.draw_seeds,
        "unchecked": list(comparison.unchecked),
        "systems": [
            {
                "name": system.name,
                "seeds": [run.seed for run in system.runs],
                "runs": [run.path.as_posix() for run in system.runs],
                "scores": {
                    metric: {"mean": score.mean, "sd": score.sd, "values": list(score.values)}
                    for metric, score in system.scores.items()
                },
                "differences": {
                    metric: {name: getattr(test, name) for name in _TESTED}
                    for metric, test in system.differences.items()
                },
            }
            for system in comparison.systems
        ],
    }


def _tables(
    comparison: Comparison,
    cell: Callable[[str, str, bool], str],
    escape: Callable[[str], str] = lambda name: name,
) -> list[Table]:
    """Lay out the scores and, if there are any, the differences from the baseline.

    `cell` writes a score: it gets the mean, the standard deviation (empty for one seed), and whether it is the best.
    `escape` is for names.
    """
    titles = comparison.titles.values()
    rows, differences = [], []
    for system in comparison.systems:
        cells = []
        for metric in comparison.titles:
            score = system.scores.get(metric)
            mean = ABSENT if score is None else f"{score.mean:.{DECIMALS}f}"
            sd = "" if score is None or score.sd is None else f"{score.sd:.{DECIMALS}f}"
            cells.append(cell(mean, sd, system.name in comparison.best(metric)))
        rows.append((escape(system.name), str(len(system.runs)), *cells))
        if system.differences:
            tests = (_difference(system.differences.get(metric)) for metric in comparison.titles)
            differences.append((escape(system.name), *tests))
    tables = [Table(("system", "seeds", *titles), rows)]
    if comparison.baseline is not None:
        tables.append(Table((f"difference from {escape(comparison.baseline)}", *titles), differences))
    return tables


def _notes(comparison: Comparison, *, best: str) -> list[str]:
    """Return the notes below a table, without the signature; `best` says how the best mean is marked."""
    words = "with given words" if comparison.given_words else "from raw text"
    size = "" if comparison.sentences is None else f", {comparison.sentences:,} sentences"
    lines = [f"{comparison.part.capitalize()} set {words}{size}."]
    if any(len(system.runs) > 1 for system in comparison.systems):
        lines.append("Mean ± standard deviation over seeds.")
    if any(comparison.best(metric) for metric in comparison.titles):
        lines.append(f"Best mean: {best}.")
    if comparison.baseline is not None:
        drawn = "sentences and seeds" if comparison.draw_seeds else "sentences"
        tests = sum(len(system.differences) for system in comparison.systems)
        corrected = f", corrected for {tests} tests (Holm)" if tests > 1 else ""
        lines.append(
            f"Differences: 95% interval in brackets; two-sided p by paired bootstrap over {drawn}, "
            f"{comparison.samples:,} samples{corrected}."
        )
    if comparison.signature is None:
        lines.append("Number of sentences and signature unknown: no evaluation files.")
    elif comparison.unchecked:
        lines.append(
            f"Not checked to use the same sentences, and not tested: {', '.join(comparison.unchecked)}."
        )
    return lines


def _difference(test: Bootstrap | None) -> str:
    if test is None:
        return ABSENT
    d = DECIMALS
    p = "p<0.001" if test.p_corrected < 0.001 else f"p={test.p_corrected:.3f}"
    return f"{test.difference:+.{d}f} [{test.low:+.{d}f}, {test.high:+.{d}f}] {p}"


def _latex_titles(header: Sequence[str]) -> list[str]:
    name, *titles = header
    return [name[0].upper() + name[1:], *(_LATEX_TITLES.get(title, title) for title in titles)]


def _latex_difference(cell: str) -> str:
    """Set the numbers in math mode, where a hyphen is a minus sign."""
    if cell == ABSENT:
        return "--"
    cell = re.sub(r"[+-][\d.]+", lambda number: f"${number[0]}$", cell)
    return re.sub(r"p([=<])([\d.]+)", r"$p\1\2$", cell)


def _escape_latex(text: str) -> str:
    return "".join(_LATEX_ESCAPES.get(char, char) for char in text)
