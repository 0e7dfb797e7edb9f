/* Slots side by side, right ones bold and underlined; screen readers hear `spokenSlots` instead. */
function slotRow(slots, right, look = "") {
  const lookOf = (at) => (right ? (right[at] === "1" ? "right" : "wrong") : look);
  return h("span", { class: "slots", "aria-hidden": "true" }, slots.map((slot, at) => h("span", { class: `slot ${lookOf(at)}` }, named(slot))));
}

function spokenSlots(slots, right) {
  if (!right) return slots.join(" ");
  return slots.map((slot, at) => `${slot} ${right[at] === "1" ? "right" : "wrong"}`).join(", ");
}

function guessItem({ slots, right, score, cost, cut }) {
  const more = cut ? `, first ${slots.length} of ${slots.length + cut} shown` : "";
  return h("li", {}, slotRow(slots, right), h("span", { class: "unseen" }, spokenSlots(slots, right)), h("span", { class: "score" }, [score, cost].filter(Boolean).join(", ") + more));
}

function secretLine(slots, what) {
  return h("p", { class: "secret" }, h("span", { class: "quiet" }, `${what} `), slotRow(slots, null, "own"), h("span", { class: "unseen" }, slots.join(" ")));
}

function guessList(guesses) {
  if (!guesses.length) return h("p", { class: "quiet" }, "No guess was logged.");
  return h("div", {}, h("p", { class: "quiet" }, "Guesses, the best first; right slots are bold and underlined."), h("ol", { class: "guesses" }, guesses.map(guessItem)));
}

function canaryCase(canary) {
  const [id, planted, exposure, outcome] = canary.head;
  const node = h("details", { class: "case" }, h("summary", {}, h("span", { class: "id" }, named(id)), h("span", {}, planted), h("span", {}, exposure), h("span", { class: canary.hit ? "hit" : "" }, outcome)));
  onceOpen(node, () => h("div", { class: "case-body" },
    canary.note ? h("p", { class: "missing" }, canary.note) : null,
    h("dl", { class: "facts" }, canary.facts.map(([name, text]) => [h("dt", {}, name), h("dd", {}, named(text))])),
    canary.secret ? secretLine(canary.secret, "Secret") : null,
    guessList(canary.guesses)));
  return node;
}

/* Build the content when it is first opened: thousands of canaries at once would be slow. */
function onceOpen(details, make) {
  details.addEventListener("toggle", () => { if (details.open && details.childElementCount === 1) details.append(make()); });
}

function pairRow({ cells, hit, prefix, secret, guesses }) {
  const tokens = secret ? h("details", {}, h("summary", {}, "tokens")) : null;
  if (tokens) onceOpen(tokens, () => h("div", {}, h("p", {}, h("span", { class: "quiet" }, "Prefix "), prefix), secretLine(secret, "True suffix"), guessList(guesses)));
  return h("tr", { class: hit ? "hit" : "" }, cells.map((text, at) => h(at ? "td" : "th", at ? {} : { scope: "row" }, text, at ? null : tokens)));
}
