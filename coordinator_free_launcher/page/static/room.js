// The room: users on a circle, the token between them, the estimate and what went wrong.
import { make, number, rows, scale, svg, text, tile } from "./draw.js";

const SIZE = 400;
const LABELS = 40; // more names than this would overlap
let seen = 0; // number of the last hop that was drawn
let chosen = null;
let places = [];

// A name may have 63 letters; the whole one is in the title.
function short(name) {
  return name.length > 12 ? `${name.slice(0, 11)}…` : name;
}

function build(view, picture) {
  seen = 0;
  chosen = null;
  const n = picture.names.length;
  const radius = n > LABELS ? 180 : 125;
  places = picture.names.map((_, i) => {
    const angle = (2 * Math.PI * i) / n - Math.PI / 2;
    return [SIZE / 2 + radius * Math.cos(angle), SIZE / 2 + radius * Math.sin(angle)];
  });
  const stage = svg("svg", { id: "stage", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": "users and token" });
  for (const [u, v] of picture.edges) {
    stage.append(svg("line", { class: "ring", x1: places[u][0], y1: places[u][1], x2: places[v][0], y2: places[v][1] }));
  }
  if (!picture.drawn) stage.append(svg("circle", { class: "ring", cx: SIZE / 2, cy: SIZE / 2, r: radius }));
  stage.append(svg("g", { id: "hops" }));
  const dot = Math.max(2.5, Math.min(11, 500 / n));
  picture.names.forEach((name, i) => {
    const [x, y] = places[i];
    const user = svg("g", { class: "user", "data-user": name });
    user.append(svg("title", {}, name), svg("circle", { cx: x, cy: y, r: dot }));
    if (n <= LABELS) {
      const out = 20;
      const [dx, dy] = [(x - SIZE / 2) / radius, (y - SIZE / 2) / radius];
      const anchor = dx > 0.3 ? "start" : dx < -0.3 ? "end" : "middle";
      user.append(svg("text", { x: x + dx * out, y: y + dy * out + 4, "text-anchor": anchor }, short(name)));
    }
    stage.append(user);
  });
  if (picture.holder !== undefined) stage.append(svg("circle", { id: "token", r: Math.max(4, dot * 0.55) }));
  view.append(
    make("section", { class: "tiles" }, tile("step", "step"),
      tile("speed", picture.rounds === null ? "hops per second" : "rounds per second"),
      ...(picture.rounds === null ? [] : [tile("rounds", "rounds; who holds the token is hidden"), tile("roll", "on the roll")]),
      tile("alive", "users up"), tile("final", "have the result"), tile("found", "estimate")),
    make("section", { class: "stage card" }, stage, make("div", { id: "acts", hidden: "" })),
    make("section", { class: "card", id: "curve" }, make("h2", {}, "The estimate, and two standard deviations")),
    make("section", { class: "card" }, make("h2", {}, "What happened"), make("ul", { id: "events" })),
  );
  if (picture.buttons) buildActs();
}

function buildActs() {
  const acts = document.getElementById("acts");
  acts.hidden = false;
  for (const user of document.querySelectorAll(".user")) {
    const name = user.dataset.user;
    user.setAttribute("tabindex", "0");
    user.addEventListener("click", () => choose(name));
    user.addEventListener("keydown", (event) => event.key === "Enter" && choose(name));
  }
  document.getElementById("stage").classList.add("acting");
  acts.append(make("span", { id: "chosen" }, "Choose a user: "));
  for (const what of ["kill", "freeze"]) {
    const button = make("button", { id: what, disabled: "" }, `${what} it`);
    button.addEventListener("click", () => act(what));
    acts.append(button);
  }
}

function choose(name) {
  chosen = name;
  text("chosen", `${name}: `);
  for (const button of document.querySelectorAll("#acts button")) button.disabled = false;
}

async function act(what) {
  await fetch("act", { method: "POST", body: JSON.stringify({ user: chosen, what }) });
}

function drawHops(picture) {
  const fresh = picture.trail.filter(([number]) => number > seen);
  if (!fresh.length) return;
  seen = fresh[fresh.length - 1][0];
  const hops = document.getElementById("hops");
  for (const [, from, to] of fresh.slice(-12)) {
    const [x1, y1] = places[from];
    const [x2, y2] = places[to];
    hops.append(svg("line", { x1, y1, x2, y2, class: "hop" }));
  }
  while (hops.childElementCount > 24) hops.firstElementChild.remove();
}

function drawCurve(picture) {
  const card = document.getElementById("curve");
  card.hidden = picture.points.length < 2;
  if (card.hidden) return;
  const [width, height, left, bottom] = [480, 220, 46, 24];
  // The first points have bands as wide as the data: they would flatten all that follows.
  const drawn = picture.points.slice(Math.floor(picture.points.length / 20));
  const lows = drawn.map(([, value, std]) => value - 2 * std);
  const highs = drawn.map(([, value, std]) => value + 2 * std);
  const x = scale(0, picture.total, left, width - 8);
  const y = scale(Math.min(...lows, picture.truth ?? Infinity), Math.max(...highs, picture.truth ?? -Infinity), height - bottom, 8);
  const up = drawn.map(([step], i) => `${x(step)},${y(highs[i])}`);
  const down = drawn.map(([step], i) => `${x(step)},${y(lows[i])}`).reverse();
  const line = drawn.map(([step, value]) => `${x(step)},${y(value)}`);
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "estimate by step" },
    svg("polygon", { class: "band", points: [...up, ...down].join(" ") }),
    svg("polyline", { class: "line", points: line.join(" ") }));
  if (picture.truth !== null) {
    chart.append(svg("line", { class: "truth", x1: left, x2: width - 8, y1: y(picture.truth), y2: y(picture.truth) }));
  }
  for (const value of [Math.max(...highs), (Math.max(...highs) + Math.min(...lows)) / 2, Math.min(...lows)]) {
    chart.append(svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value.toPrecision(2)));
  }
  chart.append(svg("text", { x: width - 8, y: height - 6, "text-anchor": "end" }, `step ${picture.total}`));
  card.querySelector("svg")?.remove();
  card.querySelector("p")?.remove();
  card.append(chart);
  if (picture.truth !== null) card.append(make("p", { class: "soft" }, "Dashed: the truth, known because the data is made up."));
}

