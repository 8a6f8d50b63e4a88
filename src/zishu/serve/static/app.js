// The fixed parts of the page and their events. The order to read the modules: text, constraints, compare (plain values);
// api, address, session (state and its changes); layout, svg, drag, figure, zoom (an analysis as SVG); export, corrected,
// walk (downloads and corrections); i18n, gloss (texts); telling, editor, cards (messages, editor, results).

import { readAddress } from "./address.js";
import {
  clearCorrected,
  drawAgain,
  drawAll,
  drawMore,
  drawNew,
  drawWalk,
  keepAll,
  saveCorrected,
} from "./cards.js";
import { NOTHING, difference } from "./constraints.js";
import { copy } from "./export.js";
import { switchLanguage, t, translate } from "./i18n.js";
import { address, close, connect, open, reset, state, submit, undo, useToken } from "./session.js";
import { $, announce, el, showProblem, showTip } from "./telling.js";
import { codePoints, decode } from "./text.js";
import { begin, end, position, readSuggestions, step } from "./walk.js";
import { change as changeZoom, show, toggleRows } from "./zoom.js";

const EXAMPLES = [
  "上海计划发展金融业。",
  "乒乓球拍卖完了。",
  "他研究生命起源。她说南京市长江大桥今天建成通车。",
];
const THEME = "zishu-theme"; // in the browser's storage
const THEMES = ["auto", "light", "dark"];
const LARGEST_FILE = 4_000_000; // bytes; more than any service accepts in one request

let typed = []; // the code points of the text box
let edits = []; // edits since the text was parsed

connect({
  busy(yes) {
    document.body.classList.toggle("busy", yes);
    if (yes) announce(t("working"));
  },
  opened() {
    [typed, edits] = [codePoints(state.text), []];
    drawNew();
    showStyles();
    announce($("summary").textContent);
  },
  changed: drawAgain,
  problem: showProblem,
  tokenNeeded() {
    $("token").hidden = false;
    $("token-value").focus();
  },
});

function showCount() {
  const letters = codePoints($("text").value).filter((char) => /\S/u.test(char));
  $("count").textContent = t("characters", letters.length);
  $("lines").hidden = !$("text").value.trim().includes("\n");
}

/** Offer the styles of the model that has answered, if there is a choice. */
function showStyles() {
  const styles = state.model?.styles ?? [];
  $("style-choice").hidden = styles.length < 2;
  $("style").replaceChildren(
    ...styles.map((style) => el("option", { value: style }, t(`styles.${style}`) ?? style)),
  );
  $("style").value = state.options.style || styles[0];
}

function showTheme() {
  const stored = localStorage.getItem(THEME);
  const theme = THEMES.includes(stored) ? stored : "auto";
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").textContent = t(`theme.${theme}`);
  return theme;
}

function showAll() {
  translate();
  showTheme();
  showCount();
  showStyles();
  drawAll();
}

/** Show the state in the address. */
function restore() {
  const linked = readAddress(location.hash);
  const { text } = linked;
  const { lexicon, soft, wrapped, inner, granularity } = linked.options;
  $("text").value = text;
  $("lexicon").value = lexicon.join("\n");
  $("soft").checked = soft;
  $("lines").value = wrapped ? "wrapped" : "";
  $("inner").value = inner;
  $("granularity").value = granularity;
  showLexicon(lexicon.length > 0);
  showCount();
  if (text.trim()) open(linked, { remember: false });
  else if (position()) parseNew(position().text);
  else close();
}

/** Record an edit of the text, so that the constraints on the rest can move with it. */
function noteEdit() {
  const now = codePoints($("text").value);
  edits.push(difference(typed, now));
  typed = now;
}

const options = () => ({
  style: state.options.style,
  lexicon: $("lexicon")
    .value.split(/[\s,，、;；]+/u)
    .filter(Boolean),
  soft: $("soft").checked,
  wrapped: $("lines").value === "wrapped",
  inner: $("inner").value,
  granularity: $("granularity").value,
});

function parseTyped(style = state.options.style) {
  noteEdit();
  const text = $("text").value;
  if (text.trim()) submit(text, edits, { ...options(), style });
  else $("text").focus();
}

/** Replace the text. */
function parseNew(text) {
  $("text").value = text;
  showCount();
  open({ text, options: options(), constraints: NOTHING, ranks: new Map() }, { remember: true });
}

