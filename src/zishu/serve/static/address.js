// The state of the page in its address, behind the #: the text, what is fixed, and which analysis of each sentence is
// in view. Nothing of it goes to the server with the request for the page.

const LONGEST = 500_000; // of an address, in letters; browsers differ in what they bear

const numbers = (text) => (text ?? "").split(",").filter(Boolean);
const pairs = (text) => numbers(text).map((pair) => pair.split("-").map(Number));
const whole = (value) => Number.isSafeInteger(value) && value >= 0;

/** Read a state from an address; parts that make no sense are passed over. */
export function readAddress(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const good = (pair) => pair.length === 2 && pair.every(whole);
  return {
    text: fields.get("text") ?? "",
    style: fields.get("style") ?? "",
    constraints: {
      pins: pairs(fields.get("pins")).filter(good),
      breaks: numbers(fields.get("breaks")).map(Number).filter(whole),
    },
    ranks: new Map(pairs(fields.get("ranks")).filter(good)),
  };
}

/** Write a state as an address, "" if it is too long for one. */
export function writeAddress({ text, style, constraints, ranks }) {
  const fields = new URLSearchParams({ text });
  if (style) fields.set("style", style);
  const join = (list) => list.map((pair) => pair.join("-")).join(",");
  if (constraints.pins.length) fields.set("pins", join(constraints.pins));
  if (constraints.breaks.length) fields.set("breaks", constraints.breaks.join(","));
  if (ranks.size) fields.set("ranks", join([...ranks]));
  const hash = `#${fields}`;
  return hash.length > LONGEST ? "" : hash;
}
