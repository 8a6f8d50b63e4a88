"""Draw a parsed sentence as SVG: a figure like those of the paper, for print or for a web page.

The characters of the sentence stand on a line. Each word has a shaded box, with its part of speech below. Solid arcs
above connect words and carry their relations; as in the paper's Figure 1b, they lead from the root character of the
head to the root character of the dependent. Dashed arcs below, in another colour, are the trees inside words; Latin
words and numbers have none. The arrow from above marks the root of the sentence.

Sizes are computed from text widths. Words move apart until every relation fits above its arc, and arcs are stacked so
that no two overlap. Widths are estimates (a Chinese character is as wide as it is high, other letters are slightly
wider than half of that), because the reader's fonts are unknown.

The result is a complete XML document that can also be embedded in an HTML page: it has no ids that could clash, and
lines and letters take the colour of the surrounding text (`currentColor`), which is black in a separate file. A title
and a description make it accessible, and the tooltip of each word shows its probabilities. There are three layers:
`Sentence` is the data, `layout` computes positions, `to_svg` writes markup. Cost: milliseconds; time grows with the
square of the number of words.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from zishu.render._cells import cells, drawn_heads, visible
from zishu.text import characters
from zishu.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zishu.document import Sentence, Word

FONTS: Final = (
    "'Noto Sans CJK SC','Noto Sans SC','Source Han Sans SC','PingFang SC','Hiragino Sans GB','Microsoft YaHei',"
    "'WenQuanYi Zen Hei',sans-serif"
)
INNER_COLOUR: Final = "#d9480f"  # colour of the arcs inside words; readable on white and on black
DOUBT_COLOUR: Final = "#f08c00"

_BROAD: Final = frozenset("mwMW%@—…")  # letters that are nearly as wide as they are high

# All sizes are in pixels.
_MARGIN: Final = 12.0
_CHAR_SIZE: Final = 20.0
_CHAR_ROOM: Final = 2.0  # extra width per character
_BOX_HEIGHT: Final = 28.0
_BOX_PADDING: Final = 3.0
_WORD_GAP: Final = 12.0
_LABEL_SIZE: Final = 11.0
_LABEL_HEIGHT: Final = 13.0
_LABEL_ROOM: Final = 10.0  # how much longer than its label an arc must be
_TAG_SIZE: Final = 10.0
_LEVEL: Final = 19.0  # distance between two arcs, with a label between them
_FIRST_LEVEL: Final = 20.0
_INNER_LEVEL: Final = 8.0
_FIRST_INNER_LEVEL: Final = 11.0
_INNER_SIZE: Final = 8.0
_INNER_HEIGHT: Final = 9.0  # height of the name of a relation inside a word
_PORT: Final = 6.0  # distance between a character's incoming arrow and its outgoing arcs
_INNER_PORT: Final = 4.0
_TIP: Final = 6.0  # length of an arrowhead

# By the kind of a text: font size, distance of the baseline from the box's upper edge, more attributes.
_STYLES: Final = {
    "char": (_CHAR_SIZE, 21.5, ""),
    "relation": (_LABEL_SIZE, 10.5, ""),
    "tag": (_TAG_SIZE, 10.5, ' opacity="0.65"'),
    "inner": (_INNER_SIZE, 7.0, f' fill="{INNER_COLOUR}"'),
}


# --- layout ---


class Box(NamedTuple):
    """Hold a rectangle by its upper left corner."""

    x: float
    y: float
    width: float
    height: float


class Label(NamedTuple):
    """Hold a text centred in its box."""

    kind: Literal["char", "relation", "tag", "inner"]
    text: str
    box: Box


class Curve(NamedTuple):
    """Hold a line from (`start`, `foot`) over the height `top` to its tip at (`end`, `foot`).

    An arc from ROOT is a straight line.
    """

    kind: Literal["inter", "inner", "root"]
    start: float
    end: float
    foot: float
    top: float


class Layout(NamedTuple):
    """Hold the position of everything; `words[i]` is the box of word i + 1."""

    width: float
    height: float
    words: tuple[Box, ...]
    labels: tuple[Label, ...]
    arcs: tuple[Curve, ...]


class _Shape(NamedTuple):
    """Hold the place of a word: its left edge and width, its characters, their centres, and which one is the root."""

    left: float
    width: float
    chars: list[str]
    centres: list[float]
    root: int

    @property
    def anchor(self) -> float:
        """Return the centre of the root character, where arcs between words end."""
        return self.centres[self.root]


def layout(sentence: Sentence, *, relations: bool = False) -> Layout:
    """Place everything so that no two texts overlap; `relations` adds the relations inside words."""
    words = sentence.words
    shapes = _place(words)
    levels = _levels([(word.head, word.id) for word in words if word.head != ROOT])
    top_level = max(levels.values(), default=0) + 1
    foot = _MARGIN + _LABEL_HEIGHT + _FIRST_LEVEL + (top_level - 1) * _LEVEL
    box_top = foot + 2.0
    inner_foot = box_top + _BOX_HEIGHT + 1.0

    arcs: list[Curve] = []
    labels: list[Label] = []
    for word in words:
        end = shapes[word.id - 1].anchor
        top = foot - _FIRST_LEVEL - (levels.get((word.head, word.id), top_level) - 1) * _LEVEL
        if word.head == ROOT:
            arcs.append(Curve("root", end, end, foot, top))
            labels.append(_label("relation", word.deprel, end, top - _LABEL_HEIGHT))
        else:
            start = shapes[word.head - 1].anchor + _side(word.head, word.id) * _PORT
            arcs.append(Curve("inter", start, end, foot, top))
            labels.append(_label("relation", word.deprel, (start + end) / 2, top - _LABEL_HEIGHT - 1))

    deepest = inner_foot
    for word, shape in zip(words, shapes, strict=True):
        for char, centre in zip(shape.chars, shape.centres, strict=True):
            width = _text_width(char, _CHAR_SIZE)
            labels.append(Label("char", char, Box(centre - width / 2, box_top, width, _BOX_HEIGHT)))
        named = relations and word.char_rels is not None
        for arc, relation in _inner_arcs(word, shape, inner_foot, named=named):
            arcs.append(arc)
            deepest = max(deepest, arc.top)
            if named:
                centre = (arc.start + arc.end) / 2
                labels.append(_label("inner", relation, centre, arc.top))
                deepest = max(deepest, arc.top + _INNER_HEIGHT)
    tag_top = deepest + 4.0
    for word, shape in zip(words, shapes, strict=True):
        if word.upos:
            labels.append(_label("tag", word.upos, shape.left + shape.width / 2, tag_top))
    boxes = [Box(shape.left, box_top, shape.width, _BOX_HEIGHT) for shape in shapes]
    return _framed(boxes, labels, arcs)


def _shape(word: Word) -> _Shape:
    """Return the shape of a word at the left edge."""
    chars = [visible(char) for char in word.chars]
    centres: list[float] = []
    edge = _BOX_PADDING
    for char in chars:
        width = _text_width(char, _CHAR_SIZE) + _CHAR_ROOM
        centres.append(edge + width / 2)
        edge += width
    root = len(chars) - 1 if word.root is None else word.root
    return _Shape(0.0, edge + _BOX_PADDING, chars, centres, root)


def _text_width(text: str, size: float) -> float:
    """Estimate the width of a text; generous for Latin letters, most of which are narrower."""
    return size * sum(1.0 if cells(c) == 2 else 0.9 if c in _BROAD else 0.62 for c in characters(text))


def _place(words: Sequence[Word]) -> list[_Shape]:
    """Place every word as close to its neighbour as tags and relations allow."""
    shapes: list[_Shape] = []
    ends: list[list[Word]] = [[] for _ in range(len(words) + 1)]  # dependents by the right end of their arc
    for word in words:
        if word.head != ROOT:
            ends[max(word.head, word.id)].append(word)
    for b, shape in enumerate(map(_shape, words), start=1):
        left = 0.0
        if shapes:
            before = shapes[-1]
            tags = (
                _text_width(words[b - 2].upos or "", _TAG_SIZE)
                + _text_width(words[b - 1].upos or "", _TAG_SIZE)
            ) / 2
            middle = before.left + before.width / 2
            left = max(before.left + before.width + _WORD_GAP, middle + tags + 6.0 - shape.width / 2)
        for word in ends[b]:
            need = _text_width(visible(word.deprel), _LABEL_SIZE) + _LABEL_ROOM + _PORT
            left = max(left, shapes[min(word.head, word.id) - 1].anchor + need - shape.anchor)
        shapes.append(shape._replace(left=left, centres=[left + centre for centre in shape.centres]))
    return shapes


def _levels(arcs: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Give every arc (head, dependent) a level from 1, above all shorter arcs that it spans."""
    levels: dict[tuple[int, int], int] = {}
    for arc in sorted(arcs, key=lambda arc: abs(arc[0] - arc[1])):
        left, right = min(arc), max(arc)
        below = (level for other, level in levels.items() if min(other) < right and left < max(other))
        levels[arc] = 1 + max(below, default=0)
    return levels


