// A walk through sentences that are worth correcting (`zishu suggest`): their texts, and the position of the current one.
// The browser stores it like the corrected sentences, so the user can continue another day. Nothing is drawn here.

import { corrected } from "./corrected.js";

const STORED = "zishu-walk"; // in the browser's storage: {texts, at}

const NO_WALK = Object.freeze({ texts: [], at: 0 });

function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORED)) ?? NO_WALK;
  } catch {
    return NO_WALK;
  }
}

/** Return the texts of a file of suggestions, null if the file is something else. */
export function readSuggestions(content) {
  const lines = content.split("\n").filter((line) => line.trim());
  try {
    const texts = lines.map((line) => JSON.parse(line).text);
    return texts.length && texts.every((text) => typeof text === "string" && text.trim()) ? texts : null;
  } catch {
    return null;
  }
}

/** Start a walk; its first sentence is the first one that is not corrected. */
export function begin(texts) {
  const known = done(texts);
  const first = texts.findIndex((text) => !known.has(text));
  localStorage.setItem(STORED, JSON.stringify({ texts, at: Math.max(0, first) }));
}

/** End the walk; the corrected sentences stay. */
export const end = () => localStorage.removeItem(STORED);

/** Return the position in the walk: {text, number, all, done}, null if there is no walk. */
export function position() {
  const { texts, at } = stored();
  if (!texts.length) return null;
  return { text: texts[at], number: at + 1, all: texts.length, done: done(texts).size };
}

/** Go one sentence forward (1) or back (-1); return whether there was one. */
export function step(direction) {
  const { texts, at } = stored();
  if (!texts[at + direction]) return false;
  localStorage.setItem(STORED, JSON.stringify({ texts, at: at + direction }));
  return true;
}

/** Return the texts in which every sentence is corrected; the parser may split a text into several sentences. */
function done(texts) {
  const kept = corrected().map(({ text }) => text);
  return new Set(texts.filter((text) => covers(kept, text.trim())));
}

function covers(kept, text) {
  if (!text) return true;
  return kept.some((one) => text.startsWith(one) && covers(kept, text.slice(one.length).trimStart()));
}
