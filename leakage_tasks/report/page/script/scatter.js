function startScatter() {
  const body = byId("trade-body");
  const { axes, groups, fronts } = dataOf("scatter-data");
  const has = (group, at) => groups[group].points.some((point) => point.at[at]);
  const axesOf = (group, leakage) => axes.map((axis, at) => at).filter((at) => axes[at].leakage === leakage && has(group, at));
  const drawable = groups.map((group, at) => at).filter((at) => axesOf(at, false).length && axesOf(at, true).length);
  if (!drawable.length) {
    body.append(h("p", {}, "There is nothing to plot: run a leakage task, such as canary_exposure, and a task that measures usefulness, such as heldout_bits_per_byte."));
    return;
  }
  const kinds = [...new Set(groups.flatMap((group) => group.points.map((point) => point.model)))].sort();
  const across = h("select", { id: "across", autocomplete: "off" });
  const up = h("select", { id: "up", autocomplete: "off" });
  const which = h("select", { id: "trade-group", autocomplete: "off" }, drawable.map((at) => h("option", { value: at }, `Group ${at + 1} (${counted(groups[at].points.length, "run")})`)));
  const box = h("div");
  const words = h("div", { "aria-live": "polite" });
  const tools = h("form", { class: "tools" }, h("label", {}, "Usefulness, across", across), h("label", {}, "Leakage, up", up), groups.length > 1 ? h("label", {}, "Runs", which) : null);
  tools.addEventListener("submit", (event) => event.preventDefault());
  const readout = h("p", { class: "readout quiet" });
  const key = h("ul", { class: "key-shapes" });
  body.append(tools, h("div", { class: "trade" }, h("div", {}, box, key, readout), words));

  let state = null;
  function offer() {
    const group = Number(which.value);
    offerAxes(across, axesOf(group, false), axes);
    offerAxes(up, axesOf(group, true), axes);
    choose();
  }
  function choose() {
    const group = Number(which.value);
    const x = Number(across.value);
    const y = Number(up.value);
    const points = groups[group].points.map((point, index) => ({ ...point, index, x: point.at[x], y: point.at[y] }));
    state = { x: axes[x], y: axes[y], kinds, readout, points: points.filter((point) => point.x && point.y), front: fronts[`${group}/${x}/${y}`] || [[], []] };
    readout.textContent = state.points.length ? "Point at a mark, or select it with the Tab key, to read its values here." : "";
    key.replaceChildren(...scatterKey(state));
    words.replaceChildren(...frontWords(state, points));
    box.replaceChildren(scatterPlot(state, Math.max(280, Math.floor(box.clientWidth))));
  }
  which.addEventListener("change", offer);
  for (const select of [across, up]) select.addEventListener("change", choose);
  offer();
  drawnIn(box, (width) => scatterPlot(state, width));
}

/* Offer the axes for which a group has values; the selected axis stays selected if it is among them. */
function offerAxes(select, indices, axes) {
  const before = select.options.length ? Number(select.value) : -1;
  const usual = indices.find((at) => axes[at].first) ?? indices.find((at) => axes[at].shown) ?? indices[0];
  const picked = indices.includes(before) ? before : usual;
  const option = (at) => h("option", { value: at, selected: at === picked }, axes[at].title);
  const shown = indices.filter((at) => axes[at].shown);
  const others = indices.filter((at) => !axes[at].shown);
  select.replaceChildren(...shown.map(option), ...(others.length && shown.length ? [h("optgroup", { label: "Other metrics" }, others.map(option))] : others.map(option)));
}

/* An axis' name, shortened to `most` letters. */
function axisWithin(axis, most) {
  const whole = axisText(axis);
  return whole.length <= most ? whole : shortened(`${axis.title} ${axis.direction === "lower" ? "↓" : "↑"}`, most);
}

function axisText(axis) {
  const better = axis.direction === "lower" ? "lower is better" : "higher is better";
  return `${axis.title} (${axis.unit ? `${axis.unit}, ` : ""}${better})`;
}

function scatterKey({ kinds, points, front }) {
  const used = kinds.filter((kind) => points.some((point) => point.model === kind && !point.fault));
  const items = used.map((kind) => keyItem(mark(kinds.indexOf(kind)), named(kind)));
  if (points.some((point) => point.fault)) items.push(keyItem(cross(), "controls show a fault: on no front"));
  if (front[0].length > 1) items.push(keyItem(s("path", { class: "front", d: "M1 8H25" }), "front", "line"));
  if (points.some((point) => point.x[1] !== null || point.y[1] !== null)) items.push(keyItem(s("path", { class: "whisker", d: "M1 8H25M1 4V12M25 4V12" }), "95 % interval", "line"));
  return items;
}

function frontWords({ x, y, points, front: [members, outdone] }, all) {
  const name = (index) => h("strong", {}, named(all[index].name));
  const nodes = [h("h3", {}, "The front")];
  if (!members.length) return [...nodes, h("p", {}, "No run here has both values and valid controls.")];
  const shown = members.slice(0, 30);
  nodes.push(h("p", {}, members.length === 1 ? "No other run is at least as good in both values and better in one." : "For each of these runs, no other run is at least as good in both values and better in one."));
  nodes.push(h("ul", { class: "members" }, shown.map((index) => h("li", {}, name(index), `: ${x.title} ${all[index].x[3]}, ${y.title} ${all[index].y[3]}`))));
  if (outdone.length) {
    nodes.push(h("p", {}, "Dominated runs, each with a run that is at least as good in both values and better in one:"));
    nodes.push(h("ul", { class: "outdone" }, outdone.slice(0, 30).map(([one, other]) => h("li", {}, name(one), " by ", name(other)))));
  }
  const more = members.length + outdone.length - shown.length - Math.min(30, outdone.length);
  if (more > 0) nodes.push(h("p", {}, `and ${more} more`));
  const left = all.length - points.length;
  if (left) nodes.push(h("p", { class: "quiet" }, `Not shown, because a value is missing: ${counted(left, "run")}.`));
  if (points.length > 1) nodes.push(h("p", { class: "quiet" }, "The front ignores intervals: if they overlap, a run may be on the front by chance."));
  return nodes;
}