def _side(head: int, dependent: int) -> int:
    """Tell on which side of the head its arc begins. The arrow into the head lies between the two sides."""
    return 1 if dependent > head else -1


def _inner_arcs(word: Word, shape: _Shape, foot: float, *, named: bool) -> list[tuple[Curve, str]]:
    """Return the arcs inside a word and their relations, with space for the relation names below them."""
    heads = drawn_heads(word)
    if heads is None:
        return []
    pairs = [(h, d) for d, h in enumerate(heads, start=1) if h != ROOT]
    step = _INNER_LEVEL + (_INNER_HEIGHT if named else 0.0)
    found = []
    for (h, d), level in _levels(pairs).items():
        start = shape.centres[h - 1] + _side(h, d) * _INNER_PORT
        top = foot + _FIRST_INNER_LEVEL + (level - 1) * step
        arc = Curve("inner", start, shape.centres[d - 1], foot, top)
        found.append((arc, word.char_rels[d - 1] if word.char_rels else ""))
    return found


def _label(kind: Literal["relation", "tag", "inner"], text: str, centre: float, top: float) -> Label:
    text = visible(text)
    width = _text_width(text, _STYLES[kind][0])
    height = _INNER_HEIGHT if kind == "inner" else _LABEL_HEIGHT
    return Label(kind, text, Box(centre - width / 2, top, width, height))


