function byId(id) {
  return document.getElementById(id);
}

function button(look, ...children) {
  const node = document.createElement("button");
  node.type = "button";
  node.className = look;
  node.append(...children);
  return node;
}
