// Offsets of the service count code points, JavaScript's strings count UTF-16 units: here the two meet. A text is
// kept as the array of its code points, so that offsets index it directly.

export const codePoints = (text) => Array.from(text);

const graphemes = new Intl.Segmenter("zh", { granularity: "grapheme" });

/** Split a word into what a reader calls its characters. */
export const characters = (form) => Array.from(graphemes.segment(form), ({ segment }) => segment);

const HIDDEN = /^[\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Z}\p{M}]/u; // no picture of its own, or a mark without its letter
const DISTURBING = /[\p{Cc}\p{Cs}\p{Cn}\p{Z}]/gu; // inside a character; joiners (Cf) belong there

const escaped = (char) => `\\u${char.codePointAt(0).toString(16).padStart(4, "0")}`;

/** Spell out what has no picture or would disturb its neighbours, such as marks that reverse the writing. */
export function visible(text) {
  return characters(text)
    .map((char) => {
      if (char === " ") return char;
      return HIDDEN.test(char) ? codePoints(char).map(escaped).join("") : char.replace(DISTURBING, escaped);
    })
    .join("");
}

/** Decode the bytes of a file: UTF-8, UTF-16 with its mark, or else GB 18030; null if it is no text. */
export function decode(bytes) {
  const mark = new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength)).toString();
  const encodings = { "255,254": ["utf-16le"], "254,255": ["utf-16be"] }[mark] ?? ["utf-8", "gb18030"];
  for (const encoding of encodings) {
    try {
      const text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
      return text.includes("\0") ? null : text;
    } catch {
      // Another encoding, then.
    }
  }
  return null;
}
