function exposurePanel(exposures) {
  const { rows, most, chance } = exposures;
  const box = h("div");
  const heads = ["Planted", "n", "Minimum", "First quartile", "Median", "Third quartile", "Maximum"];
  const range = chance[0] === chance[1] ? `${chance[0]}` : `${chance[0]} to ${chance[1]}`;
  const few = rows.some((row) => row.n > row.dots.length) ? " Rows with many canaries show an evenly spaced sample." : "";
  const note = `Each dot is a canary; rows are numbers of copies. A secret that was never shown has ${range} bits on average, and 19 in 20 such secrets lie in the grey part.${few}`;
  const panel = h("div", {}, h("h3", {}, "Exposure"), h("p", { class: "quiet" }, note), box, spreadKey(rows, most),
    h("details", {}, h("summary", {}, "Values as a table"), h("div", { class: "box" }, numbersTable("Exposure in bits, by number of copies", heads, rows.map((row) => [row.label, ...row.texts])))));
  return { panel, start: () => drawnIn(box, (width) => exposurePlot(exposures, width)) };
}

function spreadKey(rows, most) {
  const items = [];
  if (rows.some((row) => !row.control)) items.push(keyItem(mark(0, "faint"), "planted"));
  if (rows.some((row) => row.control)) items.push(keyItem(s("path", { class: "mark control", d: SHAPES[3] }), "control"));
  if (rows.some((row) => row.bounds.includes(1))) items.push(keyItem(s("path", { class: "mark open", d: BOUND }), "lower bound"));
  items.push(keyItem(s("path", { class: "median", d: "M0-7V7" }), "median"));
  items.push(keyItem(s("path", { class: "level", d: "M1 8H25" }), most.length > 1 ? "maximum, log₂|R|: smallest and largest" : "maximum, log₂|R|", "line"));
  return h("ul", { class: "key-shapes" }, items);
}

const BOUND = "M-4-5 5 0-4 5Z";

function exposurePlot({ rows, most, chance, usual }, width) {
  const top = 22;
  const size = 4;
  const label = 16;
  const left = 12;
  const right = width - 14;
  const high = Math.max(...most, ...rows.flatMap((row) => row.dots), usual) * 1.03;
  const low = Math.min(0, ...rows.flatMap((row) => row.dots));
  const scale = (value) => left + ((value - low) / (high - low)) * (right - left);
  const stacks = rows.map((row) => stacked(row.dots.map(scale), size * 2 + 1));
  const talls = stacks.map((stack) => Math.min(110, Math.max(...stack.map((dot) => dot.level)) * (size * 2 + 1) + 2 * size) + label + 14);
  const bottom = top + talls.reduce((sum, tall) => sum + tall, 0);
  const summary = rows.map((row) => `planted ${row.label}: ${row.n} canaries, median ${row.texts[3]} bits`).join("; ");
  const plot = s("svg", { class: "plot", viewBox: `0 0 ${width} ${bottom + 48}`, width, height: bottom + 48, role: "img", "aria-label": `Exposure by number of copies. ${summary}` });
  plot.append(s("rect", { class: "usual", x: scale(Math.max(low, 0)), y: top, width: scale(Math.min(usual, high)) - scale(Math.max(low, 0)), height: bottom - top }));
  for (const value of ticks(low, high, (right - left) / 80)) plot.append(s("text", { class: "tick", x: scale(value), y: bottom + 17, "text-anchor": "middle" }, tickText(value)));
  plot.append(s("text", { x: (left + right) / 2, y: bottom + 38, "text-anchor": "middle" }, "exposure (bits)"));
  for (const value of most) plot.append(s("path", { class: "level", d: `M${scale(value)} ${top}V${bottom}` }));
  plot.append(s("text", { class: "soft", x: scale(most[most.length - 1]), y: top - 7, "text-anchor": "end" }, `log₂|R| = ${tickText(Number(most[most.length - 1].toFixed(1)))}`));
  plot.append(s("path", { class: "level", d: `M${scale(chance[0])} ${top}V${bottom}` }), s("text", { class: "soft", x: scale(0), y: top - 7 }, `chance: ${chance[0]}`));
  let y = top;
  rows.forEach((row, at) => {
    y += talls[at];
    drawRow(plot, row, stacks[at], scale, y, talls[at], size, left, right);
  });
  return plot;
}

