// Where everything of a figure stands: a sentence in, numbers out. The manner is that of the SVG of `zishu parse`
// (zishu.render.svg): arcs between words stand above the characters, those inside words hang below them, words move
// apart until each relation has room above its arc, and no two arcs run along one another. Here the label of a long arc can
// also move along it, to where the reader looks.

import { characters, visible } from "./text.js";

const FONTS =
  '"Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "PingFang SC", "Hiragino Sans GB", ' +
  '"Microsoft YaHei", sans-serif';
const SIZES = { char: 24, relation: 12, tag: 11 };

// All in pixels.
const MARGIN = 10;
const CHAR_ROOM = 6; // extra width for each Chinese character, so that gaps are easy to click
const BOX_HEIGHT = 40;
const BOX_PADDING = 4;
const WORD_GAP = 16;
const LABEL_HEIGHT = 16;
const LABEL_PADDING = 4;
const LABEL_ROOM = 14; // minimum difference between the length of an arc and its label
const LEVEL = 23; // between two arcs, with a label between them
const FIRST_LEVEL = 24;
const INNER_LEVEL = 9;
const FIRST_INNER_LEVEL = 13;
const INNER_NAME = 10; // the height of the name of a relation inside a word
const PORT = 7; // distance between a character's arrow and the arcs that leave it
const INNER_PORT = 5;
const TIP = 7; // the length of an arrow's tip
const HIT_WIDTH = 14; // width of a gap for the pointer
const HIT_HEIGHT = 8; // how far a gap reaches over the boxes
const EDGE = 26; // between the words of a row and its edge, where arcs from other rows come in
const ROW_GAP = 14;
const SHRINKS = 0.75; // a sentence that fits at this size needs no second row
const ROOT_ZONE = 24; // height of the strip onto which a word is dragged to make it the root

const HAN = /\p{Script=Han}/u;

const pen = document.createElement("canvas").getContext("2d");

/** Return the width of a text, rounded up to halves: they add up without long decimals. */
function textWidth(text, size) {
  pen.font = `${size}px ${FONTS}`;
  return Math.ceil(2 * pen.measureText(text).width) / 2;
}

/**
 * Place everything in a sentence; x and y of a text are the middle of its base line. A sentence that is much wider
 * than `room` gets several rows; an arc between rows leaves one at its edge and enters the other at its edge.
 * With `innerNames`, there is room for the relations inside words below their arcs.
 */
export function layout({ words }, { room = Infinity, innerNames = false } = {}) {
  const shapes = words.map(shape);
  const lefts = [];
  const rows = [];
  const rowOf = [];
  let y = 0;
  for (const [first, last] of breakRows(words, shapes, room)) {
    places(words, shapes, first, last, lefts);
    const row = { first, last, left: new Set(), edges: [-EDGE, lefts[last - 1] + shapes[last - 1].width + EDGE] };
    row.levels = arcLevels(pieces(words, row));
    row.highest = Math.max(1, ...row.levels.values());
    row.foot = y + MARGIN + LABEL_HEIGHT + FIRST_LEVEL + (row.highest - 1) * LEVEL;
    row.boxTop = row.foot + 2;
    row.deepest = row.boxTop + BOX_HEIGHT + 1;
    for (let i = first; i < last; i++) rowOf[i] = row;
    rows.push(row);
    y = drawWords(words, shapes, lefts, row, innerNames) + ROW_GAP;
  }
  const anchors = shapes.map((one, i) => lefts[i] + one.centres[one.root]);
  const arcs = words.map((word) => arc(word, rowOf, anchors));
  const boxes = rows.flatMap((row) => row.boxes);
  const gaps = findGaps(words, shapes, lefts, rowOf).map(({ offset, x, row: { boxTop } }) => ({
    offset,
    x,
    hit: {
      x: x - HIT_WIDTH / 2,
      y: boxTop - HIT_HEIGHT,
      width: HIT_WIDTH,
      height: BOX_HEIGHT + 2 * HIT_HEIGHT,
    },
    top: boxTop - 3,
    bottom: boxTop + BOX_HEIGHT + 3,
  }));
  const edges = frame(arcs, boxes, rows.length > 1 ? rows : [], y - ROW_GAP);
  const rootZone = { x: edges.left, y: 0, width: edges.width, height: ROOT_ZONE };
  return { arcs, words: boxes, gaps, rootZone, ...edges };
}

