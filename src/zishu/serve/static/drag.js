// Drag a word of a figure onto its head, or onto the strip at the top that stands for the root. With a finger a drag
// scrolls the figure; the editor below it does the same.

import { t } from "./i18n.js";
import { make } from "./svg.js";

const FAR = 6; // distance in pixels after which a press becomes a drag

const swallow = (event) => event.stopPropagation();

/** Make the words of a figure draggable; `drop(id, head)` gets the numbers of a word and of its head, 0 for the root. */
export function dragging(svg, places, drop) {
  let drag = null; // {id, x, y, line} from the moment that a button is pressed on a word; the line comes with the drag

  const wordAt = ({ clientX, clientY }) => {
    const element = document.elementFromPoint(clientX, clientY);
    return svg.contains(element) ? element.closest(".word") : null;
  };
  const inFigure = ({ clientX, clientY }) =>
    new DOMPoint(clientX, clientY).matrixTransform(svg.getScreenCTM().inverse());
  const overRoot = (event) => {
    const { y } = inFigure(event);
    const element = document.elementFromPoint(event.clientX, event.clientY);
    return y < places.rootZone.height && svg.contains(element);
  };
  const mark = (target) => {
    for (const one of svg.querySelectorAll(".target")) one.classList.remove("target");
    target?.classList.add("target");
  };

  function begin() {
    drag.line = make("path", { class: "drag" });
    const zone = make("g", { class: "root-zone" });
    const { x, y, width, height } = places.rootZone;
    // The strip is as wide as the figure; its text is in the visible part.
    const seen = svg.parentElement;
    const scale = svg.clientWidth / places.width || 1;
    const middle = x + (seen.scrollLeft + Math.min(seen.clientWidth, svg.clientWidth) / 2) / scale;
    zone.append(
      make("rect", { x, y, width, height, rx: 6 }),
      make("text", { x: middle, y: y + height - 6 }, t("dropRoot")),
    );
    svg.append(zone, drag.line);
    svg.classList.add("dragging");
    drag.zone = zone;
  }

  function end() {
    drag?.line?.remove();
    drag?.zone?.remove();
    mark(null);
    svg.classList.remove("dragging");
    drag = null;
  }

  svg.addEventListener("pointerdown", (event) => {
    const word = event.target.closest(".word");
    if (!word || event.button !== 0 || event.pointerType === "touch") return;
    drag = { id: Number(word.dataset.id), x: event.clientX, y: event.clientY, line: null };
  });
  svg.addEventListener("pointermove", (event) => {
    if (!drag) return;
    if (!drag.line) {
      if (Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < FAR) return;
      svg.setPointerCapture(event.pointerId);
      begin();
    }
    const { box } = places.words[drag.id - 1];
    const from = { x: box.x + box.width / 2, y: box.y };
    const to = inFigure(event);
    const top = Math.min(from.y, to.y) - 30;
    drag.line.setAttribute("d", `M${from.x} ${from.y}C${from.x} ${top} ${to.x} ${top} ${to.x} ${to.y}`);
    const word = wordAt(event);
    const other = word && Number(word.dataset.id) !== drag.id ? word : null;
    mark(other ?? (overRoot(event) ? drag.zone : null));
  });
  svg.addEventListener("pointerup", (event) => {
    if (!drag?.line) {
      drag = null;
      return;
    }
    const { id } = drag;
    const word = wordAt(event);
    const head = word ? Number(word.dataset.id) : overRoot(event) ? 0 : id;
    end();
    // Ignore the click at the end of a drag.
    addEventListener("click", swallow, { capture: true });
    setTimeout(() => removeEventListener("click", swallow, { capture: true }));
    if (head !== id) drop(id, head);
  });
  svg.addEventListener("pointercancel", end);
  svg.addEventListener("keydown", (event) => event.key === "Escape" && end());
}
