// Draw the result: a card for each sentence with its analyses, its figure, what changed, and what can be taken away.

import { compare } from "./compare.js";
import { inside, isEmpty } from "./constraints.js";
import { copy, download, toConllu, toJson, toPng, toSvg } from "./export.js";
import { drawFigure, focusAt } from "./figure.js";
import { percent, t } from "./i18n.js";
import { choose, clickGap, clickWord, inView, state } from "./session.js";
import { $, announce, el, showProblem, showTip } from "./telling.js";
import { visible } from "./text.js";

const PAGE = 40; // sentences drawn at once
const TOLD = 4; // changes told in words
const FORMATS = {
  conllu: { name: "CoNLL-U", ending: "conllu", type: "text/plain;charset=utf-8" },
  json: { name: "JSON", ending: "jsonl", type: "application/x-ndjson" },
  svg: { name: "SVG", ending: "svg", type: "image/svg+xml" },
  png: { name: "PNG", ending: "png", type: "image/png" },
};

let drawn = PAGE;
let format = "conllu"; // chosen last, for all sentences

/** Draw a result of which nothing is drawn yet. */
export function drawNew() {
  drawn = PAGE;
  drawAll();
}

/** Draw some more sentences of a long text. */
export function drawMore() {
  const before = drawn;
  drawn += PAGE;
  drawAll();
  $("sentences").children[before]?.querySelector("[tabindex='0']").focus();
}

/** Draw the whole result, or the invitation to type something if there is none. */
export function drawAll() {
  const shown = state.sentences.length > 0;
  showTip(null);
  $("result").hidden = !shown;
  $("empty").hidden = shown;
  if (!shown) return;
  $("sentences").replaceChildren(...state.sentences.slice(0, drawn).map((_, number) => card(number)));
  const left = state.sentences.length - drawn;
  $("more").hidden = left <= 0;
  $("more").textContent = t("more", Math.min(left, PAGE));
  $("whole").hidden = state.sentences.length < 2;
  $("whole").replaceChildren($("whole").firstElementChild, wholeExport());
  const { name, version } = state.model;
  $("model").textContent = t("model", [name, version].filter(Boolean).join(" "));
  drawTools();
}

/** Draw some sentences again, null: all; the focus and what was scrolled stay where they are. */
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
  old.replaceWith(fresh);
  fresh.querySelector(".scroll").scrollLeft = scrollLeft;
  if (focus?.dataset.offset) focusAt(fresh, focus.classList[0], focus.dataset.offset);
  else if (focus) (fresh.querySelector("input:checked") ?? fresh.querySelector("[tabindex='0']")).focus();
}

function drawTools() {
  const words = state.sentences.reduce((sum, sentence) => sum + inView(sentence).words.length, 0);
  $("summary").textContent = t("summary", state.sentences.length, words);
  $("undo").disabled = !state.past.length;
  $("reset").disabled = isEmpty(state.constraints);
}

function card(number) {
  const sentence = state.sentences[number];
  const analysis = inView(sentence);
  const figure = drawFigure(analysis, {
    constraints: state.constraints,
    differences: compare(analysis.words, state.freeWords),
    isApart: (offset) => state.boundaries.has(offset),
    act: (kind, target) => (kind === "word" ? clickWord(number, target) : clickGap(number, target)),
    tell: showTip,
  });
  const head = el("div", { className: "row head" });
  if (state.sentences.length > 1) {
    head.append(el("span", { className: "number", title: t("sentence", number + 1) }, `${number + 1}`));
  }
  head.append(ranks(number, sentence));
  if (analysis.cut) head.append(el("span", { className: "muted" }, t("cut")));
  const changes = el("p", { className: "changes" }, changesInWords(sentence));
  const foot = el("div", { className: "row foot" }, changes, sentenceExport(number));
  return el("li", { className: "card" }, head, el("div", { className: "scroll" }, figure), foot);
}

/** The analyses of a sentence as a row of radio buttons with their probabilities. */
function ranks(number, { analyses, rank, all }) {
  if (analyses.length === 1) {
    const row = el("div", { className: "ranks muted" }, percent(analyses[0].prob));
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
  analyses.forEach(({ prob }, i) => {
    const input = el("input", { type: "radio", name: `rank-${number}`, value: i, checked: i === rank });
    input.setAttribute("aria-label", t("analysis", i + 1, percent(prob)));
    input.addEventListener("change", () => choose(number, i));
    const bar = el("i");
    bar.style.width = `${100 * (prob ?? 0)}%`;
    group.append(el("label", {}, input, el("b", {}, `${i + 1}`), el("span", {}, percent(prob)), bar));
  });
  const rest = 1 - analyses.reduce((sum, { prob }) => sum + (prob ?? 0), 0);
  const known = analyses.every(({ prob }) => prob !== null);
  if (known && rest > 0.001) group.append(el("small", { className: "muted" }, t("rest", percent(rest))));
  return group;
}

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