function drawRow(plot, row, stack, scale, y, tall, size, left, right) {
  const room = tall - 14 - 16 - 2 * size;
  const step = Math.min(size * 2 + 1, room / Math.max(1, ...stack.map((dot) => dot.level)));
  stack.forEach((dot, at) => {
    const where = `translate(${dot.x} ${y - 8 - size - dot.level * step})`;
    const shape = row.bounds[at] ? BOUND : row.control ? SHAPES[3] : SHAPES[0];
    const look = row.control ? "control" : row.bounds[at] ? "open" : "faint";
    plot.append(s("g", { transform: where }, s("path", { class: `mark ${look}`, d: shape, transform: "scale(0.8)" })));
  });
  plot.append(s("path", { class: "median", d: `M${scale(row.median)} ${y - 4}V${y - 10 - 2 * size}` }));
  plot.append(s("path", { class: "axis", d: `M${left} ${y}H${right}` }));
  plot.append(s("text", { class: "halo strong", x: left + 2, y: y - tall + 15 }, `${row.label}, n = ${row.n.toLocaleString("en")}`));
}

/* Stack the dots of an ascending row in columns one dot wide: each dot's column position and its level. */
function stacked(positions, wide) {
  const dots = [];
  let first = 0;
  positions.forEach((position, at) => {
    if (position - positions[first] >= wide) first = at;
    const heap = positions.slice(first, at + 1);
    for (let index = first; index <= at; index += 1) {
      dots[index] = { level: index - first, x: heap.reduce((sum, one) => sum + one, 0) / heap.length };
    }
  });
  return dots;
}

function repetitionPanel(rows) {
  const box = h("div");
  const heads = ["Planted", "Extracted", "of", "Share and 95 % interval"];
  const numbers = rows.map((row) => [row.label, row.hits.toLocaleString("en"), row.n.toLocaleString("en"), row.text]);
  const panel = h("div", {}, h("h3", {}, "Extraction by repetitions"), h("p", { class: "quiet" }, "Share of canaries whose best guess is the secret, with the Clopper-Pearson interval."), box,
    h("details", {}, h("summary", {}, "Values as a table"), h("div", { class: "box" }, numbersTable("Canaries extracted, by number of copies", heads, numbers))));
  return { panel, start: () => drawnIn(box, (width) => repetitionPlot(rows, width)) };
}

function repetitionPlot(rows, width) {
  const frame = { x: 44, y: 12, w: width - 44 - 12, h: 200 };
  const bottom = frame.y + frame.h;
  const summary = rows.map((row) => `planted ${row.label}: ${row.hits} of ${row.n}, ${row.text}`).join("; ");
  const plot = s("svg", { class: "plot", viewBox: `0 0 ${width} ${bottom + 64}`, width, height: bottom + 64, role: "img", "aria-label": `Share extracted by number of copies. ${summary}` });
  const sy = (value) => bottom - value * frame.h;
  for (const value of [0, 0.25, 0.5, 0.75, 1]) plot.append(s("line", { class: "grid", x1: frame.x, x2: frame.x + frame.w, y1: sy(value), y2: sy(value) }), s("text", { class: "tick", x: frame.x - 7, y: sy(value) + 4, "text-anchor": "end" }, tickText(value)));
  const every = Math.max(1, Math.ceil((rows.length * 46) / frame.w));
  rows.forEach((row, at) => {
    const x = frame.x + ((at + 0.5) / rows.length) * frame.w;
    plot.append(s("path", { class: "whisker", d: `M${x} ${sy(row.low)}V${sy(row.high)}M${x - 5} ${sy(row.low)}h10M${x - 5} ${sy(row.high)}h10` }));
    plot.append(s("g", { transform: `translate(${x} ${sy(row.share)})` }, row.control ? s("path", { class: "mark control", d: SHAPES[3] }) : mark(0)));
    if (at % every === 0) plot.append(s("text", { x, y: bottom + 18, "text-anchor": "middle" }, row.control ? "never" : row.label.replace(" times", "×").replace("once", "1×")), s("text", { class: "tick", x, y: bottom + 35, "text-anchor": "middle" }, `n = ${row.n.toLocaleString("en")}`));
  });
  plot.append(s("path", { class: "axis", d: `M${frame.x} ${frame.y}V${bottom}H${frame.x + frame.w}` }));
  plot.append(s("text", { x: frame.x + frame.w / 2, y: bottom + 56, "text-anchor": "middle" }, "times planted"));
  return plot;
}
