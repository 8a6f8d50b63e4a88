// The state of the page and its changes. Every change takes the same steps: ask the service, store the answer in
// `state`, update the address, notify the `view` (see `connect`). Nothing is drawn here.

import { NO_OPTIONS, writeAddress } from "./address.js";
import { describe, hasToken, parse, setToken } from "./api.js";
import { comparable } from "./compare.js";
import {
  NOTHING,
  follow,
  freeHead,
  inside,
  isEmpty,
  isPinned,
  nextGapState,
  pin,
  setGap,
  setHead,
  setTag,
  unpin,
} from "./constraints.js";
import { codePoints } from "./text.js";

const K_BEST = 5;
const SHORT = 200; // code points; for longer texts, other analyses are fetched on demand

// A sentence is {analyses, rank, all}: its analyses, the number of the displayed one, and whether all were fetched.
// Sentences are never changed in place, so undo only restores the old list.
export const state = {
  text: "",
  options: NO_OPTIONS, // how the text is parsed
  model: null,
  labels: [], // the relations that the model knows
  upos: [], // its parts of speech
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
 * Set the functions to be called: busy(yes), opened() after a new text, changed(numbers) with the numbers of the sentences to be
 * drawn again or null for all, problem(error or null), tokenNeeded().
 */
export const connect = (handlers) => Object.assign(view, handlers);

// --- asking the service ---

let job = new AbortController(); // cancels the requests of a text that was replaced
let line = Promise.resolve(); // requests run one after another: each starts from the result of the previous one
let refused = null; // the action to repeat when there is a token

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

/** Repeat the request that was refused because the token was missing. */
export function useToken(token) {
  setToken(token);
  if (refused) enqueue(refused);
  refused = null;
}

const kBestFor = (text) => (codePoints(text).length <= SHORT ? K_BEST : 1);
const sentence = (analyses, kBest, rank = 0) => ({
  analyses,
  rank: Math.min(rank, analyses.length - 1),
  all: kBest > 1,
});

async function parseText(text, constraints, signal) {
  const kBest = kBestFor(text);
  const { model, sentences } = await parse(text, constraints, state.options, kBest, signal);
  return { model, sentences: sentences.map((analyses) => sentence(analyses, kBest)) };
}

/** Parse a sentence again with all its analyses; return null if it is not one sentence when it stands alone. */
async function parseSentence({ text, start, end }, constraints, rank, signal) {
  const { sentences } = await parse(text, inside(constraints, { start, end }), state.options, K_BEST, signal);
  if (sentences.length !== 1 || sentences[0][0].text !== text) return null;
  return sentence(
    sentences[0].map((analysis) => moved(analysis, start)),
    K_BEST,
    rank,
  );
}

/** Return an analysis with all offsets shifted. */
export function moved(analysis, distance) {
  const move = (item) => ({ ...item, start: item.start + distance, end: item.end + distance });
  return { ...move(analysis), words: analysis.words.map(move) };
}

// --- what a person can do ---

/** Parse a text from scratch and show the state in an address; with `remember`, add it to the browser's history. */
export function open({ text, options, constraints, ranks }, { remember }) {
  job.abort();
  job = new AbortController();
  enqueue(async (signal) => {
    state.options = options;
    const { model, sentences: free } = await parseText(text, NOTHING, signal);
    if (!state.labels.length) {
      const { labels, upos } = await describe();
      Object.assign(state, { labels, upos });
    }
    const { fixed, sentences, trouble } = await fix(text, constraints, free, signal);
    for (const [number, rank] of ranks) {
      const one = sentences[number];
      if (one)
        sentences[number] = one.all
          ? sentence(one.analyses, K_BEST, rank)
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

/** Parse an edited text; constraints on unchanged parts stay. */
export function submit(text, edits, options) {
  const constraints = edits.reduce(follow, state.constraints);
  open({ text, options, constraints, ranks: new Map() }, { remember: true });
}

/** Parse a new text under the constraints of a link; drop wrong ones, since a link may have been edited by hand. */
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

/** Pin or unpin a word of a sentence. */
export const togglePin = (number, word) =>
  correct(number, (constraints) => (isPinned(constraints, word) ? unpin : pin)(constraints, word));

/** Fix the head of a word, null for the root; its relation is left to the parser. */
export const changeHead = (number, word, head) =>
  correct(number, (constraints, sentence) => setHead(constraints, sentence, word, head));

/** Fix the relation of a word, and with it its head; null leaves the relation to the parser. */
export const changeRelation = (number, word, relation) =>
  correct(number, (constraints, sentence) =>
    setHead(constraints, sentence, word, sentence.words[word.head - 1] ?? null, relation),
  );

/** Leave the head of a word and its relation to the parser. */
export const releaseHead = (number, word) => correct(number, (constraints) => freeHead(constraints, word));

/** Fix the part of speech of a word; null leaves it to the parser. */
export const changeTag = (number, word, tag) =>
  correct(number, (constraints) => setTag(constraints, word, tag));

/** Cut, join or free a gap of a sentence. */
export const clickGap = (number, offset) =>
  correct(number, (constraints, { words }) => {
    const next = nextGapState(constraints, offset, state.boundaries.has(offset));
    return setGap(constraints, offset, next, words);
  });

function correct(number, change) {
  enqueue(async (signal) => {
    const analysis = inView(state.sentences[number]);
    const constraints = change(state.constraints, analysis);
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

/** Undo the last correction. */
export function undo() {
  enqueue(async () => {
    if (state.past.length) replace(state.past.pop());
  });
}

/** Remove all corrections; this can be undone, too. */
export function reset() {
  enqueue(async () => {
    keep();
    replace({ sentences: state.free, constraints: NOTHING });
  });
}

/** Clear the text. */
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

/** Return the state as the part of an address after the #, "" if it is too long. */
export function address() {
  const ranks = new Map();
  state.sentences.forEach(({ rank }, number) => rank && ranks.set(number, rank));
  const { text, options, constraints } = state;
  return writeAddress({ text, options, constraints, ranks });
}

/** Update the address; a new text gets a new entry in the browser's history. */
function writeHistory(anew) {
  const url = address() || location.pathname;
  if (anew) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
}
