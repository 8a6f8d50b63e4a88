// The constraints set by the user, in code points of the text: pins (stretches that must be one word), breaks (offsets that
// no word crosses), arcs [dependent, head or null for the root, relation or null] between pinned words, referred to by
// their start, and tags [word, part of speech] of pinned words. All are plain values; every function returns new ones.
//
// The service joins characters by pins only, so "these two characters belong together" becomes a pin of the word that
// results: of the two words beside the gap, or of the word around it.
//
// The newest correction wins: constraints that contradict it are dropped.

export const NOTHING = Object.freeze({ pins: [], breaks: [], arcs: [], tags: [] });

export const isEmpty = (constraints) => Object.values(constraints).every((list) => !list.length);

export const isPinned = ({ pins }, { start, end }) => pins.some(([a, b]) => a === start && b === end);

export const arcOf = ({ arcs }, { start }) => arcs.find(([d]) => d === start) ?? null;

export const tagOf = ({ tags }, { start }) => tags.find(([word]) => word === start)?.[1] ?? null;

/** Tell what is fixed about a gap: "break", "join", "edge" (of a pinned word) or "free". */
export function gapState({ pins, breaks }, offset) {
  if (breaks.includes(offset)) return "break";
  if (pins.some(([a, b]) => a < offset && offset < b)) return "join";
  return pins.some(([a, b]) => a === offset || b === offset) ? "edge" : "free";
}

// The first click contradicts the parser, the second agrees with it, the third removes the constraint. At the edge of
// a pinned word a click can only join.
const AFTER = {
  joined: { free: "break", break: "join", join: "free", edge: "join" },
  apart: { free: "join", join: "break", break: "free", edge: "join" },
};

/** Return the state of a gap after a click; `apart` tells whether the parser has a boundary there without constraints. */
export const nextGapState = (constraints, offset, apart) =>
  AFTER[apart ? "apart" : "joined"][gapState(constraints, offset)];

/** Fix or free a gap; `words` are those of the displayed analysis. */
export function setGap(constraints, offset, state, words) {
  const cut = without(constraints, offset, offset);
  if (state === "break") return { ...cut, breaks: inOrder([...cut.breaks, offset]) };
  if (state === "free") return { ...cut, breaks: cut.breaks.filter((k) => k !== offset) };
  const start = words.find(({ end }) => end >= offset).start;
  const end = words.findLast((word) => word.start <= offset).end;
  return pin(constraints, { start, end });
}

/** Pin a word. */
export function pin(constraints, { start, end }) {
  if (isPinned(constraints, { start, end })) return constraints;
  const rest = without(constraints, start, end);
  return { ...rest, pins: [...rest.pins, [start, end]].sort(([a], [b]) => a - b) };
}

/** Remove the constraints on a word, its head and its tag. */
export const unpin = (constraints, word) =>
  tidy({ ...constraints, pins: constraints.pins.filter(([a, b]) => a !== word.start || b !== word.end) });

/** Fix the head of a word of a sentence, null for the root, and its relation (null leaves it to the parser). */
export function setHead(constraints, sentence, word, head, relation = null) {
  const pinned = head ? pin(pin(constraints, word), head) : pin(constraints, word);
  const arc = [word.start, head ? head.start : null, relation];
  const rest = pinned.arcs.filter(([d]) => d !== word.start);
  const elsewhere = rest.filter(([d]) => d < sentence.start || d >= sentence.end);
  const here = compatible(
    rest.filter((one) => !elsewhere.includes(one)),
    arc,
  );
  return { ...pinned, arcs: inOrder([...elsewhere, ...here, arc]) };
}

/** Leave the head of a word to the parser. */
export const freeHead = (constraints, word) => ({
  ...constraints,
  arcs: constraints.arcs.filter(([d]) => d !== word.start),
});

/** Fix the part of speech of a word; null leaves it to the parser. */
export function setTag(constraints, word, tag) {
  const pinned = tag ? pin(constraints, word) : constraints;
  const rest = pinned.tags.filter(([start]) => start !== word.start);
  return { ...pinned, tags: tag ? inOrder([...rest, [word.start, tag]]) : rest };
}

