// Convert between the service's offsets, which count code points, and JavaScript's strings, which count UTF-16 units. A
// text is an array of its code points, so offsets index it directly.

export const codePoints = (text) => Array.from(text);

const graphemes = new Intl.Segmenter("zh", { granularity: "grapheme" });

/** Split a word into characters as a reader sees them (grapheme clusters). */
export const characters = (form) => Array.from(graphemes.segment(form), ({ segment }) => segment);

const HIDDEN = /^[\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Z}\p{M}]/u; // no glyph of its own, or a mark without its letter
const DISTURBING = /[\p{Cc}\p{Cs}\p{Cn}\p{Z}]/gu; // inside a character; joiners (Cf) belong there

const escaped = (char) => `\\u${char.codePointAt(0).toString(16).padStart(4, "0")}`;

/** Replace invisible characters, and those that affect their neighbours (such as direction marks), by their codes. */
export function visible(text) {
  return characters(text)
    .map((char) => {
      if (char === " ") return char;
      return HIDDEN.test(char) ? codePoints(char).map(escaped).join("") : char.replace(DISTURBING, escaped);
    })
    .join("");
}

/** Decode the bytes of a file: UTF-8, UTF-16 with a byte order mark, or else GB 18030; null if it is not text. */
export function decode(bytes) {
  const mark = new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength)).toString();
  const encodings = { "255,254": ["utf-16le"], "254,255": ["utf-16be"] }[mark] ?? ["utf-8", "gb18030"];
  for (const encoding of encodings) {
    try {
      const text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
      return text.includes("\0") ? null : text;
    } catch {
      // Try the next encoding.
    }
  }
  return null;
}
