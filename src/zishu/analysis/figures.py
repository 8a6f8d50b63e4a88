"""Draw a study: the structures inside words with their shares, and attachment by word length.

    for name, picture in draw_figures(report, "svg", fonts).items(): ...

There are two kinds of figure. `structures-2`, `-3` and `-4` have one row for every structure that occurs (Tables 4 and
6 of the paper). The structure is drawn as arcs above dots (the filled dot is the root, arrows point at dependents),
with an example and one bar each for every system and the reference. `uas-by-length` is Figure 4. A figure is returned
as bytes, and the caller writes it. The same study always gives the same bytes.

Matplotlib is imported when the first figure is drawn, and never through pyplot: no window, no global state.
"""

from __future__ import annotations

import io
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.cells import cell_len  # a Chinese character is two columns wide

from zishu.analysis.study import STRUCTURE_LENGTHS, Attachment, Study

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from zishu.analysis.fonts import Fonts
    from zishu.analysis.structures import Heads

FORMATS: Final = ("svg", "png")
REFERENCE: Final = "reference"

# All sizes are in inches. One unit of a diagram is one inch, so that dots stay round.
_STEP: Final = 0.24  # between two dots
_DOT: Final = 0.035  # radius
_ARC: Final = 0.13  # height of an arc between neighbours
_BAR: Final = 0.15  # thickness of a bar
_MARGIN: Final = 0.15
_EXAMPLE: Final = 0.9
_LINE: Final = 0.2  # height of a legend line
_BARS: Final = 4.2
_HEADER: Final = 0.5
_FOOTER: Final = 0.5
_RESOLUTION: Final = 160
_GREY: Final = "0.6"


class _Series(NamedTuple):
    """Hold the bars of one colour."""

    name: str
    colour: str
    values: list[float]


def labels(study: Study) -> list[str]:
    """Return the texts of a study's figures that may need another font: system names and examples."""
    return [*study.systems, *study.examples.values()]


def draw_figures(study: Study, kind: str, fonts: Fonts) -> dict[str, bytes]:
    """Draw all figures of a study as SVG or PNG, by name; figures without numbers are omitted.

    Examples that the fonts cannot show are omitted; such system names become numbers.
    """
    from matplotlib import rc_context

    settings: dict[Any, Any] = {
        "font.family": list(fonts.families),
        "font.size": 9,
        "text.parse_math": False,  # show a dollar sign in a name as it is
        "svg.fonttype": "path",
        "svg.hashsalt": "zishu",  # otherwise the ids inside an SVG file are random
    }
    # A date would make two files of the same figure differ.
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    drawn = {}
    with rc_context(settings):
        figures = {
            f"structures-{length}": _structures(study, length, fonts)
            for length in STRUCTURE_LENGTHS
            if study.structures(length)
        }
        if any(at.uas for system in study.systems.values() for at in system.attachment.values()):
            attachments = {name: system.attachment for name, system in study.systems.items()}
            figures["uas-by-length"] = _uas(attachments, fonts)
        for name, figure in figures.items():
            picture = io.BytesIO()
            figure.savefig(picture, format=kind, dpi=_RESOLUTION, metadata=metadata)
            drawn[name] = picture.getvalue()
    return drawn


def _structures(study: Study, length: int, fonts: Fonts) -> Figure:
    """Draw the structures of one length below each other: diagram, example, bars."""
    from matplotlib.figure import Figure

    rows = study.structures(length)
    series = []
    names = _shown(list(study.systems), fonts)
    for k, (name, system) in enumerate(zip(names, study.systems.values(), strict=True)):
        found = [system.share(heads) for heads in rows]
        if any(found):
            series.append(_Series(name, f"C{k % 10}", [share.mean if share else 0.0 for share in found]))
    known = [study.reference_share(heads) for heads in rows]
    if any(known):
        series.append(_Series(REFERENCE, _GREY, [share or 0.0 for share in known]))

    # A row is as high as its arcs or its bars.
    pitch = max(_BAR * len(series), _ARC * (length - 1) + 2 * _DOT) + _MARGIN
    diagram = _STEP * (length - 1) + 4 * _DOT + 2 * _MARGIN
    # If no font has Chinese characters, the few remaining examples (mostly numbers) would mislead.
    shown = [fonts.can_show(study.examples[heads]) for heads in rows]
    examples = 2 * sum(shown) > len(shown)
    left = diagram + _EXAMPLE * examples
    columns = _columns([each.name for each in series], _BARS)
    header = _HEADER + _LINE * ceil(len(series) / columns)
    width, height = left + _BARS + 4 * _MARGIN, header + pitch * len(rows) + _FOOTER
    figure = Figure(figsize=(width, height))

    field = figure.add_axes((0, 0, left / width, 1), xlim=(0, left), ylim=(0, height), frameon=False)
    field.set_axis_off()
    bars = figure.add_axes(
        (left / width, _FOOTER / height, _BARS / width, pitch * len(rows) / height),
        ylim=(len(rows) - 0.5, -0.5),
    )
    for row, heads in enumerate(rows):
        base = height - header - pitch * (row + 0.5) - _ARC * (length - 1) / 2
        _arcs(field, heads, _MARGIN + 2 * _DOT, base)
        if examples and shown[row]:
            field.text(diagram, base, study.examples[heads], va="center_baseline", fontsize=10)
    _bars(bars, series, thickness=_BAR / pitch)
    bars.set(xlabel="% of words", yticks=[])
    if len(series) > 1:
        _legend(
            figure, bars, [each.name for each in series], columns, (left / width, 1 - (header - 0.1) / height)
        )
    title = f"Words of {length} characters: {study.by_length[length]:,}"
    field.text(_MARGIN, height - _MARGIN, title, va="top", fontsize=11)
    return figure


