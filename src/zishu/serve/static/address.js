// Keep the state of the page in its address, after the #: the text, the lexicon, the constraints, and which analysis of
// each sentence is shown. Browsers do not send this part to the server.

const LONGEST = 500_000; // maximum length of an address; browsers have different limits

const ROOT = "root"; // as the head of an arc

const entries = (text) => (text ?? "").split(",").filter(Boolean);
const parts = (text) => entries(text).map((entry) => entry.split("-"));
const pairs = (text) => parts(text).map((pair) => pair.map(Number));
const whole = (value) => Number.isSafeInteger(value) && value >= 0;

const flag = (value) => value !== null;
const oneOf = (name) => (value) => (value === name ? value : "");

// How the options are read from an address. The value without an entry is the default, which is not written: the model's
// first style, no lexicon, word formation inside words, affixes apart.
const OPTIONS = {
  style: (value) => value ?? "",
  lexicon: entries,
  soft: flag,
  wrapped: flag,
  inner: oneOf("latent"),
  granularity: oneOf("coarse"),
};

const readOptions = (fields) =>
  Object.fromEntries(Object.entries(OPTIONS).map(([name, read]) => [name, read(fields.get(name))]));

export const NO_OPTIONS = Object.freeze(readOptions(new URLSearchParams()));

/** Read a state from an address; ignore invalid parts. */
export function readAddress(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const good = (pair) => pair.length === 2 && pair.every(whole);
  return {
    text: fields.get("text") ?? "",
    options: readOptions(fields),
    constraints: {
      pins: pairs(fields.get("pins")).filter(good),
      breaks: entries(fields.get("breaks")).map(Number).filter(whole),
      arcs: parts(fields.get("arcs"))
        .map(([d, h, relation]) => [Number(d), h === ROOT ? null : Number(h), relation || null])
        .filter(([d, h]) => whole(d) && (h === null || whole(h))),
      tags: parts(fields.get("tags"))
        .map(([word, tag]) => [Number(word), tag])
        .filter(([word, tag]) => whole(word) && tag),
    },
    ranks: new Map(pairs(fields.get("ranks")).filter(good)),
  };
}

/** Return a state as an address, "" if it is too long. */
export function writeAddress({ text, options, constraints, ranks }) {
  const fields = new URLSearchParams({ text });
  for (const [name, value] of Object.entries(options)) {
    if (value && value.length !== 0) fields.set(name, value === true ? "1" : value);
  }
  const join = (list) => list.map((pair) => pair.join("-")).join(",");
  if (constraints.pins.length) fields.set("pins", join(constraints.pins));
  if (constraints.breaks.length) fields.set("breaks", constraints.breaks.join(","));
  const arcs = constraints.arcs.map(([d, h, relation]) => [d, h ?? ROOT, ...(relation ? [relation] : [])]);
  if (arcs.length) fields.set("arcs", join(arcs));
  if (constraints.tags.length) fields.set("tags", join(constraints.tags));
  if (ranks.size) fields.set("ranks", join([...ranks]));
  const hash = `#${fields}`;
  return hash.length > LONGEST ? "" : hash;
}
