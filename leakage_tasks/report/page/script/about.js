/* Tooltip with a column's description, shown while its head is hovered or focused; Escape closes it. */
function startAbout() {
  const tip = byId("tip");
  let owner = null;
  let closing = 0;

  function open(node) {
    clearTimeout(closing);
    if (owner === node) return;
    owner = node;
    const entry = byId(node.dataset.about);
    const title = document.createElement("strong");
    title.textContent = entry.querySelector("dt").textContent;
    tip.replaceChildren(title, ...[...entry.querySelector("dd").children].map((child) => child.cloneNode(true)));
    tip.hidden = false;
    const rect = node.getBoundingClientRect();
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const above = rect.top - tip.offsetHeight - 6;
    const below = rect.bottom + 6;
    const fits = below + tip.offsetHeight <= window.innerHeight || above < 0;
    tip.style.left = `${Math.max(8, Math.min(rect.left, room)) + window.scrollX}px`;
    tip.style.top = `${(fits ? below : above) + window.scrollY}px`;
  }

  function close() {
    clearTimeout(closing);
    owner = null;
    tip.hidden = true;
  }

  function closeSoon() {
    clearTimeout(closing);
    closing = setTimeout(close, 150);
  }

  for (const node of document.querySelectorAll("a.about, button.sort[data-about]")) {
    node.addEventListener("mouseenter", () => open(node));
    node.addEventListener("mouseleave", closeSoon);
    node.addEventListener("focus", () => { if (node.matches(":focus-visible")) open(node); });
    node.addEventListener("blur", closeSoon);
    node.addEventListener("click", close);
  }
  tip.addEventListener("mouseenter", () => clearTimeout(closing));
  tip.addEventListener("mouseleave", closeSoon);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  window.addEventListener("scroll", () => { if (owner && !owner.matches(":focus")) close(); }, { passive: true });
}
