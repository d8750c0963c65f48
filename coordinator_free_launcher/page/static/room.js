// The room: users and who may meet whom, the token between them, the estimate and what went wrong.
import { BOX, card, chart, events, make, number, scale, svg, text, tile } from "./draw.js";

const LABELS = 40; // more names than this would overlap
const UPRIGHT = 16; // more names than this point outwards
const RING = { upright: 140, outwards: 112, bare: 180 };
const GRAPH = [190, 160];
const STREAKS = 12; // hops that are drawn at a time
const LOOKS = { up: "up", down: "down", paused: "frozen", ended: "has the result" };
let seen = 0; // number of the last hop that was drawn
let turn = 0; // of the token on a ring, in users, laps included
let stood = 0; // step of the last picture
let chosen = null;
let places = [];

// A name may have 63 letters; the whole one is in the title.
function label(name, attributes) {
  return svg("text", attributes, name.length > 12 ? `${name.slice(0, 11)}…` : name);
}

function build(view, picture) {
  seen = turn = stood = 0;
  chosen = null;
  const hidden = picture.rounds !== null;
  view.append(
    make("section", { class: "tiles" }, tile("step", "steps done"),
      tile("speed", hidden ? "rounds per second" : "hops per second"),
      ...(hidden ? [tile("roll", "take part in the rounds")] : []),
      tile("alive", "users up"), tile("final", "have the result")),
    make("section", { class: "stage card" }, stage(picture, hidden), legend(picture, hidden), make("div", { id: "acts", hidden: "" })),
    ...(picture.estimated ? [estimate(picture, hidden)] : []),
    card("What happened", "happened", make("ul", { id: "events" })),
  );
  if (picture.buttons) buildActs();
}

// In anonymous rounds the token on its way is nobody's to see: only the end is shown.
function estimate(picture, hidden) {
  const truth = picture.truth === null ? "" : `the truth, ${number(picture.truth, 4)}, is known because this data is made up.`;
  const curve = [make("div", { id: "curve" }, make("p", { class: "soft", id: "wait" }, "It appears after the first contributions.")),
    make("p", { class: "soft" }, `Shaded: two standard deviations. ${truth && `Dashed: ${truth}`}`)];
  const end = [make("p", { class: "soft" }, `Shown at the end only: the token on its way is nobody's to see. ${truth && `Here ${truth}`}`)];
  return card("Estimate", "", make("p", { class: "hero" }, make("b", { id: "found" }, "–"), make("span", { id: "error" })), ...(hidden ? end : curve));
}

function stage(picture, hidden) {
  const n = picture.names.length;
  const radius = RING[n > LABELS ? "bare" : n > UPRIGHT ? "outwards" : "upright"];
  places = picture.places
    ? picture.places.map(([x, y]) => [GRAPH[0] * x, GRAPH[1] * y])
    : picture.names.map((_, i) => [radius * Math.sin((2 * Math.PI * i) / n), -radius * Math.cos((2 * Math.PI * i) / n)]);
  const drawing = svg("svg", { id: "stage", class: n > LABELS ? "crowd" : "", viewBox: "-240 -200 480 400", role: "img", "aria-label": "users and token" });
  for (const [u, v] of picture.edges) drawing.append(line("ring", u, v));
  if (!picture.drawn) drawing.append(svg("circle", { class: "ring", r: radius }));
  if (hidden) drawing.append(...beat(radius));
  drawing.append(svg("g", { id: "hops" }));
  const dot = Math.max(1.6, Math.min(11, (0.8 * Math.PI * radius) / n));
  picture.names.forEach((name, i) => drawing.append(user(picture, name, i, dot)));
  if (!hidden) drawing.append(svg("g", { id: "token" }, svg("circle", { class: "halo", r: 2 * Math.max(5, dot) }),
    svg("circle", { r: Math.max(4, dot * 0.6) })));
  return drawing;
}

function line(look, u, v) {
  return svg("line", { class: look, x1: places[u][0], y1: places[u][1], x2: places[v][0], y2: places[v][1] });
}

