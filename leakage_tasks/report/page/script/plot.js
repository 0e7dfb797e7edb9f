/* Round numbers from low to high, about `wanted` of them. */
function ticks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

function tickText(value) {
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(1);
  return value.toLocaleString("en", { maximumFractionDigits: 4 });
}

/* A linear scale over values with a margin at both ends, or around a single value. */
function scaleOver(values, from, to) {
  let low = Math.min(...values);
  let high = Math.max(...values);
  const room = high > low ? (high - low) * 0.07 : Math.abs(high) * 0.1 || 1;
  const floor = low >= 0 && low - room < 0;
  low = floor ? 0 : low - room;
  high += room;
  const scale = (value) => from + ((value - low) / (high - low)) * (to - from);
  return Object.assign(scale, { low, high });
}

/* Marks differ in shape as well as in colour. */
const SHAPES = [
  "M0-5A5 5 0 1 0 0 5A5 5 0 1 0 0-5Z",
  "M-4.6-4.6H4.6V4.6H-4.6Z",
  "M0-6 5.6 4.6H-5.6Z",
  "M0-6.2 6.2 0 0 6.2-6.2 0Z",
];

function mark(kind, more = "") {
  return s("path", { class: `mark hue-${kind % 4} ${kind >= 4 ? "open" : ""} ${more}`, d: SHAPES[kind % SHAPES.length] });
}

/* The cross for runs whose values mean nothing. */
function cross() {
  return s("path", { class: "mark open", d: "M-5-5 5 5M5-5-5 5" });
}

function shortened(text, most) {
  const letters = Array.from(text);
  return letters.length <= most ? text : `${letters.slice(0, most - 9).join("")}…${letters.slice(-8).join("")}`;
}

/* The first of eight positions around a point at which a label covers nothing, or null. */
function freePosition(x, y, wide, taken, frame) {
  const tall = 15;
  const [start, middle, end] = [0, -wide / 2, -wide];
  const places = [[9, start, -tall / 2], [-9, end, -tall / 2], [0, middle, -tall - 8], [0, middle, 9], [8, start, -tall - 4], [8, start, 5], [-8, end, -tall - 4], [-8, end, 5]];
  for (const [aside, back, down] of places) {
    const anchor = back === start ? "start" : back === end ? "end" : "middle";
    const box = { x: x + aside + back, y: y + down, w: wide, h: tall, at: x + aside, anchor };
    const inside = box.x >= frame.x && box.x + wide <= frame.x + frame.w && box.y >= frame.y && box.y + tall <= frame.y + frame.h;
    const free = taken.every((other) => box.x >= other.x + other.w || other.x >= box.x + wide || box.y >= other.y + other.h || other.y >= box.y + tall);
    if (inside && free) return box;
  }
  return null;
}

/* Draw now and after each change of the box's width. */
function drawnIn(box, draw) {
  let width = 0;
  function again() {
    const now = Math.floor(box.clientWidth);
    if (now > 0 && now !== width) {
      width = now;
      box.replaceChildren(draw(width));
    }
  }
  new ResizeObserver(() => requestAnimationFrame(again)).observe(box);
  again();
}

function keyItem(shape, text, kind = "") {
  return h("li", {}, s("svg", { viewBox: kind === "line" ? "0 0 26 16" : "-8 -8 16 16", class: `plot ${kind}`, "aria-hidden": "true" }, shape), text);
}

function numbersTable(caption, heads, rows) {
  return h("table", { class: "small" }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((text, at) => h(at ? "td" : "th", at ? {} : { scope: "row" }, text))))));
}