/** Return the rows of a sentence as pairs of the first word and the one behind the last. */
function breakRows(words, shapes, room) {
  const lefts = places(words, shapes, 0, words.length, []);
  const right = (i) => lefts[i] + shapes[i].width;
  if (right(words.length - 1) * SHRINKS <= room) return [[0, words.length]];
  const rows = [];
  let first = 0;
  for (let i = 1; i < words.length; i++) {
    if (right(i) - lefts[first] <= room - 2 * EDGE) continue;
    rows.push([first, i]);
    first = i;
  }
  return [...rows, [first, words.length]];
}

/** Return what a row has of the arcs, as pairs of words by number; k + 0.5 is the edge behind or before word k. */
function pieces(words, { first, last }) {
  const inside = (id) => id > first && id <= last;
  const edge = (id) => (id <= first ? first + 0.5 : last + 0.5);
  const found = new Map();
  for (const { head, id } of words) {
    if (!head || !(inside(head) || inside(id))) continue;
    const pair = [inside(head) ? head : edge(head), inside(id) ? id : edge(id)];
    found.set(`${pair[0]}-${pair[1]}`, pair); // arcs of one head that leave at one edge are one line
  }
  return [...found.values()];
}

/** Put the words of a row into `row.boxes`; return where the row ends. */
function drawWords(words, shapes, lefts, row, innerNames) {
  const { first, last, boxTop } = row;
  const innerFoot = row.deepest;
  row.boxes = words.slice(first, last).map((word, k) => {
    const i = first + k;
    const inner = innerArcs(word, lefts[i], shapes[i], innerFoot, innerNames && word.char_rels);
    row.deepest = Math.max(row.deepest, ...inner.map(({ top, name }) => top + (name ? INNER_NAME : 0)));
    const { chars, centres, width } = shapes[i];
    return {
      id: word.id,
      box: { x: lefts[i], y: boxTop, width, height: BOX_HEIGHT },
      chars: chars.map((text, c) => ({ text, x: lefts[i] + centres[c], y: boxTop + 28.5 })),
      inner,
    };
  });
  for (const box of row.boxes) {
    box.tag = { text: words[box.id - 1].upos ?? "", x: box.box.x + box.box.width / 2, y: row.deepest + 15 };
  }
  return row.deepest + 20;
}

/** Return the line of the arc to a word, its tip and its label. */
function arc({ id, head, deprel }, rowOf, anchors) {
  const row = rowOf[id - 1];
  const end = anchors[id - 1];
  const height = ({ foot }, level) => foot - FIRST_LEVEL - (level - 1) * LEVEL;
  if (!head || rowOf[head - 1] === row) {
    const top = height(row, head ? row.levels.get(`${head}-${id}`) : row.highest);
    const start = head ? anchors[head - 1] + side(head, id) * PORT : end;
    const reach = [Math.min(start, end), Math.max(start, end)];
    return { id, ...path(start, end, row.foot, top), reach, label: label(deprel, (start + end) / 2, top) };
  }
  // In at the edge of its own row, out at that of its head's.
  const other = rowOf[head - 1];
  const before = head < id;
  const into = before ? row.first + 0.5 : row.last + 0.5;
  const from = before ? other.last + 0.5 : other.first + 0.5;
  const top = height(row, row.levels.get(`${into}-${id}`));
  const inEdge = row.edges[before ? 0 : 1];
  const { line, tip } = halfPath(end, inEdge, row.foot, top, true);
  const start = anchors[head - 1] + side(head, id) * PORT;
  const key = `${head}-${from}`;
  const out = halfPath(start, other.edges[before ? 1 : 0], other.foot, height(other, other.levels.get(key)), false);
  const shown = label(deprel, (inEdge + end) / 2, top);
  const whole = other.left.has(key) ? line : line + out.line; // draw a shared line only once
  other.left.add(key);
  return { id, line: whole, tip, reach: [shown.box.x, shown.box.x + shown.box.width], label: shown };
}

