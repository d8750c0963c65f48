// Small helpers. Names and texts go in as text only, never as markup.
const SVG = "http://www.w3.org/2000/svg";

// Only what changes is written: a screen reader reads a status again whenever it is.
export function text(id, value) {
  const element = document.getElementById(id);
  if (element.textContent !== value) element.textContent = value;
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
  return make("div", { class: "tile" }, make("b", { id }, "–"), make("span", {}, what));
}

export function card(title, look, ...children) {
  return make("section", { class: `card ${look}` }, make("h2", {}, title), ...children);
}

export function bar(attributes = {}) {
  return make("div", { class: "bar" }, make("div", attributes));
}

// A share of 0 to 1 as the width of a bar.
export function width(element, share) {
  element.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
}

export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  return Number(value).toLocaleString("en", { maximumSignificantDigits: digits });
}

export function events(list, found) {
  const lines = found.map(([look, line]) => make("li", { class: look }, line)).reverse();
  list.replaceChildren(...(lines.length ? lines : [make("li", { class: "waiting" }, "No faults so far.")]));
}

// From one range of numbers into another.
export function scale(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

export const BOX = { width: 480, height: 220, left: 50, right: 472, top: 10, bottom: 194 };

// The frame of a chart: three heights with their numbers, and the last step.
export function chart(label, [low, high], total, ...drawn) {
  const y = scale(low, high, BOX.bottom, BOX.top);
  const frame = [low, (low + high) / 2, high].flatMap((value) => [
    svg("line", { class: "grid", x1: BOX.left, x2: BOX.right, y1: y(value), y2: y(value) }),
    svg("text", { x: BOX.left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value, 2)),
  ]);
  return svg("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": label }, ...frame,
    svg("text", { x: BOX.left, y: BOX.height - 6 }, "step 0"),
    svg("text", { x: BOX.right, y: BOX.height - 6, "text-anchor": "end" }, number(total, 9)), ...drawn);
}
