// Draw an analysis as an interactive SVG. Words and gaps are buttons; as in a toolbar, one of them at a time can be
// reached with the Tab key and the arrow keys lead to the others. A word can be dragged onto its head. All styles
// are in style.css.

import { arcOf, gapState, isPinned, nextGapState, tagOf } from "./constraints.js";
import { dragging } from "./drag.js";
import { explainRelation, explainUpos, glossed } from "./gloss.js";
import { currentLanguage, percent, t } from "./i18n.js";
import { labelPlace, layout } from "./layout.js";
import { make } from "./svg.js";
import { visible } from "./text.js";

const DARKEST = 0.62; // opacity of the shade for probability 0

const rectangle = ({ x, y, width, height }, rx, name) =>
  make("rect", { x, y, width, height, rx, class: name });
const letters = ({ text, x, y }, name) => make("text", { x, y, class: name }, text);
const names = (...all) => all.filter(Boolean).join(" ");

function shade(rect, sure) {
  rect.setAttribute("fill-opacity", sure === null ? 0 : (DARKEST * (1 - sure)).toFixed(2));
  return rect;
}

const known = (...probs) => (probs.some((prob) => prob === null) ? null : probs.reduce((a, b) => a * b, 1));

/**
 * Return the figure of an analysis, in rows if it is much wider than `room`. `differences` come from compare.js;
 * `isApart(offset)` tells whether the parser has a boundary there without constraints; `selected` is the word that is being edited;
 * `innerNames` tells whether relations inside words are named. `act(kind, ...targets)` is called for
 * "word" (a click or Enter, with the part of it that was hit), "gap" and "head" (a word and the one it was dragged to).
 * `tell(lines, element)` shows a hint and `tell(null)` hides it.
 */
export function drawFigure(
  analysis,
  { room, constraints, differences, isApart, selected, innerNames, act, tell },
) {
  const places = layout(analysis, { room, innerNames });
  const svg = make("svg", {
    class: "figure",
    viewBox: `${places.left} 0 ${places.width} ${places.height}`,
    width: places.width,
    height: places.height,
    role: "group",
    lang: "zh-Hans",
    "aria-label": t("figure", visible(analysis.text)),
  });
  const { words } = analysis;
  const arcs = places.arcs.map((arc) => {
    const word = words[arc.id - 1];
    const group = drawArc(arc, word, differences, arcOf(constraints, word) !== null);
    group.addEventListener("click", () => act("word", word, "relation"));
    return group;
  });
  const boxes = places.words.map((place) => {
    const word = words[place.id - 1];
    const pinned = isPinned(constraints, word);
    const button = drawWord(place, word, differences, pinned, tagOf(constraints, word) !== null);
    button.setAttribute("aria-label", wordLines(word, words, pinned).join(" "));
    button.setAttribute("aria-expanded", word.start === selected?.start);
    return {
      button,
      at: word.start,
      // While a word is being edited, the editor shows its details.
      hint: () => (word.start === selected?.start ? null : [...wordLines(word, words, pinned), t("wordNext")]),
      go: (event) => act("word", word, event?.target.matches?.(".tag") ? "tag" : ""),
      id: word.id,
    };
  });
  const boundaries = new Set(words.map(({ start }) => start));
  const gaps = places.gaps.map((place) => {
    const state = gapState(constraints, place.offset);
    const next = nextGapState(constraints, place.offset, isApart(place.offset));
    const lines = gapLines(analysis, place.offset, boundaries.has(place.offset), state, next);
    const button = drawGap(place, state);
    button.setAttribute("aria-label", lines.join("，"));
    return { button, at: place.offset - 0.5, hint: () => lines, go: () => act("gap", place.offset) };
  });
  svg.append(...arcs, ...boxes.map(({ button }) => button), ...gaps.map(({ button }) => button));

  // A word, then the gaps inside it, then the one behind it.
  const stops = [...boxes, ...gaps].sort((one, other) => one.at - other.at);
  stops.forEach((stop, number) => {
    stop.button.setAttribute("tabindex", number === 0 ? 0 : -1);
    stop.button.addEventListener("click", stop.go);
    stop.button.addEventListener("focus", () => rove(stops, number));
    hints(stop.button, stop.hint, tell, stop.id && arcs[stop.id - 1]);
  });
  arcs.forEach((arc, i) => hints(arc, boxes[i].hint, tell, arc));
  svg.addEventListener("keydown", (event) => onKey(event, stops));
  dragging(svg, places, (id, head) => act("head", words[id - 1], words[head - 1] ?? null));
  // Called when another part of the figure comes into view.
  svg.keepInView = (left, right) => {
    places.arcs.forEach((arc, i) => moveLabel(arcs[i], labelPlace(arc, left, right)));
  };
  return svg;
}

