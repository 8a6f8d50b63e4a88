"""Write a comparison of systems as Markdown, as LaTeX (booktabs), or as plain values for JSON.

Every format states which sentences were scored, how many, what the numbers mean, and the metrics' signature.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zishu.analysis.compare import DECIMALS
from zishu.analysis.markdown import escape_markdown, markdown_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zishu.analysis.compare import Comparison
    from zishu.metrics import Bootstrap

ABSENT = "-"

_LATEX_TITLES = {"F1seg": "F1$_{seg}$", "UF": "UF$_{dep}$", "LF": "LF$_{dep}$"}
_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    **{char: f"\\{char}" for char in "&%$#_{}"},
}


def to_markdown(comparison: Comparison) -> str:
    """Return a table of scores, a table of differences if there are any, and the notes."""
    titles = list(comparison.titles.values())

    def cell(mean: str, sd: str, best: bool) -> str:
        return (f"**{mean}**" if best else mean) + (f" ± {sd}" if sd else "")

    rows = [[escape_markdown(name), *cells] for name, *cells in score_rows(comparison, cell)]
    blocks = [markdown_table(["system", "seeds", *titles], rows)]
    if comparison.baseline is not None:
        head = [f"difference from {escape_markdown(comparison.baseline)}", *titles]
        rows = [[escape_markdown(name), *cells] for name, cells in difference_rows(comparison)]
        blocks.append(markdown_table(head, rows))
    signed = [f"`{comparison.signature}`"] if comparison.signature else []
    blocks.append(" ".join([*(escape_markdown(note) for note in notes(comparison, best="bold")), *signed]))
    return "\n\n".join(blocks)


def to_latex(comparison: Comparison) -> str:
    """Return a table environment; it needs the package booktabs."""
    titles = [_LATEX_TITLES.get(title, title) for title in comparison.titles.values()]

    def cell(mean: str, sd: str, best: bool) -> str:
        text = "--" if mean == ABSENT else mean
        return (rf"\textbf{{{text}}}" if best else text) + (rf" $\pm$ {sd}" if sd else "")

    rows = [[_escape_latex(name), *cells] for name, *cells in score_rows(comparison, cell)]
    lines = ["% needs \\usepackage{booktabs}", r"\begin{table}[tb]", r"  \centering"]
    lines += _latex_table(["System", "Seeds", *titles], rows)
    if comparison.baseline is not None:
        rows = [
            [_escape_latex(name), *(_latex_difference(cell) for cell in cells)]
            for name, cells in difference_rows(comparison)
        ]
        lines += ["", r"  \medskip"]
        lines += _latex_table([f"Difference from {_escape_latex(comparison.baseline)}", *titles], rows)
    signed = [rf"\texttt{{{_escape_latex(comparison.signature)}}}"] if comparison.signature else []
    caption = " ".join([*(_escape_latex(note) for note in notes(comparison, best="bold")), *signed])
    lines += [rf"  \caption{{{caption}}}", r"\end{table}"]
    return "\n".join(lines)


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """Return everything as plain values, unrounded; `sd` is null for one seed."""
    return {
        "set": comparison.part,
        "given_words": comparison.given_words,
        "sentences": comparison.sentences,
        "signature": comparison.signature,
        "metrics": comparison.titles,
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
                    metric: {
                        "difference": test.difference,
                        "low": test.low,
                        "high": test.high,
                        "p_value": test.p_value,
                    }
                    for metric, test in system.differences.items()
                },
            }
            for system in comparison.systems
        ],
    }


def score_rows(comparison: Comparison, cell: Callable[[str, str, bool], str]) -> Iterator[tuple[str, ...]]:
    """Yield the name of each system, the number of its seeds, and its scores as text.

    `cell` writes a score: it gets the mean, the standard deviation (empty for one seed), and whether it is the best.
    """
    for system in comparison.systems:
        cells = []
        for metric in comparison.metrics:
            score = system.scores.get(metric)
            mean = ABSENT if score is None else f"{score.mean:.{DECIMALS}f}"
            sd = "" if score is None or score.sd is None else f"{score.sd:.{DECIMALS}f}"
            cells.append(cell(mean, sd, system.name in comparison.best(metric)))
        yield system.name, str(len(system.runs)), *cells


def difference_rows(comparison: Comparison) -> Iterator[tuple[str, list[str]]]:
    """Yield the differences of every tested system as text."""
    for system in comparison.systems:
        if system.differences:
            yield system.name, [_difference(system.differences.get(m)) for m in comparison.metrics]


def notes(comparison: Comparison, *, best: str) -> list[str]:
    """Return the notes below a table, without the signature; `best` says how the best mean is marked."""
    words = "with given words" if comparison.given_words else "from raw text"
    size = "" if comparison.sentences is None else f", {comparison.sentences:,} sentences"
    lines = [f"{comparison.part.capitalize()} set {words}{size}."]
    if any(len(system.runs) > 1 for system in comparison.systems):
        lines.append("Mean ± standard deviation over seeds.")
    if any(comparison.best(metric) for metric in comparison.metrics):
        lines.append(f"Best mean: {best}.")
    if comparison.baseline is not None:
        drawn = "sentences and seeds" if comparison.draw_seeds else "sentences"
        lines.append(
            f"Differences: 95% interval in brackets; two-sided p by paired bootstrap over {drawn}, "
            f"{comparison.samples:,} samples."
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
    p = "p<0.001" if test.p_value < 0.001 else f"p={test.p_value:.3f}"
    return f"{test.difference:+.{d}f} [{test.low:+.{d}f}, {test.high:+.{d}f}] {p}"


def _latex_table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    lines = [rf"  \begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"  \toprule"]
    lines += [rf"  {' & '.join(head)} \\", r"  \midrule"]
    lines += [rf"  {' & '.join(cells)} \\" for cells in rows]
    return [*lines, r"  \bottomrule", r"  \end{tabular}"]


def _latex_difference(cell: str) -> str:
    """Set the numbers in math mode, where a hyphen is a minus sign."""
    if cell == ABSENT:
        return "--"
    cell = re.sub(r"[+-][\d.]+", lambda number: f"${number[0]}$", cell)
    return re.sub(r"p([=<])([\d.]+)", r"$p\1\2$", cell)


def _escape_latex(text: str) -> str:
    return "".join(_LATEX_ESCAPES.get(char, char) for char in text)
