// Draw the result: a card for each sentence with its analyses, its figure, the editor of a word, the changes, and the
// downloads.

import { compare } from "./compare.js";
import { inside, isEmpty } from "./constraints.js";
import { corrected, correctedFile, drop, dropAll, keep, standing } from "./corrected.js";
import { drawEditor } from "./editor.js";
import { copy, download, toConllu, toJson, toPng, toSvg } from "./export.js";
import { drawFigure, focusAt } from "./figure.js";
import { percent, t } from "./i18n.js";
import { changeHead, choose, clickGap, inView, state } from "./session.js";
import { $, announce, el, showProblem, showTip } from "./telling.js";
import { visible } from "./text.js";
import { position } from "./walk.js";
import { roomBeside, show } from "./zoom.js";

const PAGE = 40; // sentences drawn at once
const TINY = 0.001; // probabilities of sentences below this are not shown
const TOLD = 4; // number of changes described in words
const FORMATS = {
  conllu: { name: "CoNLL-U", ending: "conllu", type: "text/plain;charset=utf-8" },
  json: { name: "JSON", ending: "jsonl", type: "application/x-ndjson" },
  svg: { name: "SVG", ending: "svg", type: "image/svg+xml" },
  png: { name: "PNG", ending: "png", type: "image/png" },
};

let drawn = PAGE;
let format = "conllu"; // chosen last, for all sentences
let selected = null; // {number, offset}: the word that is being edited, by its sentence and where it begins

/** Draw a new result. */
export function drawNew() {
  drawn = PAGE;
  selected = null;
  drawAll();
}

/** Draw some more sentences of a long text. */
export function drawMore() {
  const before = drawn;
  drawn += PAGE;
  drawAll();
  $("sentences").children[before]?.querySelector("[tabindex='0']").focus();
}

/** Draw the whole result, or the examples if there is none. */
export function drawAll() {
  const shown = state.sentences.length > 0;
  showTip(null);
  $("result").hidden = !shown;
  $("empty").hidden = shown;
  drawCorrected();
  drawWalk();
  if (!shown) return;
  $("sentences").replaceChildren(...state.sentences.slice(0, drawn).map((_, number) => card(number)));
  show($("sentences"));
  const left = state.sentences.length - drawn;
  $("more").hidden = left <= 0;
  $("more").textContent = t("more", Math.min(left, PAGE));
  $("whole").hidden = state.sentences.length < 2;
  $("whole").replaceChildren($("whole").firstElementChild, wholeExport());
  const { name, version } = state.model;
  $("model").textContent = t("model", [name, version].filter(Boolean).join(" "));
  drawTools();
}

/** Draw some sentences again (null for all); focus and scroll positions stay the same. */
export function drawAgain(numbers) {
  if (!numbers) return drawAll();
  for (const number of numbers) {
    const old = $("sentences").children[number];
    if (old) swap(old, card(number));
  }
  drawTools();
  return announce(
    (numbers.length === 1 && changesInWords(state.sentences[numbers[0]])) || $("summary").textContent,
  );
}

function swap(old, fresh) {
  showTip(null);
  const { scrollLeft } = old.querySelector(".scroll");
  const focus = old.contains(document.activeElement) ? document.activeElement : null;
  const { offset, edit } = focus?.dataset ?? {};
  old.replaceWith(fresh);
  fresh.querySelector(".scroll").scrollLeft = scrollLeft;
  show(fresh);
  if (!focus) return;
  const same = edit && fresh.querySelector(`[data-edit="${edit}"]`);
  if (same) same.focus({ preventScroll: true });
  else if (offset) focusAt(fresh, focus.classList[0], offset);
  else (fresh.querySelector("input:checked") ?? fresh.querySelector("[tabindex='0']")).focus();
}

// --- the editor of a word ---

function redraw(number) {
  const old = $("sentences").children[number];
  if (old) swap(old, card(number));
  return $("sentences").children[number];
}

/** Open the editor of a word at one of its menus; if it is open and no menu was named, close it. */
function edit(number, word, part) {
  const before = selected;
  if (!part && before?.number === number && before.offset === word.start) return closeEditor();
  selected = { number, offset: word.start };
  if (before && before.number !== number) redraw(before.number);
  const control = redraw(number).querySelector(`[data-edit="${part || "pin"}"]`);
  control.focus({ preventScroll: true });
  return control.scrollIntoView({ block: "nearest" });
}

function closeEditor() {
  const { number, offset } = selected;
  selected = null;
  focusAt(redraw(number), "word", offset);
}

