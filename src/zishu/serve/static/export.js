// What the page gives away: the analysis in view as CoNLL-U, JSON lines, SVG or PNG. CoNLL-U and JSON are those of
// `zishu parse` (zishu.formats); they are written here, because the service knows nothing of the analysis in view.

import { codePoints, visible } from "./text.js";
import { FONTS } from "./layout.js";

const ESCAPES = { " ": "\\s", "\t": "\\t", "\n": "\\n", "\r": "\\r" };
const BREAKING = /[\t\n\r\v\f\x1c-\x1f\x85\u2028\u2029]/g; // could end a line or a column for some reader
const PIXELS = 2; // of a PNG, for each unit of the figure

/** Write sentences as CoNLL-U; `text` is the whole text that they come from, `first` the number of the first one. */
export function toConllu(sentences, text, first = 1) {
  const points = codePoints(text);
  return sentences
    .map((sentence, i) => {
      const lines = [`# sent_id = ${first + i}`, `# text = ${sentence.text.replace(BREAKING, " ")}`];
      if (sentence.prob !== null) lines.push(`# prob = ${Number(sentence.prob.toPrecision(4))}`);
      if (sentence.cut) lines.push("# cut = yes");
      sentence.words.forEach((word, w) => {
        const next = sentence.words[w + 1]?.start ?? sentences[i + 1]?.start ?? endOfSpace(points, word.end);
        const space = points.slice(word.end, next).join("");
        const columns = [
          word.id,
          word.form,
          "_",
          word.upos ?? "_",
          "_",
          "_",
          word.head,
          word.deprel,
          "_",
          misc(word, space),
        ];
        lines.push(columns.join("\t"));
      });
      return `${lines.join("\n")}\n\n`;
    })
    .join("");
}

function endOfSpace(points, offset) {
  while (offset < points.length && /\s/u.test(points[offset])) offset++;
  return offset;
}

function misc(word, space) {
  const fields = [];
  if (word.char_heads) fields.push(`CharHeads=${word.char_heads.join(",")}`);
  const probs = {
    Conf: word.prob,
    ConfWord: word.boundary_prob,
    ConfHead: word.head_prob,
    ConfLabel: word.label_prob,
  };
  for (const [name, prob] of Object.entries(probs))
    if (prob !== null) fields.push(`${name}=${prob.toFixed(4)}`);
  fields.push(`Start=${word.start}`, `End=${word.end}`);
  if (!space) fields.push("SpaceAfter=No");
  else if (space !== " ") {
    const spelled = codePoints(space).map(
      (c) => ESCAPES[c] ?? `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`,
    );
    fields.push(`SpacesAfter=${spelled.join("")}`);
  }
  return fields.join("|");
}

/** Write sentences as JSON lines. */
export const toJson = (sentences, first = 1) =>
  sentences.map((sentence, i) => `${JSON.stringify({ sent_id: String(first + i), ...sentence })}\n`).join("");

/** Return a figure of the page as an SVG document of its own. */
export function toSvg(figure, text) {
  const svg = document.implementation.createDocument("http://www.w3.org/2000/svg", "svg");
  const root = svg.documentElement;
  const add = (name, attributes, content) => {
    const element = svg.createElementNS(root.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (content) element.textContent = content;
    root.append(element);
  };
  const { x, y, width, height } = figure.viewBox.baseVal;
  root.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  root.setAttribute("width", width);
  root.setAttribute("height", height);
  root.setAttribute("font-family", FONTS);
  add("title", {}, visible(text));
  for (const { tag, attributes, content } of shapes(figure)) add(tag, attributes, content);
  return `${new XMLSerializer().serializeToString(svg)}\n`;
}

/** Return a figure of the page as a PNG on white ground. */
export function toPng(figure) {
  const { x, y, width, height } = figure.viewBox.baseVal;
  const canvas = document.createElement("canvas");
  canvas.width = width * PIXELS;
  canvas.height = height * PIXELS;
  const pen = canvas.getContext("2d");
  pen.scale(PIXELS, PIXELS);
  pen.fillStyle = "white";
  pen.fillRect(0, 0, width, height);
  pen.translate(-x, -y);
  pen.textAlign = "center";
  for (const shape of shapes(figure)) paint(pen, shape);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

const GEOMETRY = { rect: ["x", "y", "width", "height", "rx"], path: ["d"], text: ["x", "y"] };
const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap"];

/** List what a figure shows, each shape with its styles spelled out, in light colours and without marks of editing. */
function shapes(figure) {
  const root = document.documentElement;
  const { theme } = root.dataset;
  root.dataset.theme = "light";
  figure.classList.add("plain");
  const found = [...figure.querySelectorAll("rect, path, text")].map((element) => {
    const style = getComputedStyle(element);
    const attributes = {};
    for (const name of GEOMETRY[element.tagName]) attributes[name] = element.getAttribute(name);
    for (const name of STYLES) attributes[name] = style.getPropertyValue(name);
    if (element.tagName === "text") {
      attributes["font-size"] = style.fontSize;
      attributes["text-anchor"] = "middle";
    }
    return {
      tag: element.tagName,
      attributes,
      content: element.textContent,
      hidden: style.display === "none",
    };
  });
  figure.classList.remove("plain");
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  return found.filter(
    ({ hidden, attributes: { fill, stroke } }) => !hidden && !(fill === "none" && stroke === "none"),
  );
}

function paint(pen, { tag, attributes, content }) {
  const number = (name) => Number.parseFloat(attributes[name]) || 0;
  const outline = new Path2D(tag === "path" ? attributes.d : undefined);
  if (tag === "rect")
    outline.roundRect(number("x"), number("y"), number("width"), number("height"), number("rx"));
  if (attributes.fill !== "none") {
    pen.globalAlpha = number("fill-opacity");
    pen.fillStyle = attributes.fill;
    pen.font = `${attributes["font-size"]} ${FONTS}`;
    if (tag === "text") pen.fillText(content, number("x"), number("y"));
    else pen.fill(outline);
  }
  pen.globalAlpha = 1;
  if (attributes.stroke !== "none" && tag !== "text") {
    pen.strokeStyle = attributes.stroke;
    pen.lineWidth = number("stroke-width");
    pen.lineCap = attributes["stroke-linecap"];
    pen.setLineDash((attributes["stroke-dasharray"].match(/[\d.]+/g) ?? []).map(Number));
    pen.stroke(outline);
  }
}

/** Let the browser save something as a file. */
export function download(content, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  // The browser reads the link after this turn.
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
