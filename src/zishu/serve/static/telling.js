// Show problems, hints at the pointer and short messages. Two helpers build elements.

import { ServiceError } from "./api.js";
import { t } from "./i18n.js";

export const $ = (id) => document.getElementById(id);

/** Make an element; strings among the children become text, never markup. */
export function el(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

/** Describe a problem, with the message of the service in small print; null hides it. */
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

/** Announce a message to screen readers; with `seen`, also show it. */
export function announce(words, seen = false) {
  clearTimeout(fading);
  $("status").textContent = words;
  $("status").classList.toggle("seen", seen);
  if (seen) fading = setTimeout(() => $("status").classList.remove("seen"), 1800);
}

/** Show a hint for a part of a figure, outside the figure and the editor if there is room; null hides it. */
export function showTip(lines, element) {
  const tip = $("tip");
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren(...lines.map((words) => el("p", {}, words)));
  const part = element.getBoundingClientRect();
  const figure = element.closest(".scroll").getBoundingClientRect();
  const editor = element.closest(".card").querySelector(".editor");
  const bottom = (editor ?? element.closest(".scroll")).getBoundingClientRect().bottom;
  const { width, height } = tip.getBoundingClientRect();
  const rightmost = document.documentElement.clientWidth - width - 8;
  // The visible part of the element: an arc may be much longer.
  const middle = (Math.max(part.left, figure.left) + Math.min(part.right, figure.right)) / 2;
  const room = [bottom + 4, figure.top - height - 4, part.bottom + 8, part.top - height - 8];
  const top = room.find((y) => y >= 4 && y + height <= innerHeight - 4) ?? 4;
  tip.style.left = `${Math.max(8, Math.min(middle - width / 2, rightmost))}px`;
  tip.style.top = `${top}px`;
}