async function parseFile(file) {
  if (!file) return;
  if (file.size > LARGEST_FILE) return announce(t("fileTooLarge"), true);
  const text = decode(await file.arrayBuffer());
  if (text === null) return announce(t("fileNotText"), true);
  const suggested = readSuggestions(text);
  if (suggested) return startWalk(suggested);
  return text.trim() ? parseNew(text) : announce(t("fileEmpty"), true);
}

function startWalk(texts) {
  try {
    begin(texts);
  } catch (error) {
    return showProblem(error); // the browser's storage is full
  }
  return parseNew(position().text);
}

/** Go to another sentence of the walk; at the end, stay there and report the progress. */
function walk(direction) {
  if (step(direction)) return parseNew(position().text);
  drawAll();
  return announce($("walk-title").textContent, true);
}

function showLexicon(shown) {
  $("lexicon-box").hidden = !shown;
  $("show-lexicon").setAttribute("aria-expanded", shown);
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  parseTyped();
});
$("text").addEventListener("input", () => {
  noteEdit();
  showCount();
});
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  parseTyped();
});
for (const id of ["lines", "inner", "granularity"]) $(id).addEventListener("change", () => parseTyped());
$("inner-names").addEventListener("change", () => drawAll());
$("soft").addEventListener("change", () => parseTyped());
$("open-file").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", async () => {
  await parseFile($("file").files[0]);
  $("file").value = ""; // so that the same file can be opened again
});
$("ask").addEventListener("dragover", (event) => {
  if (event.dataTransfer.types.includes("Files")) event.preventDefault();
});
$("ask").addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  parseFile(event.dataTransfer.files[0]);
});
$("show-lexicon").addEventListener("click", () => {
  showLexicon($("lexicon-box").hidden);
  if (!$("lexicon-box").hidden) $("lexicon").focus();
});
$("token").addEventListener("submit", (event) => {
  event.preventDefault();
  $("token").hidden = true;
  useToken($("token-value").value);
  $("token-value").value = "";
});
for (const example of EXAMPLES) {
  const button = el("button", { type: "button" }, example);
  button.addEventListener("click", () => parseNew(example));
  $("examples").append(el("li", {}, button));
}
$("style").addEventListener("change", () => parseTyped($("style").value));
for (const [id, direction] of Object.entries({ smaller: -1, larger: 1, fit: 0 })) {
  $(id).addEventListener("click", () => {
    $("fit").setAttribute("aria-pressed", changeZoom(direction) === "fit");
    drawAll(); // wide figures in one row, or in several that fit the page
  });
}
$("rows").addEventListener("click", () => {
  $("rows").setAttribute("aria-pressed", toggleRows());
  if ($("rows").getAttribute("aria-pressed") === "true") $("fit").setAttribute("aria-pressed", false);
  drawAll();
});
$("walk-back").addEventListener("click", () => walk(-1));
$("walk-skip").addEventListener("click", () => walk(1));
$("walk-right").addEventListener("click", () => keepAll(false) && walk(1));
$("walk-fixed").addEventListener("click", () => keepAll(true) && walk(1));
$("walk-end").addEventListener("click", () => {
  end();
  drawWalk();
});
$("corrected-download").addEventListener("click", saveCorrected);
$("corrected-clear").addEventListener("click", clearCorrected);
$("undo").addEventListener("click", undo);
$("reset").addEventListener("click", reset);
$("more").addEventListener("click", drawMore);
$("link").addEventListener("click", async () => {
  const words = !address() ? "linkTooLong" : (await copy(location.href)) ? "copied" : "copyFailed";
  announce(t(words), true);
});
$("language").addEventListener("click", () => {
  switchLanguage();
  showAll();
});
$("theme").addEventListener("click", () => {
  localStorage.setItem(THEME, THEMES[(THEMES.indexOf(showTheme()) + 1) % THEMES.length]);
  showTheme();
});
addEventListener("keydown", (event) => {
  const inText = event.target.matches?.("textarea, input:not([type=radio])"); // there Ctrl + Z undoes the typing
  if (inText || event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey)
    return;
  event.preventDefault();
  undo();
});
addEventListener("scroll", () => showTip(null), { capture: true, passive: true });
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return show();
  width = innerWidth;
  return drawAll();
});
addEventListener("hashchange", restore);

showAll();
restore();
