// Draw an analysis as an interactive SVG. Words and gaps are buttons; as in a toolbar, one of them at a time can be
// reached with the Tab key and the arrow keys lead to the others. How things look is said in style.css alone.

import { gapState, isPinned, nextGapState } from "./constraints.js";
import { explainRelation, explainUpos } from "./gloss.js";
import { currentLanguage, percent, t } from "./i18n.js";
import { layout } from "./layout.js";
import { visible } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const DARKEST = 0.62; // the opacity of the shade where nothing is sure

function make(name, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

const rectangle = ({ x, y, width, height }, rx, name) =>
  make("rect", { x, y, width, height, rx, class: name });
const letters = ({ text, x, y }, name) => make("text", { x, y, class: name }, text);

function shade(rect, sure) {
  rect.setAttribute("fill-opacity", sure === null ? 0 : (DARKEST * (1 - sure)).toFixed(2));
  return rect;
}

const known = (...probs) => (probs.some((prob) => prob === null) ? null : probs.reduce((a, b) => a * b, 1));

/**
 * Return the figure of an analysis. `differences` come from compare.js; `isApart(offset)` tells whether the parser,
 * left alone, has a boundary there. `act(kind, target)` is called for a click or Enter on a "word" or a "gap",
 * `tell(lines, element)` to show a hint and `tell(null)` to hide it.
 */
export function drawFigure(analysis, { constraints, differences, isApart, act, tell }) {
  const places = layout(analysis);
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
  const arcs = places.arcs.map((arc) => drawArc(arc, words[arc.id - 1], differences));
  const boxes = places.words.map((place) => {
    const word = words[place.id - 1];
    const pinned = isPinned(constraints, word);
    const button = drawWord(place, word, differences, pinned);
    button.setAttribute("aria-label", wordLines(word, words, pinned).slice(0, -1).join(" "));
    return {
      button,
      at: word.start,
      hint: () => wordLines(word, words, pinned),
      go: () => act("word", word),
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
  return svg;
}

/** Move the focus to the "gap" at an offset or the "word" that begins there; else to where Tab would lead. */
export function focusAt(card, kind, offset) {
  const wanted =
    card.querySelector(`.${kind}[data-offset="${offset}"]`) ?? card.querySelector(".figure [tabindex='0']");
  wanted.focus({ preventScroll: true });
}

function drawArc({ id, line, tip, label }, word, differences) {
  const group = make("g", { class: `arc${differences.arcs.has(id) ? " changed" : ""}`, "data-id": id });
  group.append(
    make("path", { class: "reach", d: line }), // wider than the line, for pointers
    make("path", { class: "line", d: line }),
    make("path", { class: "tip", d: tip }),
    rectangle(label.box, 4, "ground"),
    shade(rectangle(label.box, 4, "doubt"), known(word.head_prob, word.label_prob)),
    letters(label, "relation"),
  );
  return group;
}

function drawWord({ id, box, chars, inner, tag }, word, differences, pinned) {
  const names = [
    "word",
    pinned && "pinned",
    differences.words.has(id) && "changed",
    differences.tags.has(id) && "retagged",
  ];
  const group = make("g", {
    class: names.filter(Boolean).join(" "),
    role: "button",
    "aria-pressed": pinned,
    "data-form": word.form,
    "data-offset": word.start,
  });
  group.append(
    rectangle(box, 7, "box"),
    shade(rectangle(box, 7, "doubt"), word.boundary_prob),
    ...inner.flatMap(({ line, tip }) => [
      make("path", { class: "inner-line", d: line }),
      make("path", { class: "inner-tip", d: tip }),
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

function wordLines(word, words, pinned) {
  const language = currentLanguage();
  const gloss = (name, explained) => (explained ? `${name} ${explained}` : (name ?? "–"));
  const head = word.head ? ` · ${t("headIs", visible(words[word.head - 1].form))}` : "";
  const named = [
    [t("boundaryProb"), word.boundary_prob],
    [t("headProb"), word.head_prob],
    [t("labelProb"), word.label_prob],
    [t("uposProb"), word.upos_prob],
  ];
  return [
    `${visible(word.form)} · ${gloss(word.upos, explainUpos(word.upos, language))}`,
    `${gloss(word.deprel, explainRelation(word.deprel, language))}${head}`,
    named.map(([name, prob]) => `${name} ${percent(prob)}`).join(" · "),
    ...(pinned ? [t("pinned")] : []),
    t(`wordNext.${pinned}`),
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
  // Only for the keyboard: after a click the pointer is there anyway.
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