function drawTools() {
  const words = state.sentences.reduce((sum, sentence) => sum + inView(sentence).words.length, 0);
  $("summary").textContent = t("summary", state.sentences.length, words);
  $("undo").disabled = !state.past.length;
  $("reset").disabled = isEmpty(state.constraints);
  $("walk-fixed").disabled = isEmpty(state.constraints);
}

const ACTIONS = { word: edit, gap: clickGap, head: changeHead };

function card(number) {
  const sentence = state.sentences[number];
  const analysis = inView(sentence);
  const edited =
    selected?.number === number ? analysis.words.find(({ start }) => start === selected.offset) : undefined;
  const figure = drawFigure(analysis, {
    room: roomBeside($("ask")),
    constraints: state.constraints,
    differences: compare(analysis.words, state.freeWords),
    isApart: (offset) => state.boundaries.has(offset),
    selected: edited,
    innerNames: $("inner-names").checked,
    act: (kind, target, more) => ACTIONS[kind](number, target, more),
    tell: showTip,
  });
  const head = el("div", { className: "row head" });
  if (state.sentences.length > 1) {
    head.append(el("span", { className: "number", title: t("sentence", number + 1) }, `${number + 1}`));
  }
  head.append(ranks(number, sentence));
  if (analysis.cut) head.append(el("span", { className: "muted" }, t("cut")));
  const changes = el("p", { className: "changes" }, changesInWords(sentence));
  const foot = el("div", { className: "row foot" }, changes, keeper(number), sentenceExport(number));
  const editor = edited ? [drawEditor(number, edited, analysis, closeEditor)] : [];
  return el("li", { className: "card" }, head, el("div", { className: "scroll" }, figure), ...editor, foot);
}

/** Return the analyses of a sentence as a row of radio buttons with their probabilities. */
function ranks(number, { analyses, rank, all }) {
  if (analyses.length === 1) {
    const row = el("div", { className: "ranks muted" }, sureness(analyses[0]), ...withoutLexicon(analyses[0]));
    if (all) return row;
    const more = el("button", { type: "button", className: "quiet" }, t("otherAnalyses"));
    more.addEventListener("click", () => choose(number, 0));
    row.append(more);
    return row;
  }
  const group = el(
    "fieldset",
    { className: "ranks" },
    el("legend", { className: "visually-hidden" }, t("analyses")),
  );
  // The probability of a long sentence is tiny and says little. Show doubt per word instead, and other analyses by how
  // they compare to the best one.
  const long = isLong(analyses[0]);
  analyses.forEach(({ prob }, i) => {
    const shown = !long ? percent(prob) : i ? `× ${(prob / analyses[0].prob).toFixed(2)}` : "";
    const input = el("input", { type: "radio", name: `rank-${number}`, value: i, checked: i === rank });
    input.setAttribute("aria-label", t("analysis", i + 1, percent(prob)));
    input.addEventListener("change", () => choose(number, i));
    const bar = el("i");
    bar.style.width = `${100 * (prob ?? 0)}%`;
    group.append(el("label", {}, input, el("b", {}, `${i + 1}`), el("span", {}, shown), bar));
  });
  if (long) {
    group.append(el("small", { className: "muted" }, sureness(analyses[rank])), ...withoutLexicon(analyses[rank]));
    return group;
  }
  const rest = 1 - analyses.reduce((sum, { prob }) => sum + (prob ?? 0), 0);
  const known = analyses.every(({ prob }) => prob !== null);
  if (known && rest > 0.001) group.append(el("small", { className: "muted" }, t("rest", percent(rest))));
  group.append(...withoutLexicon(analyses[rank]));
  return group;
}

const isLong = ({ prob }) => prob !== null && prob < TINY;

/** Describe how sure the parser is of an analysis: its probability or, if that is tiny, the number of doubtful words. */
function sureness(analysis) {
  if (!isLong(analysis)) return percent(analysis.prob);
  return t("unsure", analysis.words.filter(({ prob }) => prob < 0.5).length, analysis.words.length);
}

/** Describe how probable an analysis is without the lexicon, if the lexicon found a word. */
const withoutLexicon = ({ prob_without_lexicon: prob }) =>
  prob === undefined ? [] : [el("small", { className: "muted without-lexicon" }, t("withoutLexicon", percent(prob)))];

function changesInWords(sentence) {
  const { words, start, end } = inView(sentence);
  const { arcs, spans, tags } = compare(words, state.freeWords);
  const untouched = sentence.rank === 0 && isEmpty(inside(state.constraints, { start, end }));
  const told = spans
    .slice(0, TOLD)
    .map(({ before, after }) => visible(`${before.join("|")} → ${after.join("|")}`));
  if (spans.length > TOLD) told.push("…");
  if (arcs.size) told.push(t("arcsDiffer", arcs.size));
  if (tags.size) told.push(t("tagsDiffer", tags.size));
  if (told.length) return t("changes", told.join(t("comma")));
  return untouched ? "" : t("noChange");
}

