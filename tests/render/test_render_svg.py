from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from parsed_sentences import SHANGHAI, parsed, sentences
from zishu.render.svg import Box, Layout, layout, to_svg

if TYPE_CHECKING:
    from zishu.document import Sentence

SVG = "{http://www.w3.org/2000/svg}"


def overlap(a: Box, b: Box) -> bool:
    """Tell whether two boxes share more than an edge."""
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def check(places: Layout) -> None:
    """Nothing overlaps, and everything is inside the frame."""
    boxes = [label.box for label in places.labels]
    assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]
    assert not [pair for pair in combinations(places.words, 2) if overlap(*pair)]
    for box in [*boxes, *places.words]:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= places.width
        assert box.y + box.height <= places.height
    for arc in places.arcs:
        assert 0 <= arc.start <= places.width
        assert 0 <= arc.top <= places.height


def crossings(places: Layout) -> int:
    """Count the arcs whose upright part cuts through the level part of another one."""
    arcs = [arc for arc in places.arcs if arc.kind != "inner"]
    return sum(
        min(other.start, other.end) < x < max(other.start, other.end) and arc.top < other.top
        for arc in arcs
        for other in arcs
        if other is not arc
        for x in (arc.start, arc.end)
    )


def test_the_example_of_the_paper() -> None:
    places = layout(SHANGHAI)
    check(places)
    assert crossings(places) == 0
    relations = [label.text for label in places.labels if label.kind == "relation"]
    assert relations == ["nsubj", "root", "ccomp", "obj", "punct"]
    centres = {
        label.text: label.box.x + label.box.width / 2 for label in places.labels if label.kind == "char"
    }
    ends = [round(arc.end, 6) for arc in places.arcs if arc.kind != "inner"]
    # Arcs between words end in the root characters.
    assert ends == [round(centres[char], 6) for char in "海划发业。"]
    inner = {(round(arc.end, 6), arc.start < arc.end) for arc in places.arcs if arc.kind == "inner"}
    assert inner == {
        (round(centres[char], 6), rightward)
        for char, rightward in [("上", False), ("计", False), ("展", True), ("金", False), ("融", True)]
    }


def test_no_trees_inside_latin_words_and_numbers() -> None:
    sentence = parsed(
        [
            ("iPhone", "X", 2, "nmod", (2, 3, 4, 5, 6, 0)),
            ("1984", "NUM", 3, "nummod", (4, 4, 4, 0)),
            ("年代", "NOUN", 0, "root", (2, 0)),
        ]
    )
    inner = [arc for arc in layout(sentence).arcs if arc.kind == "inner"]
    assert len(inner) == 1


def test_markup() -> None:
    root = ElementTree.fromstring(to_svg(SHANGHAI))
    assert root.tag == f"{SVG}svg"
    places = layout(SHANGHAI)
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    assert (width, height) == (pytest.approx(places.width, abs=0.06), pytest.approx(places.height, abs=0.06))
    assert root.findtext(f"{SVG}title") == "上海计划发展金融业。"
    description = root.findtext(f"{SVG}desc")
    assert description is not None
    assert "金融业 (obj of 发展)" in description
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert sorted(map(str, texts)) == sorted(
        [
            *"上海计划发展金融业。",
            "nsubj",
            "root",
            "ccomp",
            "obj",
            "punct",
            "PROPN",
            "VERB",
            "VERB",
            "NOUN",
            "PUNCT",
        ]
    )
    dashed = [path for path in root.iter(f"{SVG}path") if "stroke-dasharray" in path.attrib]
    assert len(dashed) == 5
    assert not [element for element in root.iter() if "id" in element.attrib]


def test_confidence_is_shown_on_request() -> None:
    def fills(markup: str) -> list[str]:
        boxes = ElementTree.fromstring(markup).iter(f"{SVG}rect")
        return [box.attrib["fill-opacity"] for box in boxes if "fill-opacity" in box.attrib]

    assert len(set(fills(to_svg(SHANGHAI)))) == 1
    shaded = list(map(float, fills(to_svg(SHANGHAI, confidence=True))))
    by_doubt = sorted(range(5), key=lambda i: SHANGHAI.words[i].prob or 0)
    assert sorted(range(5), key=lambda i: -shaded[i]) == by_doubt
    unknown = parsed([("好", "ADJ", 0, "root", (0,))])
    assert to_svg(unknown, confidence=True) == to_svg(unknown)


def test_colours_are_escaped() -> None:
    markup = to_svg(SHANGHAI, colour='"><x/>', background="white")
    root = ElementTree.fromstring(markup)
    assert root.attrib["color"] == '"><x/>'
    assert '<rect width="' in markup


@pytest.mark.parametrize("relation", ["root", "a-very-long-relation:with-a-subtype", "关系"])
@pytest.mark.parametrize("n", [1, 2, 60])
def test_labels_have_room(n: int, relation: str) -> None:
    for heads in (range(n), [0, *[1] * (n - 1)], [*range(2, n + 1), 0]):
        places = layout(parsed([("词", "PROPN", head, relation, (0,)) for head in heads]))
        check(places)
        assert crossings(places) == 0


@given(sentences(max_words=9, projective=True, nasty=False))
def test_projective_trees_have_no_crossings(sentence: Sentence) -> None:
    places = layout(sentence)
    check(places)
    assert crossings(places) == 0


@given(sentences(max_words=9))
@settings(deadline=None)
def test_any_sentence_gives_a_valid_figure(sentence: Sentence) -> None:
    check(layout(sentence))
    root = ElementTree.fromstring(to_svg(sentence, confidence=True).encode())
    title = root.findtext(f"{SVG}title")
    assert title
    assert "\x00" not in title


def test_user_strings_are_no_markup() -> None:
    sentence = parsed([("<b>&\x00\ud800\uffff", "<X>", 0, "a&b", (2, 3, 4, 5, 6, 7, 0))])
    root = ElementTree.fromstring(to_svg(sentence).encode())
    texts = [str(element.text) for element in root.iter(f"{SVG}text")]
    assert "".join(texts[1:-1]) == r"<b>&\x00\ud800\uffff"
    assert (texts[0], texts[-1]) == ("a&b", "<X>")
    assert root.findtext(f"{SVG}title") == r"<b>&\x00\ud800\uffff"


def test_relations_inside_words_are_named_on_demand() -> None:
    word = replace(SHANGHAI.words[3], char_rels=("att", "coo", "root"))
    sentence = replace(SHANGHAI, words=(*SHANGHAI.words[:3], word, *SHANGHAI.words[4:]))
    assert not [label for label in layout(sentence).labels if label.kind == "inner"]
    places = layout(sentence, relations=True)
    check(places)
    assert [label.text for label in places.labels if label.kind == "inner"] == ["coo", "att"]
    texts = [
        element.text
        for element in ElementTree.fromstring(to_svg(sentence, relations=True)).iter(f"{SVG}text")
    ]
    assert {"coo", "att"} <= set(texts)
    # Latent trees have no relations to name.
    assert to_svg(SHANGHAI, relations=True) == to_svg(SHANGHAI)
