function startTable() {
  const table = byId("board");
  const bodies = [...table.tBodies].map((body) => ({ body, rows: [...body.rows].filter((row) => !row.matches(".group")) }));
  const rows = bodies.flatMap((part) => part.rows);
  const heads = [...table.querySelectorAll("thead th[data-sort]")];
  const status = byId("found");
  byId("tools").addEventListener("submit", (event) => event.preventDefault());

  function keyOf(row, at, kind) {
    const cell = row.cells[at];
    if (kind === "text") return cell.querySelector(".run").textContent;
    return cell.dataset.value ? Number(cell.dataset.value) : null;
  }

  function sort(at, kind, sign) {
    for (const { body, rows: members } of bodies) {
      const keyed = members.map((row, index) => ({ row, index, key: keyOf(row, at, kind) }));
      keyed.sort((left, right) => {
        if (left.key === null || right.key === null) return (left.key === null) - (right.key === null) || left.index - right.index;
        const order = kind === "text" ? left.key.localeCompare(right.key, "en", { numeric: true }) : left.key - right.key;
        return sign * order || left.index - right.index;
      });
      body.append(...keyed.map((entry) => entry.row));
    }
  }

  heads.forEach((head, at) => {
    const label = head.querySelector(".sort");
    const sorter = button("sort", ...label.childNodes);
    Object.assign(sorter.dataset, label.dataset);
    label.replaceWith(sorter);
    head.setAttribute("aria-sort", "none");
    sorter.addEventListener("click", () => {
      const rising = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      sort(at, head.dataset.sort, rising ? 1 : -1);
      const title = sorter.querySelector(".title").textContent;
      status.textContent = `Sorted by ${title}, ${rising ? "ascending" : "descending"}; runs without a value last.`;
    });
  });

  function filter() {
    const words = byId("find").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const kind = byId("kind") ? byId("kind").value : "";
    for (const row of rows) {
      const text = row.dataset.find.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (kind !== "" && row.dataset.kind !== kind);
    }
    for (const { body, rows: members } of bodies) body.hidden = members.every((row) => row.hidden);
    const shown = rows.filter((row) => !row.hidden).length;
    status.textContent = shown === rows.length ? "" : `${shown} of ${rows.length.toLocaleString("en")} runs shown`;
  }
  byId("find").addEventListener("input", filter);
  if (byId("kind")) byId("kind").addEventListener("change", filter);
}
