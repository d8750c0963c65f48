// One user's own page: what it gave, what it saw, what that can cost it.
import { BOX, bar, card, chart, events, make, number, scale, svg, text, tile, width } from "./draw.js";

const HEADS = ["peer", "connection", "I gave it", "I got from it", "it can know about me (epsilon)"];
const WORDS = { received: "the token I got", contribution: "what I added", noise: "my noise", sent: "the token I sent", result: "result" };

function build(view) {
  view.append(
    make("section", { class: "tiles" }, tile("step", "furthest step I saw"), tile("visits", "visits of the token"),
      tile("gave", "times I contributed"), tile("all-epsilon", "epsilon if somebody saw every message")),
    card("What any one peer can know about me", "exposure", make("p", { class: "hero" }, make("b", { id: "peer-epsilon" }, "–"),
      make("span", { id: "promise" })), bar({ id: "spent" }), make("div", { id: "growth" }), make("p", { id: "exposed", class: "soft" })),
    make("div", { class: "column" },
      make("section", { class: "card", id: "budget", hidden: "" }, make("h2", {}, "All my runs against my budget"), bar({ id: "budget-spent" }),
        make("p", { id: "budget-words", class: "soft" })),
      card("My values", "own", make("dl", { id: "values" })),
      card("What happened", "happened", make("ul", { id: "events" }))),
    card("My peers", "wide", make("table", {}, make("thead", {}, make("tr", {}, ...HEADS.map((head) => make("th", {}, head)))),
      make("tbody", { id: "peers" })), make("p", { id: "unmet", class: "soft" }), make("p", { id: "ranges", class: "soft" })),
  );
}

function drawExposure(picture) {
  const promised = picture.promise !== null;
  text("peer-epsilon", promised ? number(picture.epsilon) : "–");
  text("promise", promised ? ` of epsilon ${number(picture.promise)} promised` : "");
  width(document.getElementById("spent"), promised ? picture.epsilon / picture.promise : 0);
  text("exposed", promised
    ? `At most, at delta ${number(picture.delta)}, towards each peer alike: the bound of a walk as long as the one so far.`
    : picture.costed ? "This plan promises no epsilon towards one peer." : "Being computed.");
  if (promised) drawGrowth(picture);
}

// How the bound grows with the walk, and how far it has got.
function drawGrowth(picture) {
  const x = scale(0, picture.total, BOX.left, BOX.right);
  const y = scale(0, picture.promise, BOX.bottom, BOX.top);
  const points = [];
  let from = 0;
  for (const [step, epsilon] of picture.growth) {
    points.push(`${x(from)},${y(epsilon)}`, `${x(step)},${y(epsilon)}`); // in between the next longer walk counts
    from = step;
  }
  document.getElementById("growth").replaceChildren(chart("bound on epsilon by step", [0, picture.promise], picture.total,
    svg("polyline", { class: "line", points: points.join(" ") }),
    svg("circle", { class: "now", cx: x(Math.min(picture.step, picture.total)), cy: y(picture.epsilon), r: 5 })));
}

function drawBudget(picture) {
  const found = picture.budget;
  document.getElementById("budget").hidden = !found;
  if (!found) return;
  const total = found.spent === null ? "no bound" : `epsilon ${number(found.spent)}`;
  width(document.getElementById("budget-spent"), found.limit && found.spent !== null ? found.spent / found.limit : 0);
  text("budget-words", `${total} at delta ${number(found.delta)}, charged for ${found.runs} ${found.runs === 1 ? "run" : "runs"}; `
    + (found.limit === null ? "no budget is set (network-dp budget set)" : `my budget is ${number(found.limit)}`));
}

// What one peer can know: a range where my log tells them apart, else the bound that all share.
function known([least, most], far, promise) {
  const low = make("div", { class: "least" });
  const high = make("div", { class: "most" });
  const mark = make("div", { class: "mark" });
  width(low, least / far);
  width(high, most / far);
  width(mark, promise / far);
  const words = least === most ? number(most) : `${number(least)} to ${number(most)}`;
  return [make("span", {}, words), make("div", { class: "bar range" }, high, low, ...(promise && promise < far ? [mark] : []))];
}

function drawPeers(picture) {
  const alike = [0, picture.epsilon ?? 0];
  const range = (name) => (picture.ranges ? picture.ranges[name] ?? picture.anybody : alike);
  const shared = picture.promise === null ? ["–"] : null;
  const far = Math.max(picture.promise ?? 0, ...picture.peers.map((peer) => range(peer.name)[1])) || 1;
  document.getElementById("peers").replaceChildren(...picture.peers.map((peer) => {
    const cost = picture.ranges === null && shared ? shared : known(range(peer.name), far, picture.promise);
    const cells = [[peer.name], [make("span", { class: `pill ${peer.link}` }, peer.link)], [number(peer.handed, 9)], [number(peer.got, 9)], cost];
    return make("tr", { "data-peer": peer.name }, ...cells.map((cell, i) => make("td", { "data-head": HEADS[i] }, ...cell)));
  }));
  const unmet = picture.others - picture.peers.length;
  const theirs = picture.ranges ? `: epsilon ${number(picture.anybody[0])} to ${number(picture.anybody[1])}` : "; the same bound holds for them";
  text("ranges", picture.ranges ? "From and to: what all logs together would show lies between. I know whom I had the token from and to whom I gave it; "
    + "a peer may have held it at any other step, or at none. The end of the bar, or the line in it, is the promise, an average over all paths: one path may exceed it." : "");
  text("unmet", picture.visits === null ? "When I held the token is hidden, from whoever looks at this page too; --values shows it."
    : unmet ? `and ${unmet} I never met${theirs}` : "");
}

function drawValues(picture) {
  const list = document.getElementById("values");
  if (picture.values === null) {
    if (!list.childElementCount) list.append(make("dd", { class: "soft" }, "hidden: start the page with --values to see your own"));
    return;
  }
  const shown = { ...picture.values, ...(picture.result ? { result: picture.result } : {}) };
  list.replaceChildren(...Object.entries(shown).flatMap(([name, numbers]) => [
    make("dt", {}, WORDS[name]), make("dd", {}, numbers === null ? "none" : numbers.map((one) => number(one, 6)).join(", "))]));
}

export function drawMine(view, picture, fresh) {
  if (fresh) build(view);
  text("step", `${number(picture.step, 9)} of ${number(picture.total, 9)}`);
  text("visits", picture.visits === null ? "hidden" : number(picture.visits, 9));
  text("gave", picture.contributions === null ? "hidden" : number(picture.contributions, 9));
  text("all-epsilon", picture.seen_by_all === null ? "no bound" : number(picture.seen_by_all));
  drawExposure(picture);
  drawBudget(picture);
  drawPeers(picture);
  drawValues(picture);
  events(document.getElementById("events"), picture.events);
  if (picture.final) return ["finished", "ended"];
  return picture.running ? ["taking part", "up"] : ["not running", picture.step ? "down" : "waiting"];
}
