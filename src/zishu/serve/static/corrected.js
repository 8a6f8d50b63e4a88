// The sentences that a person has marked as corrected, kept in the browser until they are removed. Each stands for itself:
// its offsets count from its own beginning. A sentence that is marked again replaces its old version.

import { toConllu } from "./export.js";
import { moved } from "./session.js";
import { codePoints } from "./text.js";

const STORED = "zishu-corrected"; // in the browser's storage

/** Return the corrected sentences, the oldest first. */
export function corrected() {
  try {
    return JSON.parse(localStorage.getItem(STORED)) ?? [];
  } catch {
    return [];
  }
}

const store = (list) => localStorage.setItem(STORED, JSON.stringify(list));

const alone = (analysis) => moved(analysis, -analysis.start);
const others = ({ text }) => corrected().filter((one) => one.text !== text);

/** Tell how an analysis stands to what is kept of its sentence: "new", "same" or "other". */
export function standing(analysis) {
  const kept = corrected().find(({ text }) => text === analysis.text);
  if (!kept) return "new";
  return essence(kept) === essence(alone(analysis)) ? "same" : "other";
}

/** Everything but the probabilities, which change with what is fixed. */
const essence = ({ words }) =>
  JSON.stringify(
    words.map(({ form, upos, head, deprel, char_heads: inner }) => [form, upos, head, deprel, inner]),
  );

/** Keep an analysis as the right one of its sentence. */
export function keep(analysis) {
  const list = corrected();
  const place = list.findIndex(({ text }) => text === analysis.text);
  store(place < 0 ? [...list, alone(analysis)] : list.with(place, alone(analysis)));
}

/** Drop what is kept of a sentence. */
export const drop = (analysis) => store(others(analysis));

/** Drop all. */
export const dropAll = () => store([]);

/** Return all corrected sentences as CoNLL-U: a text with one sentence per line. */
export function correctedConllu() {
  let start = 0;
  const sentences = corrected().map((sentence) => {
    const placed = moved(sentence, start);
    start += codePoints(sentence.text).length + 1;
    return placed;
  });
  return toConllu(sentences, sentences.map(({ text }) => `${text}\n`).join(""));
}