def _framed(boxes: Sequence[Box], labels: Sequence[Label], arcs: Sequence[Curve]) -> Layout:
    """Move everything into a frame that begins at (0, 0) and has a margin."""
    all_boxes = [*boxes, *(label.box for label in labels)]
    shift = _MARGIN - min(box.x for box in all_boxes)
    rise = _MARGIN - min(box.y for box in all_boxes)
    bottom = max([*(box.y + box.height for box in all_boxes), *(arc.top for arc in arcs)])

    def moved(box: Box) -> Box:
        return box._replace(x=box.x + shift, y=box.y + rise)

    return Layout(
        width=max(box.x + box.width for box in all_boxes) + shift + _MARGIN,
        height=bottom + rise + _MARGIN,
        words=tuple(map(moved, boxes)),
        labels=tuple([label._replace(box=moved(label.box)) for label in labels]),
        arcs=tuple(Curve(a.kind, a.start + shift, a.end + shift, a.foot + rise, a.top + rise) for a in arcs),
    )


# --- markup ---


def to_svg(
    *sentences: Sentence,
    confidence: bool = False,
    relations: bool = False,
    colour: str | None = None,
    background: str | None = None,
) -> str:
    """Return the figure of one sentence, or of several below one another, as an XML document.

    With `confidence`, the boxes of less certain words are filled more strongly. With `relations`, the arcs inside words
    show their relations if these are known. `colour` and `background` are CSS colours that replace the colour of the
    surrounding text and the transparent background.
    """
    places = [layout(sentence, relations=relations) for sentence in sentences]
    width = _number(max((place.width for place in places), default=0.0))
    height = _number(sum(place.height for place in places))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" xml:lang="zh" class="zishu" font-family="{FONTS}"'
        + (f' color="{_text(colour)}"' if colour else "")
        + ">",
        f"<title>{_text(' '.join(' '.join(sentence.text for sentence in sentences).split()))}</title>",
        f"<desc>{_text(' '.join(map(_description, sentences)))}</desc>",
    ]
    if background:
        parts.append(f'<rect width="{width}" height="{height}" fill="{_text(background)}"/>')
    top = 0.0
    for sentence, place in zip(sentences, places, strict=True):
        figure = _figure(sentence, place, confidence)
        parts += [f'<g transform="translate(0 {_number(top)})">', *figure, "</g>"] if top else figure
        top += place.height
    parts.append("</svg>\n")
    return "\n".join(parts)