// Along the ring.
function arc(u, v) {
  const radius = -places[0][1];
  return svg("path", { class: "hop", d: `M${places[u].join(" ")} A${radius} ${radius} 0 0 1 ${places[v].join(" ")}` });
}

// Everybody speaks in every round: the picture beats as a whole, and nobody in it stands out.
function beat(radius) {
  return [svg("circle", { class: "beat", r: radius }), svg("circle", { class: "beat late", r: radius }),
    svg("text", { id: "rounds", class: "centre", y: 4 }, "–"), svg("text", { class: "under", y: 24 }, "rounds"),
    svg("text", { class: "under", y: 44 }, "who holds the token is hidden")];
}

function user(picture, name, i, dot) {
  const [x, y] = places[i];
  const drawn = svg("g", { class: "user", "data-user": name }, svg("title", {}, name), svg("circle", { class: "dot", cx: x, cy: y, r: dot }));
  if (picture.names.length > LABELS) return drawn;
  drawn.prepend(svg("circle", { class: "touch", cx: x, cy: y, r: dot + 7 })); // a finger's width on a phone
  drawn.append(picture.places ? label(name, { x, y: y + dot + 14, "text-anchor": "middle" }) : outside(name, x, y, dot, picture.names.length));
  return drawn;
}

// Of a circle: beside it, or, where many would overlap, turned so that it points away from the middle.
function outside(name, x, y, dot, n) {
  const far = Math.hypot(x, y);
  const anchor = x < -0.3 * far ? "end" : x > 0.3 * far ? "start" : "middle";
  if (n <= UPRIGHT) return label(name, { x: x + (x / far) * (dot + 8), y: y + (y / far) * (dot + 12) + 4, "text-anchor": anchor });
  const left = x < -0.001;
  const angle = (Math.atan2(y, x) * 180) / Math.PI + (left ? 180 : 0);
  return label(name, { transform: `rotate(${angle}) translate(${(left ? -1 : 1) * (far + dot + 7)}, 4)`, "text-anchor": left ? "end" : "start" });
}

function legend(picture, hidden) {
  const shown = Object.keys(LOOKS).filter((look) => picture.buttons || look !== "paused");
  return make("p", { class: "legend" }, ...(hidden ? [] : [make("span", { class: "token" }, "token")]),
    ...shown.map((look) => make("span", { class: look }, LOOKS[look])),
    ...(hidden ? [make("span", { class: "absent" }, "not in the rounds")] : []));
}

function buildActs() {
  const acts = document.getElementById("acts");
  acts.hidden = false;
  for (const one of document.querySelectorAll(".user")) {
    const name = one.dataset.user;
    one.setAttribute("tabindex", "0");
    one.addEventListener("click", () => choose(name));
    one.addEventListener("keydown", (event) => event.key === "Enter" && choose(name));
  }
  document.getElementById("stage").classList.add("acting");
  acts.append(make("span", { id: "chosen" }, "Choose a user, then"));
  for (const what of ["kill", "freeze"]) {
    const button = make("button", { id: what, disabled: "" }, what);
    button.addEventListener("click", () => act(what));
    acts.append(button);
  }
}

function choose(name) {
  chosen = name;
  text("chosen", `${name}:`);
  for (const one of document.querySelectorAll(".user")) one.classList.toggle("chosen", one.dataset.user === name);
  for (const button of document.querySelectorAll("#acts button")) button.disabled = false;
}

async function act(what) {
  await fetch("act", { method: "POST", body: JSON.stringify({ user: chosen, what }) });
}

function drawHops(picture) {
  const fresh = picture.trail.filter(([count]) => count > seen);
  if (!fresh.length) return;
  seen = fresh[fresh.length - 1][0];
  const hops = document.getElementById("hops");
  hops.append(...fresh.slice(-STREAKS).map(([, from, to]) => (picture.drawn ? line("hop", from, to) : arc(from, to))));
  while (hops.childElementCount > 2 * STREAKS) hops.firstElementChild.remove();
}

