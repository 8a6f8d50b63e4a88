// What a person has fixed: pins (stretches that must be one word) and breaks (offsets that no word goes over), both
// in code points of the text. Plain values; every function returns new ones.
//
// The service knows pins and breaks only, so "these two characters belong together" becomes a pin of the word that
// results: of the two words beside the gap, or of the word around it.

export const NOTHING = Object.freeze({ pins: [], breaks: [] });

export const isEmpty = ({ pins, breaks }) => !pins.length && !breaks.length;

export const isPinned = ({ pins }, { start, end }) => pins.some(([a, b]) => a === start && b === end);

/** Tell what is fixed about a gap: "break", "join", "edge" (of a pinned word) or "free". */
export function gapState({ pins, breaks }, offset) {
  if (breaks.includes(offset)) return "break";
  if (pins.some(([a, b]) => a < offset && offset < b)) return "join";
  return pins.some(([a, b]) => a === offset || b === offset) ? "edge" : "free";
}

// The first click contradicts the parser, the second agrees with it, the third leaves it free again. At the edge of
// a pinned word the only news can be to join.
const AFTER = {
  joined: { free: "break", break: "join", join: "free", edge: "join" },
  apart: { free: "join", join: "break", break: "free", edge: "join" },
};

/** Tell what a click makes of a gap, where the parser left alone has a boundary there (`apart`) or not. */
export const nextGapState = (constraints, offset, apart) =>
  AFTER[apart ? "apart" : "joined"][gapState(constraints, offset)];

/** Fix or free a gap; `words` are those of the analysis in view. */
export function setGap(constraints, offset, state, words) {
  if (state === "break")
    return { ...without(constraints, offset, offset), breaks: added(constraints, offset) };
  if (state === "free") {
    const { pins, breaks } = without(constraints, offset, offset);
    return { pins, breaks: breaks.filter((k) => k !== offset) };
  }
  const start = words.find(({ end }) => end >= offset).start;
  const end = words.findLast((word) => word.start <= offset).end;
  return pin(constraints, { start, end });
}

/** Pin a word, or let it go if it is pinned. */
export function togglePin(constraints, word) {
  if (!isPinned(constraints, word)) return pin(constraints, word);
  const { pins, breaks } = constraints;
  return { pins: pins.filter(([a, b]) => a !== word.start || b !== word.end), breaks };
}

/** Return the part that concerns the text from `start` to `end`, as offsets into that part. */
export function inside({ pins, breaks }, { start, end }) {
  return {
    pins: pins.filter(([a, b]) => start <= a && b <= end).map(([a, b]) => [a - start, b - start]),
    breaks: breaks.filter((k) => start < k && k < end).map((k) => k - start),
  };
}

function pin(constraints, { start, end }) {
  const { pins, breaks } = without(constraints, start, end);
  return { pins: [...pins, [start, end]].sort(([a], [b]) => a - b), breaks };
}

const added = ({ breaks }, offset) => [...new Set([...breaks, offset])].sort((a, b) => a - b);

/** Drop the pins that share characters with a stretch or go over it, and the breaks inside it. */
function without({ pins, breaks }, start, end) {
  const touches = ([a, b]) => (start === end ? a < start && start < b : a < end && start < b);
  return { pins: pins.filter((one) => !touches(one)), breaks: breaks.filter((k) => k <= start || k >= end) };
}
