// What the page tells beside the result: problems, hints at the pointer, short messages. And two helpers to build it.

import { ServiceError } from "./api.js";
import { t } from "./i18n.js";

export const $ = (id) => document.getElementById(id);

/** Make an element; strings among the children become text, never markup. */
export function el(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

/** Tell in words what went wrong, and in small print what the service says about it; null: nothing any more. */
export function showProblem(error) {
  $("problem").hidden = !error;
  if (!error) return;
  const problems = t("problems");
  const known = error instanceof ServiceError;
  if (!known) console.error(error);
  const words = known ? (problems[error.code] ?? problems[error.status] ?? problems.other) : problems.page;
  const wait = error.retryAfter ? ` ${t("retryAfter", error.retryAfter)}` : "";
  $("problem-words").textContent = words + wait;
  $("problem-detail").textContent = error.message;
  announce("");
}

let fading;

/** Tell those who do not see the page what happened; with `seen` also those who do. */
export function announce(words, seen = false) {
  clearTimeout(fading);
  $("status").textContent = words;
  $("status").classList.toggle("seen", seen);
  if (seen) fading = setTimeout(() => $("status").classList.remove("seen"), 1800);
}

/** Show lines of text beside an element; null: hide them. */
export function showTip(lines, element) {
  const tip = $("tip");
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren(...lines.map((words) => el("p", {}, words)));
  const at = element.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const rightmost = document.documentElement.clientWidth - width - 8;
  // Below, where it hides neither arcs nor neighbours, unless there is no room.
  const below = at.bottom + 8;
  const above = Math.max(8, at.top - height - 8);
  tip.style.left = `${Math.max(8, Math.min(at.left + at.width / 2 - width / 2, rightmost))}px`;
  tip.style.top = `${below + height < innerHeight ? below : above}px`;
}