/** Return the part that concerns the text from `start` to `end`, as offsets into that part. */
export function inside({ pins, breaks, arcs, tags }, { start, end }) {
  const within = (k) => k === null || (start <= k && k < end);
  const shift = (k) => (k === null ? null : k - start);
  return tidy({
    pins: pins.filter(([a, b]) => start <= a && b <= end).map(([a, b]) => [a - start, b - start]),
    breaks: breaks.filter((k) => start < k && k < end).map(shift),
    arcs: arcs
      .filter(([d, h]) => within(d) && within(h))
      .map(([d, h, relation]) => [shift(d), shift(h), relation]),
    tags: tags.filter(([word]) => within(word)).map(([word, tag]) => [shift(word), tag]),
  });
}

/** Return where two texts (arrays of code points) differ: everything between `first` and `last` was replaced. */
export function difference(before, after) {
  let first = 0;
  while (first < before.length && first < after.length && before[first] === after[first]) first++;
  const longest = Math.min(before.length, after.length) - first;
  let same = 0; // the length of their common end
  while (same < longest && before[before.length - 1 - same] === after[after.length - 1 - same]) same++;
  return { first, last: before.length - same, grown: after.length - before.length };
}

/** Move the constraints along with an edit of the text; drop those that touch the replaced stretch. */
export function follow({ pins, breaks, arcs, tags }, { first, last, grown }) {
  const move = (k) => (k === null || k < first ? k : k + grown);
  return tidy({
    pins: pins
      .filter(([a, b]) => b <= first || a >= last)
      .map(([a, b]) => (b <= first ? [a, b] : [a + grown, b + grown])),
    breaks: breaks.filter((k) => k < first || k > last).map(move),
    arcs: arcs.map(([d, h, relation]) => [move(d), move(h), relation]),
    tags: tags.map(([word, tag]) => [move(word), tag]),
  });
}

const inOrder = (list) => [...new Set(list)].sort((a, b) => (a[0] ?? a) - (b[0] ?? b));

/** Drop the pins that overlap a stretch, and the breaks inside it. */
function without(constraints, start, end) {
  const touches = ([a, b]) => (start === end ? a < start && start < b : a < end && start < b);
  return tidy({
    ...constraints,
    pins: constraints.pins.filter((one) => !touches(one)),
    breaks: constraints.breaks.filter((k) => k <= start || k >= end),
  });
}

/** Drop the arcs and tags of words that are no longer pinned. */
function tidy(constraints) {
  const starts = new Set(constraints.pins.map(([a]) => a));
  return {
    ...constraints,
    arcs: constraints.arcs.filter(([d, h]) => starts.has(d) && (h === null || starts.has(h))),
    tags: constraints.tags.filter(([word]) => starts.has(word)),
  };
}

/** Drop the arcs that no tree can have together with a new one. */
function compatible(arcs, fresh) {
  let kept = arcs.filter((arc) => !exclude(arc, fresh));
  const ancestors = (start) => {
    const above = [];
    for (let k = start; k !== null && k !== undefined && above.length <= kept.length; ) {
      k = [...kept, fresh].find(([d]) => d === k)?.[1];
      if (k !== null && k !== undefined) above.push(k);
    }
    return above;
  };
  // A cycle, or an arc that passes over a word from which its head descends.
  const wrong = ([d, h]) => {
    const above = h === null ? [] : ancestors(h);
    const [left, right] = [Math.min(d, h ?? d), Math.max(d, h ?? d)];
    return above.includes(d) || above.some((k) => left < k && k < right);
  };
  while (kept.some(wrong) || wrong(fresh)) {
    // Drop the arcs that lead up from the head of a wrong arc; keep the new one.
    const [, head] = [...kept, fresh].find(wrong);
    const drop = kept.find(([d]) => d === head) ?? kept.find(wrong);
    kept = kept.filter((arc) => arc !== drop);
  }
  return kept;
}

/** Tell whether two arcs cross, or both come from the root. */
function exclude([d, h], [e, g]) {
  if (h === null && g === null) return true;
  const [a, b] = [Math.min(d, h ?? -1), Math.max(d, h ?? -1)];
  const [x, y] = [Math.min(e, g ?? -1), Math.max(e, g ?? -1)];
  return (a < x && x < b && b < y) || (x < a && a < y && y < b);
}
