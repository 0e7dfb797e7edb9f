const SVG = "http://www.w3.org/2000/svg";

/* Text from results becomes text nodes and attribute values here, never markup. */
function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

function dataOf(id) {
  return JSON.parse(byId(id).textContent);
}

function counted(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/* A name from results, isolated so that right-to-left letters do not reorder the text around it. */
function named(text) {
  return h("bdi", {}, text);
}

/* Fill a list in parts: `make` turns an item into a node when its part is shown. */
function inParts(list, items, make, size, what) {
  const more = h("button", { type: "button", class: "plain" });
  let drawn = 0;
  function add() {
    const first = drawn;
    const added = items.slice(drawn, drawn + size).map(make);
    list.append(...added);
    drawn += added.length;
    more.hidden = drawn >= items.length;
    more.textContent = `Show ${Math.min(size, items.length - drawn)} more ${what}`;
    return first ? added[0] : null;
  }
  more.addEventListener("click", () => {
    const first = add();
    const target = first && (first.querySelector("summary") || first);
    if (target) {
      if (target.tagName === "TR") target.tabIndex = -1;
      target.focus();
    }
  });
  add();
  return more;
}
