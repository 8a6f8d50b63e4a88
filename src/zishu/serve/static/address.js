// Keep the state of the page in its address, after the #: the text, the lexicon, the constraints, and which analysis of
// each sentence is shown. Browsers do not send this part to the server.

const LONGEST = 500_000; // maximum length of an address; browsers have different limits

const ROOT = "root"; // as the head of an arc

const entries = (text) => (text ?? "").split(",").filter(Boolean);
const parts = (text) => entries(text).map((entry) => entry.split("-"));
const pairs = (text) => parts(text).map((pair) => pair.map(Number));
const whole = (value) => Number.isSafeInteger(value) && value >= 0;

/** Read a state from an address; ignore invalid parts. */
export function readAddress(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const good = (pair) => pair.length === 2 && pair.every(whole);
  return {
    text: fields.get("text") ?? "",
    style: fields.get("style") ?? "",
    lexicon: entries(fields.get("lexicon")),
    soft: fields.has("soft"),
    wrapped: fields.has("wrapped"),
    inner: fields.get("inner") === "latent" ? "latent" : "",
    granularity: fields.get("granularity") === "coarse" ? "coarse" : "",
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
export function writeAddress({ text, constraints, ranks, ...options }) {
  const { style, lexicon, soft, wrapped, inner, granularity } = options;
  const fields = new URLSearchParams({ text });
  if (style) fields.set("style", style);
  if (lexicon.length) fields.set("lexicon", lexicon.join(","));
  if (soft) fields.set("soft", "1");
  if (wrapped) fields.set("wrapped", "1");
  if (inner) fields.set("inner", inner);
  if (granularity) fields.set("granularity", granularity);
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