def _arcs(axes: Axes, heads: Heads, x: float, y: float) -> None:
    """Draw one structure above its dots; x and y are the position of the first dot."""
    from matplotlib.patches import Circle, FancyArrowPatch
    from matplotlib.path import Path

    for d, h in enumerate(heads, start=1):
        place, inside = x + _STEP * (d - 1), "white" if h else "black"
        axes.add_patch(Circle((place, y), _DOT, facecolor=inside, edgecolor="black", lw=0.8))
        if not h:
            continue
        # Arcs leave a head slightly off its centre so that they do not touch the incoming arc.
        side = 1 if h > d else -1
        start, end = x + _STEP * (h - 1) - 0.6 * _DOT * side, place
        top, tip = y + 1.2 * _DOT, y + 1.5 * _DOT
        # The peak of this curve lies at three quarters of the height of its handles.
        handle = top + _ARC * abs(h - d) * 4 / 3
        bend = 0.25 * (start - end)
        points = [(start, top), (start - bend, handle), (end + bend, handle), (end, tip)]
        curve = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
        style: Any = {"arrowstyle": "-|>", "color": "black", "capstyle": "butt"}
        axes.add_patch(FancyArrowPatch(path=curve, mutation_scale=5, lw=0.8, **style))


def _bars(axes: Axes, series: Sequence[_Series], *, thickness: float) -> None:
    """Draw horizontal bars in groups, each with its number."""
    top = max(max(each.values) for each in series)
    for k, each in enumerate(series):
        places = [row + (k - (len(series) - 1) / 2) * thickness for row in range(len(each.values))]
        drawn = axes.barh(places, each.values, height=0.85 * thickness, color=each.colour)
        axes.bar_label(drawn, fmt="{:.2f}", padding=2, fontsize=7)
    axes.set_xlim(0, 1.12 * top)  # space for the number of the longest bar
    axes.spines[["top", "right"]].set_visible(False)


def _uas(attachments: Mapping[str, Mapping[str, Attachment]], fonts: Fonts) -> Figure:
    """Draw one group of bars for each word length, with the deviation over seeds."""
    from matplotlib.figure import Figure

    names = _shown(list(attachments), fonts)
    first = next(iter(attachments.values()))
    lengths = [length for length, at in first.items() if at.uas]
    bar = 0.8 / len(names)
    width = max(5.0, 1.2 + 0.45 * len(lengths) * (len(names) + 1))
    columns = _columns(names, width - 0.9)
    above, below = 0.25 + _LINE * ceil(len(names) / columns), 0.7
    height = below + 2.4 + above
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0.75 / width, below / height, 1 - 0.9 / width, 2.4 / height))
    values = []
    for k, by_length in enumerate(attachments.values()):
        averages = [at for length in lengths if (at := by_length[length].uas) is not None]
        means, spread = [a.mean for a in averages], [a.sd or 0.0 for a in averages]
        values += [mean - std for mean, std in zip(means, spread, strict=True)]
        places = [group + (k - (len(names) - 1) / 2) * bar for group in range(len(lengths))]
        error: Any = {"yerr": spread if any(spread) else None, "ecolor": "0.2", "capsize": 2}
        drawn = axes.bar(places, means, 0.9 * bar, color=f"C{k % 10}", **error)
        axes.bar_label(drawn, fmt="{:.2f}", padding=2, fontsize=7)
    # Differences between systems are small compared with the scores, so the axis does not start at zero.
    axes.set_ylim(bottom=max(0.0, 5 * (min(values) // 5) - 5))
    axes.set_yticks([tick for tick in axes.get_yticks() if tick <= 100])
    ticks = [f"{length.replace('4+', '≥ 4')}\n{first[length].words:,} words" for length in lengths]
    axes.set_xticks(range(len(lengths)), ticks)
    axes.set(xlabel="characters in word", ylabel="UAS, given words (%)")
    axes.spines[["top", "right"]].set_visible(False)
    if len(names) > 1:
        _legend(figure, axes, names, columns, (0.75 / width, 1 - (above - 0.15) / height))
    return figure


def _columns(names: Sequence[str], width: float) -> int:
    """Return how many names of a legend fit in one row."""
    longest = max(cell_len(name) for name in names)
    return max(1, min(len(names), int(width / (0.4 + 0.075 * longest))))


def _legend(
    figure: Figure, axes: Axes, names: Sequence[str], columns: int, place: tuple[float, float]
) -> None:
    handles = [container[0] for container in axes.containers if hasattr(container, "patches")]
    keys = [str(k) for k in range(len(names))]
    legend = figure.legend(
        handles, keys, loc="lower left", bbox_to_anchor=place, ncols=columns, frameon=False,
        borderaxespad=0, handlelength=1, columnspacing=1.2,
    )  # fmt: skip
    # Set labels here: Matplotlib hides those that begin with an underscore if they are passed in the call.
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)


def _shown(names: Sequence[str], fonts: Fonts) -> list[str]:
    """Return names as they can be drawn, with a number for every name that the fonts lack."""
    return [name if fonts.can_show(name) else f"system {k}" for k, name in enumerate(names, start=1)]