function verdict(picture) {
  if (picture.verdict) return [picture.verdict, `verdict ${picture.verdict}`];
  if (picture.final && picture.final === picture.here) return ["finished, being judged", "up"];
  return picture.step ? ["walking", "up"] : ["waiting", "waiting"];
}

export function drawRoom(view, picture) {
  if (!view.childElementCount) build(view, picture);
  text("step", `${number(picture.step, 9)} of ${number(picture.total, 9)}`);
  text("speed", number(picture.hops_per_second));
  if (picture.rounds !== null) {
    text("rounds", number(picture.rounds, 9));
    text("roll", `${picture.roll.length} of ${picture.names.length}`);
  }
  text("alive", `${picture.statuses.filter((one) => one === "up").length} of ${picture.here}`);
  text("final", `${picture.final} of ${picture.here}`);
  const last = picture.points[picture.points.length - 1];
  text("found", picture.result ? number(picture.result[0], 4) : last ? number(last[1], 4) : "–");
  const users = view.querySelectorAll(".user");
  const away = new Set(picture.roll === null ? [] : picture.names.map((_, i) => i).filter((i) => !picture.roll.includes(i)));
  picture.statuses.forEach((status, i) => users[i].setAttribute("class", `user ${status}${away.has(i) ? " absent" : ""}`));
  drawHops(picture);
  const token = document.getElementById("token");
  token.classList.toggle("away", picture.holder === null);
  if (picture.holder !== null) {
    const [x, y] = places[picture.holder];
    token.style.transform = `translate(${x}px, ${y}px)`;
    token.dataset.holder = picture.names[picture.holder];
  }
  drawCurve(picture);
  rows(document.getElementById("events"), [...picture.events].reverse());
  if (picture.report && !document.getElementById("report")) {
    document.getElementById("footer").append(make("a", { id: "report", href: "report", target: "_blank", rel: "noopener" }, "Open the report"));
  }
  if (!picture.report) document.getElementById("report")?.remove();
  return verdict(picture);
}
