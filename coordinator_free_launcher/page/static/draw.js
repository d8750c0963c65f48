// Small helpers. Names and texts go in as text only, never as markup.
const SVG = "http://www.w3.org/2000/svg";

export function text(id, value) {
  document.getElementById(id).textContent = value;
}

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  fill(element, attributes, children);
  return element;
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
}

export function tile(id, what) {
  return make("div", { class: "tile" }, make("b", { id }), make("span", {}, what));
}

export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  return Number(value).toLocaleString("en", { maximumSignificantDigits: digits });
}

export function rows(list, lines) {
  list.replaceChildren(...(lines.length ? lines : ["nothing yet"]).map((line) => make("li", {}, line)));
}

// A polyline through [x, y] points, scaled into a box.
export function scale(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}
