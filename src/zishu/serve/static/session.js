// What the page holds, and how it changes. Every change goes the same way: ask the service, put the answer into
// `state`, write the address, tell the `view` (see `connect`). Nothing is drawn here.

import { writeAddress } from "./address.js";
import { hasToken, parse, setToken } from "./api.js";
import { comparable } from "./compare.js";
import { NOTHING, inside, isEmpty, nextGapState, setGap, togglePin } from "./constraints.js";
import { codePoints } from "./text.js";

const KBEST = 5;
const SHORT = 200; // code points; of longer texts the other analyses are fetched when they are wanted

// A sentence is {analyses, rank, all}: its analyses, the number of the one in view, and whether the others were asked
// for. None is ever changed in place, so that to undo is to take the old list.
export const state = {
  text: "",
  style: "", // the default one
  model: null,
  free: [], // the sentences with nothing fixed
  freeWords: [],
  boundaries: new Set(), // where words begin or end with nothing fixed
  sentences: [],
  constraints: NOTHING,
  past: [], // [{sentences, constraints}], to undo
};

export const inView = ({ analyses, rank }) => analyses[rank];

const view = {};

/**
 * Say who is to be told: busy(yes), opened() after a new text, changed(numbers) with the numbers of the sentences to be
 * drawn again or null for all, problem(error or null), tokenNeeded().
 */
export const connect = (handlers) => Object.assign(view, handlers);

// --- asking the service ---

let job = new AbortController(); // ends what belongs to a text that is no longer wanted
let line = Promise.resolve(); // requests wait for one another: each starts from the result of the last
let refused = null; // what to do again once there is a token

function enqueue(work) {
  const { signal } = job;
  line = line.then(async () => {
    if (signal.aborted) return;
    view.problem(null);
    view.busy(true);
    try {
      await work(signal);
    } catch (error) {
      if (error.name !== "AbortError") fail(error, work);
    } finally {
      view.busy(false);
    }
  });
}

function fail(error, work) {
  if (error.status !== 401) return view.problem(error);
  refused = work;
  if (hasToken()) view.problem(error);
  return view.tokenNeeded();
}

/** Go on with what was refused for want of a token. */
export function useToken(token) {
  setToken(token);
  if (refused) enqueue(refused);
  refused = null;
}

const kbestFor = (text) => (codePoints(text).length <= SHORT ? KBEST : 1);
const sentence = (analyses, kbest, rank = 0) => ({
  analyses,
  rank: Math.min(rank, analyses.length - 1),
  all: kbest > 1,
});

async function parseText(text, constraints, signal) {
  const kbest = kbestFor(text);
  const { model, sentences } = await parse(text, constraints, state.style, kbest, signal);
  return { model, sentences: sentences.map((analyses) => sentence(analyses, kbest)) };
}

/** Parse a sentence again with all its analyses; return null if it is not one sentence when it stands alone. */
async function parseSentence({ text, start, end }, constraints, rank, signal) {
  const { sentences } = await parse(text, inside(constraints, { start, end }), state.style, KBEST, signal);
  if (sentences.length !== 1 || sentences[0][0].text !== text) return null;
  const moved = (item) => ({ ...item, start: item.start + start, end: item.end + start });
  const analyses = sentences[0].map((analysis) => ({ ...moved(analysis), words: analysis.words.map(moved) }));
  return sentence(analyses, KBEST, rank);
}

// --- what a person can do ---

/** Parse a text from scratch and show of it what an address says; `remember` it in the browser's history. */
export function open({ text, style, constraints, ranks }, { remember }) {
  job.abort();
  job = new AbortController();
  enqueue(async (signal) => {
    state.style = style;
    const { model, sentences: free } = await parseText(text, NOTHING, signal);
    const { fixed, sentences, trouble } = await fix(text, constraints, free, signal);
    for (const [number, rank] of ranks) {
      const one = sentences[number];
      if (one)
        sentences[number] = one.all
          ? sentence(one.analyses, KBEST, rank)
          : await reread(one, fixed, rank, signal);
    }
    const freeWords = comparable(free.map(inView));
    const boundaries = new Set(freeWords.flatMap(({ start, end }) => [start, end]));
    Object.assign(state, {
      text,
      model,
      free,
      freeWords,
      boundaries,
      sentences,
      constraints: fixed,
      past: [],
    });
    writeHistory(remember);
    view.opened();
    if (trouble) view.problem(trouble);
  });
}