/** Move the focus to the "gap" at an offset or the "word" that begins there; otherwise to where Tab would go. */
export function focusAt(card, kind, offset) {
  const wanted =
    card.querySelector(`.${kind}[data-offset="${offset}"]`) ?? card.querySelector(".figure [tabindex='0']");
  wanted.focus({ preventScroll: true });
}

function drawArc({ id, line, tip, label }, word, differences, fixed) {
  const group = make("g", {
    class: names("arc", fixed && "fixed", differences.arcs.has(id) && "changed"),
    "data-id": id,
    "data-dependent": word.form,
  });
  const shown = make("g", { class: "label" });
  shown.append(
    rectangle(label.box, 4, "ground"),
    shade(rectangle(label.box, 4, "doubt"), known(word.head_prob, word.label_prob)),
    letters(label, "relation"),
  );
  group.append(
    make("path", { class: "reach", d: line }), // wider than the line, for pointers
    make("path", { class: "line", d: line }),
    make("path", { class: "tip", d: tip }),
    shown,
  );
  return group;
}

function moveLabel(arc, distance) {
  arc.querySelector(".label").setAttribute("transform", `translate(${distance} 0)`);
}

function drawWord({ id, box, chars, inner, tag }, word, differences, pinned, tagged) {
  const group = make("g", {
    class: names(
      "word",
      pinned && "pinned",
      tagged && "tagged",
      differences.words.has(id) && "changed",
      differences.tags.has(id) && "retagged",
    ),
    role: "button",
    "aria-pressed": pinned,
    "data-id": id,
    "data-form": word.form,
    "data-offset": word.start,
  });
  group.append(
    rectangle(box, 7, "box"),
    shade(rectangle(box, 7, "doubt"), word.boundary_prob),
    ...inner.flatMap(({ line, tip, name }) => [
      make("path", { class: "inner-line", d: line }),
      make("path", { class: "inner-tip", d: tip }),
      ...(name ? [letters(name, "inner-name")] : []),
    ]),
    ...chars.map((char) => letters(char, "char")),
    letters(tag, "tag"),
    rectangle(box, 7, "frame"),
  );
  return group;
}

function drawGap({ offset, x, hit, top, bottom }, state) {
  const fixed = state === "break" || state === "join";
  const group = make("g", {
    class: `gap ${state}`,
    role: "button",
    "aria-pressed": fixed,
    "data-offset": offset,
  });
  group.append(rectangle(hit, 4, "hit"), make("path", { class: "cut", d: `M${x} ${top}V${bottom}` }));
  return group;
}

/** Say how sure the parser is of a word. */
export const chances = (word) =>
  [
    [t("boundaryProb"), word.boundary_prob],
    [t("headProb"), word.head_prob],
    [t("labelProb"), word.label_prob],
    [t("uposProb"), word.upos_prob],
  ]
    .map(([name, prob]) => `${name} ${percent(prob)}`)
    .join(" · ");

function wordLines(word, words, pinned) {
  const language = currentLanguage();
  const head = word.head ? ` · ${t("headIs", visible(words[word.head - 1].form))}` : "";
  return [
    `${visible(word.form)} · ${glossed(word.upos, explainUpos(word.upos, language))}`,
    `${glossed(word.deprel, explainRelation(word.deprel, language))}${head}`,
    chances(word),
    ...(pinned ? [t("pinned")] : []),
  ];
}

function gapLines({ text, start }, offset, apart, state, next) {
  const points = Array.from(text);
  const beside = (i) => visible(points[i] ?? "");
  return [
    t("gap", beside(offset - start - 1), beside(offset - start), apart),
    t(`gapState.${state}`),
    t(`gapNext.${next}`),
  ];
}

function hints(element, lines, tell, lit) {
  const show = () => {
    lit?.classList.add("lit");
    tell(lines(), element);
  };
  const hide = () => {
    lit?.classList.remove("lit");
    tell(null);
  };
  element.addEventListener("pointerenter", show);
  element.addEventListener("pointerleave", hide);
  // An SVG element that listens for the focus can get it, in some browsers; arcs must not.
  if (!element.hasAttribute("tabindex")) return;
  // Only for the keyboard: after a click the pointer is already there.
  element.addEventListener("focus", () => element.matches(":focus-visible") && show());
  element.addEventListener("blur", hide);
}

function rove(stops, number) {
  for (const { button } of stops) button.setAttribute("tabindex", -1);
  stops[number].button.setAttribute("tabindex", 0);
}

function onKey(event, stops) {
  const here = stops.findIndex(({ button }) => button === document.activeElement);
  if (here < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const goals = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: stops.length - 1 };
  if (event.key in goals) {
    const { button } = stops[Math.max(0, Math.min(stops.length - 1, goals[event.key]))];
    button.focus({ preventScroll: true });
    button.scrollIntoView({ block: "nearest", inline: "nearest" });
  } else if (event.key === "Enter" || event.key === " ") {
    stops[here].go();
  } else {
    return;
  }
  event.preventDefault();
}