function scatterPlot({ x, y, kinds, points, readout, front: [members] }, width) {
  const height = Math.round(Math.min(460, Math.max(300, width * 0.6)));
  const frame = { x: 58, y: 14, w: width - 58 - 16, h: height - 14 - 54 };
  if (!points.length) return h("p", {}, "No run here has both values.");
  const plot = s("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `${counted(points.length, "run")}: ${axisText(x)} across, ${axisText(y)} up` });
  const ends = (point) => point.filter((value) => typeof value === "number");
  const sx = scaleOver(points.flatMap((point) => ends(point.x)), frame.x, frame.x + frame.w);
  const sy = scaleOver(points.flatMap((point) => ends(point.y)), frame.y + frame.h, frame.y);
  drawAxes(plot, x, y, sx, sy, frame);
  drawFront(plot, members.map((index) => points.find((point) => point.index === index)), x, y, sx, sy);
  const taken = points.map((point) => ({ x: sx(point.x[0]) - 7, y: sy(point.y[0]) - 7, w: 14, h: 14 }));
  const ordered = [...points].sort((left, right) => left.x[0] - right.x[0] || left.index - right.index);
  for (const point of ordered) plot.append(scatterPoint(point, { x, y, sx, sy, kinds, member: members.includes(point.index), readout }));
  for (const point of [...ordered].sort((left, right) => members.includes(right.index) - members.includes(left.index))) {
    const label = s("text", { class: `halo ${members.includes(point.index) ? "strong" : ""}`, "aria-hidden": "true" }, shortened(point.name, width < 500 ? 20 : 32));
    const position = freePosition(sx(point.x[0]), sy(point.y[0]), Math.min(frame.w, 7.8 * Array.from(label.textContent).length), taken, frame);
    if (!position) continue;
    taken.push(position);
    filled(label, { x: position.at, y: position.y + 11.5, "text-anchor": position.anchor }, []);
    plot.append(label);
  }
  return plot;
}

function drawAxes(plot, x, y, sx, sy, frame) {
  const bottom = frame.y + frame.h;
  for (const value of ticks(sx.low, sx.high, frame.w / 90)) {
    plot.append(s("line", { class: "grid", x1: sx(value), x2: sx(value), y1: frame.y, y2: bottom }), s("text", { class: "tick", x: sx(value), y: bottom + 17, "text-anchor": "middle" }, tickText(value)));
  }
  for (const value of ticks(sy.low, sy.high, frame.h / 55)) {
    plot.append(s("line", { class: "grid", x1: frame.x, x2: frame.x + frame.w, y1: sy(value), y2: sy(value) }), s("text", { class: "tick", x: frame.x - 7, y: sy(value) + 4, "text-anchor": "end" }, tickText(value)));
  }
  plot.append(s("path", { class: "axis", d: `M${frame.x} ${frame.y}V${bottom}H${frame.x + frame.w}` }));
  const most = Math.floor(frame.w / 6.6);
  const tall = Math.floor(frame.h / 6.6);
  plot.append(s("text", { x: frame.x + frame.w / 2, y: bottom + 40, "text-anchor": "middle" }, axisWithin(x, most)));
  plot.append(s("text", { transform: `translate(14 ${frame.y + frame.h / 2}) rotate(-90)`, "text-anchor": "middle" }, axisWithin(y, tall)));
}

/* The border of the dominated area: between two neighbours it takes the worse of each value. */
function drawFront(plot, members, x, y, sx, sy) {
  if (members.length < 2) return;
  const worse = (axis, one, other) => (axis.direction === "lower" ? Math.max(one, other) : Math.min(one, other));
  const parts = [`M${sx(members[0].x[0])} ${sy(members[0].y[0])}`];
  members.slice(1).forEach((point, at) => {
    const before = members[at];
    parts.push(`L${sx(worse(x, before.x[0], point.x[0]))} ${sy(worse(y, before.y[0], point.y[0]))}`, `L${sx(point.x[0])} ${sy(point.y[0])}`);
  });
  plot.append(s("path", { class: "front", d: parts.join("") }));
}

function scatterPoint(point, { x, y, sx, sy, kinds, member, readout }) {
  const [cx, cy] = [sx(point.x[0]), sy(point.y[0])];
  const where = point.fault ? "its controls show a fault" : member ? "on the front" : "dominated by another run";
  const text = `${point.name}, ${point.model}: ${x.title} ${point.x[3]}, ${y.title} ${point.y[3]}; ${where}`;
  const node = s("g", { class: `point ${member ? "member" : ""}`, tabindex: 0, role: "img", "aria-label": text });
  if (point.x[1] !== null) node.append(s("path", { class: "whisker", d: `M${sx(point.x[1])} ${cy}H${sx(point.x[2])}` }));
  if (point.y[1] !== null) node.append(s("path", { class: "whisker", d: `M${cx} ${sy(point.y[1])}V${sy(point.y[2])}` }));
  const shape = point.fault ? cross() : mark(kinds.indexOf(point.model));
  node.append(s("g", { transform: `translate(${cx} ${cy})` }, s("circle", { class: "ring", r: 11 }), shape), s("title", {}, text));
  const tell = () => { readout.textContent = text; };
  node.addEventListener("focus", tell);
  node.addEventListener("mouseenter", tell);
  return node;
}