// On a ring along the ring; elsewhere straight to where it is.
function drawToken(picture) {
  const token = document.getElementById("token");
  token.classList.toggle("away", picture.holder === null);
  if (picture.holder === null) return;
  token.dataset.holder = picture.names[picture.holder];
  const n = picture.names.length;
  if (picture.drawn) {
    const [x, y] = places[picture.holder];
    token.style.transform = `translate(${x}px, ${y}px)`;
    return;
  }
  const ahead = (((picture.holder - turn) % n) + n) % n;
  turn += picture.step < stood ? ahead - n : ahead; // back where a lost token was taken up again
  stood = picture.step;
  token.style.transform = `rotate(${(360 * turn) / n}deg) translate(0, ${places[0][1]}px)`;
}

function drawEstimate(picture) {
  const last = picture.points[picture.points.length - 1];
  text("found", number(picture.result ? picture.result[0] : last?.[1], 4));
  text("error", picture.result || last ? ` ± ${number(2 * (picture.result ? picture.std : last[2]), 2)}` : "");
  if (picture.points.length < 2) return;
  // The first points have bands as wide as the data: they would flatten all that follows.
  const drawn = picture.points.slice(Math.floor(picture.points.length / 20));
  const lows = drawn.map(([, value, std]) => value - 2 * std);
  const highs = drawn.map(([, value, std]) => value + 2 * std);
  const ends = [Math.min(...lows, picture.truth ?? Infinity), Math.max(...highs, picture.truth ?? -Infinity)];
  const x = scale(0, picture.total, BOX.left, BOX.right);
  const y = scale(...ends, BOX.bottom, BOX.top);
  const up = drawn.map(([step], i) => `${x(step)},${y(highs[i])}`);
  const down = drawn.map(([step], i) => `${x(step)},${y(lows[i])}`).reverse();
  const middle = drawn.map(([step, value]) => `${x(step)},${y(value)}`);
  const [step, value] = drawn[drawn.length - 1];
  document.getElementById("curve").replaceChildren(chart("estimate by step", ends, picture.total,
    svg("polygon", { class: "band", points: [...up, ...down].join(" ") }),
    ...(picture.truth === null ? [] : [svg("line", { class: "truth", x1: BOX.left, x2: BOX.right, y1: y(picture.truth), y2: y(picture.truth) })]),
    svg("polyline", { class: "line", points: middle.join(" ") }), svg("circle", { class: "now", cx: x(step), cy: y(value), r: 4 })));
}

function state(picture, up) {
  if (picture.verdict) return [picture.verdict, `verdict ${picture.verdict}`];
  if (picture.final && picture.final === picture.here) return ["finished, being judged", "ended"];
  if (!picture.step) return up ? ["starting", "waiting"] : ["waiting for the users", "waiting"];
  return up ? ["running", "up"] : ["nobody is up", "down"];
}

export function drawRoom(view, picture, fresh) {
  if (fresh) build(view, picture);
  const up = picture.statuses.filter((one) => one === "up").length;
  text("step", `${number(picture.step, 9)} of ${number(picture.total, 9)}`);
  text("speed", picture.verdict ? "–" : number(picture.hops_per_second));
  text("alive", `${number(up, 9)} of ${number(picture.here, 9)}`);
  text("final", `${number(picture.final, 9)} of ${number(picture.here, 9)}`);
  const roll = picture.roll === null ? null : new Set(picture.roll);
  document.querySelectorAll(".user").forEach((one, i) => {
    const look = `user ${picture.statuses[i]}${roll && !roll.has(i) ? " absent" : ""}${one.dataset.user === chosen ? " chosen" : ""}`;
    if (one.getAttribute("class") !== look) one.setAttribute("class", look);
  });
  if (roll) {
    text("roll", `${roll.size} of ${picture.names.length}`);
    text("rounds", number(picture.rounds, 9));
    document.getElementById("stage").classList.toggle("beating", picture.hops_per_second > 0);
  } else {
    drawHops(picture);
    drawToken(picture);
  }
  if (picture.estimated) drawEstimate(picture);
  events(document.getElementById("events"), picture.events);
  return state(picture, up);
}
