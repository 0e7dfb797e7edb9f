const AT_ONCE = 50;

/* Show the one panel that a select names. */
function startChoice(select) {
  const panels = document.querySelectorAll(select.dataset.panels);
  const choose = () => panels.forEach((panel, at) => { panel.hidden = at !== Number(select.value); });
  select.form.addEventListener("submit", (event) => event.preventDefault());
  select.addEventListener("change", choose);
  choose();
}

/* Show a long list in parts, with a button for the next part. */
function startParts(list) {
  const hidden = [...list.children].slice(AT_ONCE);
  if (!hidden.length) return;
  for (const node of hidden) node.hidden = true;
  const more = button("plain");
  const count = () => {
    more.hidden = !hidden.length;
    more.textContent = `Show ${Math.min(AT_ONCE, hidden.length)} more ${list.dataset.parts}`;
  };
  more.addEventListener("click", () => {
    const part = hidden.splice(0, AT_ONCE);
    for (const node of part) node.hidden = false;
    count();
    const target = part[0].matches("details") ? part[0].querySelector("summary") : part[0];
    if (target === part[0]) target.tabIndex = -1;
    target.focus();
  });
  count();
  (list.closest(".box") || list).after(more);
}
