// The editor of a word, below the figure of its sentence: whether it is pinned, its part of speech, its head and its
// relation. Each menu begins with "automatic", which leaves the choice to the parser.

import { arcOf, isPinned, tagOf } from "./constraints.js";
import { chances } from "./figure.js";
import { explainRelation, explainUpos, glossed } from "./gloss.js";
import { currentLanguage, t } from "./i18n.js";
import { changeHead, changeRelation, changeTag, releaseHead, state, togglePin } from "./session.js";
import { el } from "./telling.js";
import { visible } from "./text.js";

const INTRA = "INTRA"; // the label of arcs inside words
const isRoot = (label) => label.toLowerCase() === "root";

/** Return the editor of a word of the sentence with this number; `close()` is called to close it. */
export function drawEditor(number, word, { words }, close) {
  const language = currentLanguage();
  const { constraints } = state;
  const pinned = isPinned(constraints, word);
  const arc = arcOf(constraints, word);
  const head = words[word.head - 1] ?? null;
  const nameOf = (one) => (one ? `${one.id} ${visible(one.form)}` : t("root"));

  const pin = el("button", { type: "button" }, t(pinned ? "unpin" : "pin"));
  pin.dataset.edit = "pin";
  pin.setAttribute("aria-pressed", pinned);
  pin.addEventListener("click", () => togglePin(number, word));

  const tags = state.upos.toSorted().map((tag) => [tag, glossed(tag, explainUpos(tag, language))]);
  const tag = menu("tag", tags, tagOf(constraints, word), word.upos ?? "–", (value) =>
    changeTag(number, word, value),
  );

  const others = words.filter(({ id }) => id !== word.id);
  const heads = [null, ...others].map((one) => [one?.start ?? "root", nameOf(one)]);
  const fixedHead = arc && (arc[1] ?? "root");
  const heading = menu("head", heads, fixedHead, nameOf(head), (value) => {
    if (value === null) releaseHead(number, word);
    else changeHead(number, word, words.find(({ start }) => String(start) === value) ?? null);
  });

  const fitting = state.labels.filter((label) => label !== INTRA && isRoot(label) === !head).toSorted();
  const relations = fitting.map((label) => [label, glossed(label, explainRelation(label, language))]);
  const relation = menu("relation", relations, arc?.[2] ?? null, word.deprel, (value) =>
    changeRelation(number, word, value),
  );

  const done = el("button", { type: "button", className: "quiet close", title: t("close") }, "×");
  done.setAttribute("aria-label", t("close"));
  done.addEventListener("click", close);
  const title = el("strong", { lang: "zh-Hans" }, visible(word.form));
  const sure = el("p", { className: "muted" }, chances(word));
  const editor = el("div", { className: "row editor" }, title, pin, tag, heading, relation, done, sure);
  editor.setAttribute("role", "group");
  editor.setAttribute("aria-label", t("edit", visible(word.form)));
  editor.addEventListener("keydown", (event) => event.key === "Escape" && close());
  return editor;
}

/** Return a menu with its name; `choices` are pairs of a value and its words, `fixed` is null if nothing is fixed. */
function menu(kind, choices, fixed, found, change) {
  const known = choices.some(([value]) => String(value) === String(fixed));
  const select = el(
    "select",
    { className: fixed === null ? "" : "fixed" },
    el("option", { value: "" }, t("automatic", found)),
    ...choices.map(([value, words]) => el("option", { value }, words)),
    ...(fixed === null || known ? [] : [el("option", { value: fixed }, String(fixed))]), // from a link
  );
  select.value = fixed ?? "";
  select.dataset.edit = kind;
  select.addEventListener("change", () => change(select.value || null));
  return el("label", {}, el("span", {}, t(`fields.${kind}`)), select);
}