def _figure(sentence: Sentence, places: Layout, confidence: bool) -> list[str]:
    """Return the markup inside the figure of a sentence."""
    parts = [_box(word, box, confidence) for word, box in zip(sentence.words, places.words, strict=True)]
    parts.append('<g fill="none" stroke="currentColor" stroke-width="1.1">')
    parts += [_arc(arc) for arc in places.arcs if arc.kind != "inner"]
    parts.append(f'</g>\n<g fill="none" stroke="{INNER_COLOUR}" stroke-width="1.3">')
    parts += [_arc(arc) for arc in places.arcs if arc.kind == "inner"]
    parts.append('</g>\n<g fill="currentColor" text-anchor="middle">')
    parts += [_text_element(label) for label in places.labels]
    parts.append("</g>")
    return parts


def _text(value: str) -> str:
    """Escape a string for XML text and attributes."""
    return escape(visible(value))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _description(sentence: Sentence) -> str:
    words = sentence.words
    parts = [
        f"{word.form} ({word.deprel}{f' of {words[word.head - 1].form}' if word.head else ''})"
        for word in words
    ]
    return f"Dependency tree of {len(words)} word{'s' * (len(words) != 1)}: {', '.join(parts)}."


def _box(word: Word, box: Box, confidence: bool) -> str:
    fill = 'fill="currentColor" fill-opacity="0.06"'
    if confidence and word.prob is not None:
        fill = f'fill="{DOUBT_COLOUR}" fill-opacity="{0.04 + 0.66 * (1 - word.prob):.2f}"'
    named = (
        ("word", word.boundary_prob),
        ("head", word.head_prob),
        ("relation", word.label_prob),
        ("part of speech", word.upos_prob),
        ("structure", word.structure_prob if len(word.form) > 1 else None),
        ("word without the lexicon", word.boundary_prob_without_lexicon),
    )
    chances = ", ".join(f"{name} {prob:.2f}" for name, prob in named if prob is not None)
    title = f"{word.form} {word.upos or ''}".strip() + (f": {chances}" if chances else "")
    place = f'x="{_number(box.x)}" y="{_number(box.y)}" width="{_number(box.width)}" height="{_number(box.height)}"'
    return f'<rect {place} rx="5" {fill}><title>{_text(title)}</title></rect>'


def _arc(arc: Curve) -> str:
    """Draw the line with round corners and its tip; inner arcs point down, the others up."""
    down = 1 if arc.top > arc.foot else -1  # the direction away from the characters
    x1, x2, top = _number(arc.start), _number(arc.end), _number(arc.top)
    neck = _number(arc.foot + down * (_TIP - 1))
    tip_width = 2.6 if arc.kind != "inner" else 2.2
    base = _number(arc.foot + down * _TIP)
    fill = INNER_COLOUR if arc.kind == "inner" else "currentColor"
    tip = (
        f'<path d="M{x2} {_number(arc.foot)}L{_number(arc.end - tip_width)} {base}H{_number(arc.end + tip_width)}Z" '
        f'fill="{fill}" stroke="none"/>'
    )
    if arc.kind == "root":
        return f'<path d="M{x1} {top}V{neck}"/>{tip}'
    side = 1 if arc.end > arc.start else -1
    radius = min(8.0, abs(arc.end - arc.start) / 2, abs(arc.top - arc.foot) - _TIP)
    shoulder = _number(arc.top - down * radius)
    left, right = _number(arc.start + side * radius), _number(arc.end - side * radius)
    dashes = ' stroke-dasharray="2.6 2"' if arc.kind == "inner" else ""
    return (
        f'<path d="M{x1} {_number(arc.foot)}V{shoulder}Q{x1} {top} {left} {top}H{right}Q{x2} {top} {x2} {shoulder}V{neck}"'
        f"{dashes}/>{tip}"
    )


def _text_element(label: Label) -> str:
    size, base, more = _STYLES[label.kind]
    x, y = _number(label.box.x + label.box.width / 2), _number(label.box.y + base)
    return f'<text x="{x}" y="{y}" font-size="{_number(size)}"{more}>{escape(label.text)}</text>'
