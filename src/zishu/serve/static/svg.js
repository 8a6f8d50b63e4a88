// Make elements of an SVG.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element with attributes and, if it has one, a text. */
export function make(name, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}
