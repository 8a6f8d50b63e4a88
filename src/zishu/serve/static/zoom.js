// Set the size of figures, and keep the labels of arcs in the visible part of wide ones.

const STEPS = [0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1, 1.25, 1.5];
const ROOM = 16; // beside a figure that fits
const SIDES = 18; // of a card, beside its figure
// A wide figure shrinks to the width of the page, but only as far as it stays easy to read unless the user asks for more.
const SMALLEST = { auto: 0.75, fit: 0.3 };

let zoom = "auto"; // or "fit", or a number
let wrapping = true; // wide figures have several rows
let shown = 1; // the last result

const scrollers = (root) => (root.matches?.(".scroll") ? [root] : [...root.querySelectorAll(".scroll")]);

/** Set the size of the figures inside an element, and move the labels of their arcs into view. */
export function show(root = document) {
  for (const scroller of scrollers(root)) {
    const figure = scroller.firstElementChild;
    const { width, height } = figure.viewBox.baseVal;
    const fitting = Math.min(1, (scroller.clientWidth - ROOM) / width);
    shown = zoom in SMALLEST ? Math.max(SMALLEST[zoom], fitting) : zoom;
    figure.setAttribute("width", width * shown);
    figure.setAttribute("height", height * shown);
    moveLabels(scroller);
    scroller.onscroll = () => moveLabels(scroller);
  }
}

function moveLabels(scroller) {
  const figure = scroller.firstElementChild;
  const { x, width } = figure.viewBox.baseVal;
  const scale = figure.width.baseVal.value / width;
  const hidden = figure.getBoundingClientRect().left - scroller.getBoundingClientRect().left;
  const left = x - hidden / scale;
  figure.keepInView(left, left + scroller.clientWidth / scale);
}

/** Return how wide a row of a figure may be, on a page as wide as an element. */
export const roomBeside = (element) =>
  wrapping && zoom !== "fit" ? element.clientWidth - SIDES - ROOM : Infinity;

/** Switch between one row and several rows for wide figures; return whether there are several. */
export function toggleRows() {
  wrapping = !wrapping;
  if (wrapping && zoom === "fit") zoom = "auto";
  return wrapping;
}

/** Draw larger (1), smaller (-1), or toggle fitting the width of the page (0). Return the size. */
export function change(direction) {
  if (direction === 0) zoom = zoom === "fit" ? "auto" : "fit";
  else {
    const next = STEPS.filter((step) => (direction > 0 ? step > shown + 0.01 : step < shown - 0.01));
    zoom = (direction > 0 ? next[0] : next.at(-1)) ?? shown;
  }
  show();
  return zoom;
}
