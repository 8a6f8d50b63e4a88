// The page. In the order to read: text, constraints, compare (plain values); api, address, session (what the page
// holds and how it changes); layout, figure (an analysis as SVG); export; i18n, gloss (words); telling, cards (what is
// seen); and here the fixed parts of the page, with what happens when someone uses them.

import { readAddress } from "./address.js";
import { drawAgain, drawAll, drawMore, drawNew } from "./cards.js";
import { NOTHING } from "./constraints.js";
import { copy } from "./export.js";
import { switchLanguage, t, translate } from "./i18n.js";
import { address, changeStyle, close, connect, open, reset, state, undo, useToken } from "./session.js";
import { $, announce, el, showProblem, showTip } from "./telling.js";
import { codePoints } from "./text.js";

const EXAMPLES = [
  "上海计划发展金融业。",
  "乒乓球拍卖完了。",
  "他研究生命起源。她说南京市长江大桥今天建成通车。",
];
const THEME = "zishu-theme"; // in the browser's storage
const THEMES = ["auto", "light", "dark"];

connect({
  busy(yes) {
    document.body.classList.toggle("busy", yes);
    if (yes) announce(t("working"));
  },
  opened() {
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
}

/** Offer the styles of the model that has answered, if there is a choice. */
function showStyles() {
  const styles = state.model?.styles ?? [];
  $("style-choice").hidden = styles.length < 2;
  $("style").replaceChildren(
    ...styles.map((style) => el("option", { value: style }, t(`styles.${style}`) ?? style)),
  );
  $("style").value = state.style || styles[0];
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

/** Show what the address says. */
function restore() {
  const wanted = readAddress(location.hash);
  $("text").value = wanted.text;
  showCount();
  if (wanted.text.trim()) open(wanted, { remember: false });
  else close();
}

function submit() {
  const text = $("text").value;
  if (text.trim()) open({ text, style: state.style, constraints: NOTHING, ranks: new Map() }, { remember: true });
  else $("text").focus();
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
$("text").addEventListener("input", showCount);
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  submit();
});
$("token").addEventListener("submit", (event) => {
  event.preventDefault();
  $("token").hidden = true;
  useToken($("token-value").value);
  $("token-value").value = "";
});
for (const example of EXAMPLES) {
  const button = el("button", { type: "button" }, example);
  button.addEventListener("click", () => {
    $("text").value = example;
    showCount();
    submit();
  });
  $("examples").append(el("li", {}, button));
}
$("style").addEventListener("change", () => changeStyle($("style").value));
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
  const typing = event.target.matches?.("textarea, input:not([type=radio])"); // there it undoes the typing
  if (typing || event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey)
    return;
  event.preventDefault();
  undo();
});
addEventListener("scroll", () => showTip(null), { capture: true, passive: true });
addEventListener("hashchange", restore);

showAll();
restore();
