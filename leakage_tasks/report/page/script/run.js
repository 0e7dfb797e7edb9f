const AT_ONCE = 50;

function startRun() {
  const select = byId("run");
  const body = byId("one-body");
  select.form.addEventListener("submit", (event) => event.preventDefault());
  function choose() {
    const run = dataOf(`run-data-${select.value}`);
    const panels = [];
    if (run.exposures) panels.push(exposurePanel(run.exposures));
    if (run.repetitions.length) panels.push(repetitionPanel(run.repetitions));
    body.replaceChildren(
      h("dl", { class: "facts" }, run.facts.map(([name, text]) => [h("dt", {}, named(name)), h("dd", {}, named(text))])),
      ...run.warnings.map((words) => h("p", { class: "missing" }, h("span", { "aria-hidden": "true" }, "▲ "), named(words))),
      ...run.missing.map(([task, reason]) => h("p", { class: "missing" }, h("strong", {}, named(task)), ": ", named(reason))),
      h("div", { class: "panels" }, panels.map((part) => part.panel)),
      auditList(run.audit),
      canaryList(run.canaries),
      pairTable(run.pairs));
    for (const part of panels) part.start();
  }
  select.addEventListener("change", choose);
  if (select.options.length) choose();
}

function auditList(figures) {
  if (!figures.length) return "";
  const rows = figures.map(([title, value, words]) => [h("dt", {}, title), h("dd", {}, h("strong", {}, named(value)), h("span", { class: "quiet meaning" }, words))]);
  return h("div", {}, h("h3", {}, "Audit with controls, at δ = 0"), h("dl", { class: "facts audit" }, rows));
}

function canaryList({ total, shown }) {
  if (!total) return "";
  const list = h("div", { class: "cases" });
  const part = shown.length < total ? ` The first ${shown.length.toLocaleString("en")} of ${total.toLocaleString("en")} are in this file.` : "";
  const more = inParts(list, shown, canaryCase, AT_ONCE, "canaries");
  return h("div", {}, h("h3", {}, "Canary by canary"), h("p", { class: "quiet" }, `${counted(total, "canary", "canaries")}: planted canaries first, then by extraction and exposure.${part} Open a canary to see its guesses.`), list, more);
}

function pairTable({ total, left_out: leftOut, heads, shown }) {
  if (!total && !leftOut) return "";
  const rows = h("tbody");
  const part = shown.length < total ? ` The first ${shown.length.toLocaleString("en")} of ${total.toLocaleString("en")} are in this file.` : "";
  const gone = leftOut ? ` ${counted(leftOut, "pair")} could not be tested.` : "";
  const more = inParts(rows, shown, pairRow, AT_ONCE, "pairs");
  const table = h("table", { class: "small pairs" }, h("thead", {}, h("tr", {}, heads.map(([head, words]) => h("th", { scope: "col" }, head, h("span", { class: "unseen" }, `, ${words}`))))), rows);
  return h("div", {}, h("h3", {}, "Training text, pair by pair"), h("p", { class: "quiet" }, `${counted(total, "pair")} of prefix and suffix, the likeliest suffix first.${part}${gone}`),
    h("ul", { class: "key-shapes" }, heads.map(([head, words]) => h("li", {}, h("strong", {}, head), `: ${words}`))),
    h("div", { class: "box", role: "region", tabindex: 0, "aria-label": "Pairs" }, table), more);
}
