// Export the displayed analyses as CoNLL-U, JSON lines, SVG or PNG. The service converts its sentences to CoNLL-U and SVG;
// JSON lines are the sentences themselves, and a PNG is made from the SVG.

import { convert } from "./api.js";

const PIXELS = 2; // pixels of a PNG per unit of the figure

/** Fetch sentences as CoNLL-U; `text` is the whole text that they come from, `first` the number of the first one. */
export async function toConllu(sentences, text, first = 1) {
  const documents = await convert(text, sentences, first, "conllu");
  return documents.map(({ conllu }) => conllu).join("");
}

/** Write sentences as JSON lines. */
export const toJson = (sentences, first = 1) =>
  sentences.map((sentence, i) => `${JSON.stringify({ sent_id: String(first + i), ...sentence })}\n`).join("");

/** Fetch the figure of a sentence as an SVG document. */
export async function toSvg(sentence, text) {
  const [{ sentences }] = await convert(text, [sentence], 1, "svg");
  return sentences[0].svg;
}

/** Return the figure of a sentence as a PNG on white ground. */
export async function toPng(sentence, text) {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([await toSvg(sentence, text)], { type: "image/svg+xml" }));
  try {
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth * PIXELS;
    canvas.height = image.naturalHeight * PIXELS;
    const pen = canvas.getContext("2d");
    pen.fillStyle = "white";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally {
    URL.revokeObjectURL(image.src);
  }
}

/** Let the browser save content as a file. */
export function download(content, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  // The browser uses the link only after this function has returned.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Put a text or a PNG on the clipboard; tell whether the browser allowed it. */
export async function copy(content) {
  try {
    if (content instanceof Blob)
      await navigator.clipboard.write([new ClipboardItem({ [content.type]: content })]);
    else await navigator.clipboard.writeText(content);
    return true;
  } catch {
    return typeof content === "string" && copyTheOldWay(content);
  }
}

/** Copy a text on pages without https, where browsers offer no clipboard. */
function copyTheOldWay(text) {
  const before = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  before?.focus();
  return done;
}
