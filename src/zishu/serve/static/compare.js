// Find the differences between an analysis and the one without constraints.

const same = (one, other) => one.start === other.start && one.end === other.end;
const overlap = (one, other) => one.start < other.end && other.start < one.end;

/** Return the words of sentences, each with its head word (null for the root), for comparison. */
export const comparable = (sentences) =>
  sentences.flatMap(({ words }) =>
    words.map((word) => ({ ...word, governor: words[word.head - 1] ?? null })),
  );

/**
 * Compare the words of an analysis with those of the whole text as first parsed. The result holds ids of words of the
 * analysis: `words` with new boundaries, `arcs` with another head or relation, `tags` with another part of speech;
 * and `spans`, the stretches that are segmented differently, as lists of forms before and after.
 */
export function compare(words, freeWords) {
  const first = words[0].start;
  const last = words.at(-1).end;
  const before = freeWords.filter(({ start, end }) => first <= start && end <= last);
  const found = { words: new Set(), arcs: new Set(), tags: new Set(), spans: spans(before, words) };
  for (const word of comparable([{ words }])) {
    const old = before.filter((one) => overlap(one, word));
    if (!old.some((one) => same(one, word))) found.words.add(word.id);
    else if (old[0].upos !== word.upos) found.tags.add(word.id);
    if (!old.some((one) => sameArc(one, word))) found.arcs.add(word.id);
  }
  return found;
}

/** Tell whether two arcs are the same except for the boundaries of the words at their ends. */
function sameArc(one, other) {
  if (one.deprel !== other.deprel) return false;
  if (!one.governor || !other.governor) return one.governor === other.governor;
  return overlap(one.governor, other.governor);
}

function spans(before, after) {
  const ends = new Set(after.map(({ end }) => end));
  const common = new Set(before.map(({ end }) => end).filter((end) => ends.has(end)));
  const groups = (words) => {
    const all = new Map(); // the end of a stretch without common boundaries -> its words
    let current = [];
    for (const { form, end } of words) {
      current.push(form);
      if (common.has(end)) {
        all.set(end, current);
        current = [];
      }
    }
    return all;
  };
  const old = groups(before);
  return [...groups(after)]
    .map(([end, forms]) => ({ before: old.get(end), after: forms }))
    .filter((span) => span.before.length !== 1 || span.after.length !== 1);
}