/** Parse the text again in another style; what is fixed stays fixed. */
export const changeStyle = (style) =>
  open({ text: state.text, style, constraints: state.constraints, ranks: new Map() }, { remember: true });

/** Parse a new text under the constraints of a link, which may have been changed by hand: wrong ones are let go. */
async function fix(text, constraints, free, signal) {
  if (isEmpty(constraints)) return { fixed: NOTHING, sentences: [...free], trouble: null };
  try {
    const { sentences } = await parseText(text, constraints, signal);
    return { fixed: constraints, sentences, trouble: null };
  } catch (error) {
    if (error.status !== 422) throw error;
    return { fixed: NOTHING, sentences: [...free], trouble: error };
  }
}

const reread = async (one, constraints, rank, signal) =>
  (await parseSentence(inView(one), constraints, rank, signal)) ?? { ...one, all: true };

/** Pin a word of a sentence, or let it go. */
export const clickWord = (number, word) => correct(number, (constraints) => togglePin(constraints, word));

/** Cut, join or free a gap of a sentence. */
export const clickGap = (number, offset) =>
  correct(number, (constraints, words) => {
    const next = nextGapState(constraints, offset, state.boundaries.has(offset));
    return setGap(constraints, offset, next, words);
  });

function correct(number, change) {
  enqueue(async (signal) => {
    const analysis = inView(state.sentences[number]);
    const constraints = change(state.constraints, analysis.words);
    const fresh = await parseSentence(analysis, constraints, 0, signal);
    const sentences = fresh
      ? state.sentences.with(number, fresh)
      : (await parseText(state.text, constraints, signal)).sentences;
    keep();
    replace({ sentences, constraints });
  });
}

/** Show an analysis of a sentence by its rank; fetch the analyses first if only the best is known. */
export function choose(number, rank) {
  enqueue(async (signal) => {
    const one = state.sentences[number];
    const fresh = one.all ? { ...one, rank } : await reread(one, state.constraints, rank, signal);
    replace({ sentences: state.sentences.with(number, fresh), constraints: state.constraints });
  });
}

/** Take back the last correction. */
export function undo() {
  enqueue(async () => {
    if (state.past.length) replace(state.past.pop());
  });
}

/** Take back all corrections at once; this, too, can be undone. */
export function reset() {
  enqueue(async () => {
    keep();
    replace({ sentences: state.free, constraints: NOTHING });
  });
}

/** Forget the text. */
export function close() {
  job.abort();
  Object.assign(state, { text: "", sentences: [], constraints: NOTHING, past: [] });
  view.opened();
}

function keep() {
  state.past.push({ sentences: state.sentences, constraints: state.constraints });
}

function replace({ sentences, constraints }) {
  const before = state.sentences;
  Object.assign(state, { sentences, constraints });
  writeHistory(false);
  const numbers = sentences
    .map((_, number) => number)
    .filter((number) => sentences[number] !== before[number]);
  view.changed(before.length === sentences.length ? numbers : null);
}

/** Return the state as the part of an address behind the #, "" if it is too long for that. */
export function address() {
  const ranks = new Map();
  state.sentences.forEach(({ rank }, number) => rank && ranks.set(number, rank));
  return writeAddress({ text: state.text, style: state.style, constraints: state.constraints, ranks });
}

/** Keep the address in step; a new text gets an entry of its own in the browser's history. */
function writeHistory(anew) {
  const url = address() || location.pathname;
  if (anew) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
}