/** Return how far the label of an arc must move to be over the visible part of the arc, from `left` to `right`. */
export function labelPlace({ reach: [start, end], label: { x, box } }, left, right) {
  const from = Math.max(start, left);
  const to = Math.min(end, right);
  const half = box.width / 2;
  if (to - from >= end - start || to - from < box.width) return 0; // all of it is visible, or too little
  const wanted = Math.max(from + half, Math.min(to - half, x));
  return wanted - x;
}

function shape(word) {
  let chars = characters(word.form);
  // If the browser's Unicode tables are older than the service's, draw the word as one piece.
  if (word.char_heads && word.char_heads.length !== chars.length) chars = [word.form];
  const shown = chars.map(visible);
  const centres = [];
  let edge = BOX_PADDING;
  for (const char of shown) {
    const width = textWidth(char, SIZES.char) + (HAN.test(char) ? CHAR_ROOM : 1);
    centres.push(edge + width / 2);
    edge += width;
  }
  const root = Math.min(word.root ?? chars.length - 1, chars.length - 1);
  return {
    chars: shown,
    lengths: chars.map((char) => Array.from(char).length),
    centres,
    width: edge + BOX_PADDING,
    root,
  };
}

/** Put the left edges of the words of a row into `lefts`: as near to their neighbours as tags and relations allow. */
function places(words, shapes, first, last, lefts) {
  const tag = (i) => textWidth(words[i].upos ?? "", SIZES.tag);
  for (let i = first; i < last; i++) {
    const anchor = shapes[i].centres[shapes[i].root];
    let left = 0;
    if (i > first) {
      const before = shapes[i - 1];
      const middle = lefts[i - 1] + before.width / 2;
      left = Math.max(
        lefts[i - 1] + before.width + WORD_GAP,
        middle + (tag(i - 1) + tag(i)) / 2 + 8 - shapes[i].width / 2,
      );
    }
    for (const word of words) {
      if (!word.head || Math.max(word.head, word.id) !== i + 1) continue;
      const a = Math.min(word.head, word.id) - 1;
      if (a < first) continue;
      const need = textWidth(visible(word.deprel), SIZES.relation) + LABEL_ROOM + PORT;
      left = Math.max(left, lefts[a] + shapes[a].centres[shapes[a].root] + need - anchor);
    }
    lefts[i] = left;
  }
  return lefts;
}

/** Give every arc [head, dependent] a level from 1, above all shorter ones that it passes over. */
function arcLevels(pairs) {
  const done = [];
  const levels = new Map();
  for (const [h, d] of [...pairs].sort(
    (one, other) => Math.abs(one[0] - one[1]) - Math.abs(other[0] - other[1]),
  )) {
    const left = Math.min(h, d);
    const right = Math.max(h, d);
    const below = done.filter((arc) => arc.left < right && left < arc.right).map((arc) => arc.level);
    const level = 1 + Math.max(0, ...below);
    done.push({ left, right, level });
    levels.set(`${h}-${d}`, level);
  }
  return levels;
}

const side = (head, dependent) => (dependent > head ? 1 : -1);