// --- corrected sentences ---

/** Return the button that marks a sentence as corrected, or removes the mark. */
function keeper(number) {
  const analysis = inView(state.sentences[number]);
  const stands = standing(analysis);
  const button = el("button", { type: "button", className: "keep" }, t(`keep.${stands}`));
  button.setAttribute("aria-pressed", stands === "same");
  button.addEventListener("click", () => {
    try {
      (stands === "same" ? drop : keep)(analysis);
    } catch (error) {
      return showProblem(error); // the browser's storage is full
    }
    drawCorrected();
    drawWalk();
    return redraw(number).querySelector(".keep").focus();
  });
  return button;
}

/** List the corrected sentences of all texts. */
function drawCorrected() {
  const list = corrected();
  $("corrected").hidden = !list.length;
  $("corrected-title").textContent = t("corrected", list.length);
  $("corrected-list").replaceChildren(
    ...list.map((sentence) => {
      const remove = el("button", { type: "button", className: "quiet", title: t("remove") }, "×");
      remove.setAttribute("aria-label", `${t("remove")}: ${visible(sentence.text)}`);
      remove.addEventListener("click", () => {
        drop(sentence);
        drawAll();
      });
      const words = sentence.words.map(({ form }) => visible(form)).join(" ");
      return el("li", {}, el("span", { lang: "zh-Hans" }, words), remove);
    }),
  );
}

// --- the walk through suggested sentences ---

/** Show the position in the walk, if there is one. */
export function drawWalk() {
  const place = position();
  $("walk").hidden = !place;
  if (!place) return;
  const { number, all, done } = place;
  $("walk-title").textContent = t("walk", number, all, done);
  Object.assign($("walk-progress"), { value: done, max: all });
  $("walk-back").disabled = number === 1;
  $("walk-skip").disabled = number === all;
}

/** Save all sentences on the page as corrected, or with `fixed` only their constraints. Return whether that worked. */
export function keepAll(fixed) {
  try {
    for (const sentence of state.sentences) {
      const analysis = inView(sentence);
      keep(analysis, fixed ? inside(state.constraints, analysis) : null);
    }
  } catch (error) {
    showProblem(error); // the browser's storage is full
    return false;
  }
  return true;
}

/** Save the corrected sentences. */
export async function saveCorrected() {
  try {
    const { content, ending } = await correctedFile();
    download(content, `zishu-corrected.${ending}`, FORMATS[ending === "jsonl" ? "json" : ending].type);
  } catch (error) {
    showProblem(error);
  }
}

/** Empty the list of corrected sentences. */
export function clearCorrected() {
  dropAll();
  drawAll();
}

// --- copying and downloading ---

function sentenceExport(number) {
  const analysis = inView(state.sentences[number]);
  const produce = {
    conllu: () => toConllu([analysis], state.text, number + 1),
    json: () => toJson([analysis], number + 1),
    svg: () => toSvg(analysis, state.text),
    png: () => toPng(analysis, state.text),
  };
  return exportTools(produce, state.sentences.length > 1 ? `zishu-${number + 1}` : "zishu");
}

function wholeExport() {
  const analyses = () => state.sentences.map(inView);
  return exportTools(
    { conllu: () => toConllu(analyses(), state.text), json: () => toJson(analyses()) },
    "zishu",
  );
}

function exportTools(produce, name) {
  const kinds = Object.keys(produce);
  const select = el("select", {}, ...kinds.map((kind) => el("option", { value: kind }, FORMATS[kind].name)));
  select.value = kinds.includes(format) ? format : kinds[0];
  select.setAttribute("aria-label", t("format"));
  select.addEventListener("change", () => (format = select.value));
  const copyButton = el("button", { type: "button", className: "copy" }, t("copy"));
  const give = (take) => async () => {
    const kind = select.value;
    try {
      await take(await produce[kind](), FORMATS[kind]);
    } catch (error) {
      showProblem(error);
    }
  };
  const take = async (content) => announce((await copy(content)) ? t("copied") : t("copyFailed"), true);
  copyButton.addEventListener("click", give(take));
  const saveButton = el("button", { type: "button", className: "download" }, t("download"));
  const save = (content, { ending, type }) => download(content, `${name}.${ending}`, type);
  saveButton.addEventListener("click", give(save));
  return el("div", { className: "export" }, select, copyButton, saveButton);
}
