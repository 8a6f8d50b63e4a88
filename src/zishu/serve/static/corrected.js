// The sentences that a person has marked as corrected, kept in the browser until they are removed. Each stands for itself:
// its offsets count from its own beginning. A sentence that is marked again replaces its old version. Of a sentence with
// `known`, the constraints that the person has fixed, only these are right, not the whole analysis.

import { toConllu, toJson } from "./export.js";
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

/** Compare an analysis with the saved version of its sentence: "new" (none is saved), "same" or "other". */
export function standing(analysis) {
  const kept = corrected().find(({ text }) => text === analysis.text);
  if (!kept) return "new";
  return !kept.known && essence(kept) === essence(alone(analysis)) ? "same" : "other";
}

/** Return everything but the probabilities, which depend on the constraints. */
const essence = ({ words }) =>
  JSON.stringify(
    words.map(({ form, upos, head, deprel, char_heads: inner }) => [form, upos, head, deprel, inner]),
  );

/** Save an analysis as the correct one of its sentence or, with `known`, only these constraints. */
export function keep(analysis, known = null) {
  const list = corrected();
  const place = list.findIndex(({ text }) => text === analysis.text);
  const kept = known ? { ...alone(analysis), known } : alone(analysis);
  store(place < 0 ? [...list, kept] : list.with(place, kept));
}

/** Remove a sentence. */
export const drop = (analysis) => store(others(analysis));

/** Remove all sentences. */
export const dropAll = () => store([]);

/** Return all corrected sentences as a file, {content, ending}: CoNLL-U, or JSON lines if some are known only in part. */
export async function correctedFile() {
  const list = corrected();
  if (list.some(({ known }) => known)) return { content: toJson(list), ending: "jsonl" };
  let start = 0;
  const sentences = list.map((sentence) => {
    const placed = moved(sentence, start);
    start += codePoints(sentence.text).length + 1;
    return placed;
  });
  const content = await toConllu(sentences, sentences.map(({ text }) => `${text}\n`).join(""));
  return { content, ending: "conllu" };
}