function innerArcs(word, left, { chars, centres }, foot, names) {
  // The model also has a tree for the letters of a Latin word or the digits of a number, but it means nothing.
  if (!word.char_heads || chars.length === 1 || !HAN.test(word.form)) return [];
  const pairs = word.char_heads.map((head, i) => [head, i + 1]).filter(([head]) => head);
  const levels = arcLevels(pairs);
  return pairs.map(([h, d]) => {
    const step = INNER_LEVEL + (names ? INNER_NAME : 0);
    const top = foot + FIRST_INNER_LEVEL + (levels.get(`${h}-${d}`) - 1) * step;
    const middle = left + (centres[h - 1] + centres[d - 1]) / 2;
    return {
      top,
      name: names ? { text: names[d - 1], x: middle, y: top + INNER_NAME - 1 } : null,
      ...path(left + centres[h - 1] + side(h, d) * INNER_PORT, left + centres[d - 1], foot, top),
    };
  });
}

/** Return the line of an arc with round corners, and its tip; an arc that starts where it ends comes from the root. */
function path(start, end, foot, top) {
  const away = top > foot ? 1 : -1; // the direction away from the characters
  const tip = `M${end} ${foot}L${end - 3} ${foot + away * TIP}H${end + 3}Z`;
  const neck = foot + away * (TIP - 1);
  if (start === end) return { line: `M${end} ${top}V${neck}`, tip };
  const turn = end > start ? 1 : -1;
  const radius = Math.min(9, Math.abs(end - start) / 2, Math.abs(top - foot) - TIP);
  const shoulder = top - away * radius;
  const line =
    `M${start} ${foot}V${shoulder}Q${start} ${top} ${start + turn * radius} ${top}` +
    `H${end - turn * radius}Q${end} ${top} ${end} ${shoulder}V${neck}`;
  return { line, tip };
}

/** Return the part of an arc between a character and the edge of its row; `ends` there if the arc does. */
function halfPath(x, edge, foot, top, ends) {
  const turn = edge > x ? 1 : -1;
  const radius = Math.min(9, Math.abs(edge - x), foot - top - TIP);
  const low = ends ? foot - TIP + 1 : foot;
  const line = `M${edge} ${top}H${x + turn * radius}Q${x} ${top} ${x} ${top + radius}V${low}`;
  return { line, tip: ends ? `M${x} ${foot}L${x - 3} ${foot - TIP}H${x + 3}Z` : "" };
}

function label(relation, x, top) {
  const text = visible(relation);
  const width = textWidth(text, SIZES.relation) + 2 * LABEL_PADDING;
  return {
    text,
    x,
    y: top - 5,
    box: { x: x - width / 2, y: top - LABEL_HEIGHT - 1, width, height: LABEL_HEIGHT },
  };
}

/** Return the gaps between adjacent characters. White space always separates words, so it has no gap to fix. */
function findGaps(words, shapes, lefts, rowOf) {
  const gaps = [];
  words.forEach((word, i) => {
    const { centres, lengths } = shapes[i];
    const row = rowOf[i];
    if (i && words[i - 1].end === word.start) {
      // A gap between two rows is shown at the start of the second.
      const before = i > row.first ? lefts[i - 1] + shapes[i - 1].width : lefts[i] - WORD_GAP;
      gaps.push({ offset: word.start, x: (before + lefts[i]) / 2, row });
    }
    let offset = word.start;
    for (let c = 1; c < lengths.length; c++) {
      offset += lengths[c - 1];
      gaps.push({ offset, x: lefts[i] + (centres[c - 1] + centres[c]) / 2, row });
    }
  });
  return gaps;
}

/** Return the figure's view box: labels of short arcs and tags may stick out on both sides. */
function frame(arcs, boxes, rows, height) {
  const tags = boxes.map(({ tag }) => ({
    x: tag.x - textWidth(tag.text, SIZES.tag) / 2,
    width: textWidth(tag.text, SIZES.tag),
  }));
  const lines = rows.map(({ edges: [x, right] }) => ({ x, width: right - x }));
  const all = [...arcs.map((one) => one.label.box), ...boxes.map(({ box }) => box), ...tags, ...lines];
  const left = Math.min(...all.map(({ x }) => x)) - MARGIN;
  const right = Math.max(...all.map(({ x, width }) => x + width)) + MARGIN;
  return { left, width: Math.ceil(right - left), height: Math.ceil(height) };
}
