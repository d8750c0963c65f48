// One user's own page: what it gave, what it saw, what that can cost it.
import { make, number, rows, text, tile } from "./draw.js";

function build(view, picture) {
  view.append(
    make("section", { class: "tiles" }, tile("step", "furthest step I saw"), tile("visits", "visits of the token"),
      tile("gave", "contributions I gave"), tile("peer-epsilon", "epsilon any one peer can have, at most"),
      tile("all-epsilon", "epsilon if somebody saw every message")),
    make("section", { class: "card wide", id: "exposure" }, make("h2", {}, "My exposure against the promise"),
      make("div", { class: "bar" }, make("div", { id: "spent" })), make("p", { id: "exposed", class: "soft" })),
    make("section", { class: "card wide", id: "budget" }, make("h2", {}, "All my runs against my budget"),
      make("div", { class: "bar" }, make("div", { id: "budget-spent" })), make("p", { id: "budget-words", class: "soft" })),
    make("section", { class: "card wide" }, make("h2", {}, "My peers"),
      make("div", { class: "scroll" }, make("table", {},
        make("thead", {}, make("tr", {}, ...["peer", "connection", "I handed it", "I got from it", "it can know (epsilon)"].map((head) => make("th", {}, head)))),
        make("tbody", { id: "peers" }))),
      make("p", { id: "unmet", class: "soft" })),
    make("section", { class: "card" }, make("h2", {}, "Values"), make("dl", { id: "values" })),
    make("section", { class: "card" }, make("h2", {}, "What happened"), make("ul", { id: "events" })),
  );
}

function drawBudget(picture) {
  const found = picture.budget;
  document.getElementById("budget").hidden = !found;
  if (!found) return;
  const total = found.spent === null ? "no bound" : `epsilon ${number(found.spent)}`;
  const share = found.limit && found.spent !== null ? Math.min(1, found.spent / found.limit) : 0;
  document.getElementById("budget-spent").style.width = `${100 * share}%`;
  text("budget-words", `${total} at delta ${number(found.delta)}, charged for ${found.runs} ${found.runs === 1 ? "run" : "runs"}; `
    + (found.limit === null ? "no budget is set (network-dp budget set)" : `my budget is ${number(found.limit)}`));
}

function drawPeers(picture) {
  const share = picture.promise ? Math.min(1, (picture.epsilon ?? 0) / picture.promise) : 0;
  document.getElementById("peers").replaceChildren(...picture.peers.map((peer) => {
    const bar = make("div", {});
    bar.style.width = `${100 * share}%`;
    return make("tr", { "data-peer": peer.name },
      make("td", {}, peer.name),
      make("td", {}, make("span", { class: `pill ${peer.link}` }, peer.link)),
      make("td", {}, number(peer.handed, 9)),
      make("td", {}, number(peer.got, 9)),
      make("td", { class: "cost" }, make("div", { class: "bar" }, bar), make("span", {}, number(picture.epsilon))));
  }));
  const unmet = picture.others - picture.peers.length;
  text("unmet", unmet ? `and ${unmet} I never met; the same bound holds for them` : "");
}

function drawValues(picture) {
  const list = document.getElementById("values");
  if (picture.values === null) {
    list.replaceChildren(make("dd", {}, "hidden: start the page with --values to see your own"));
    return;
  }
  const shown = { ...picture.values, ...(picture.result ? { result: picture.result } : {}) };
  list.replaceChildren(...Object.entries(shown).flatMap(([name, numbers]) => [
    make("dt", {}, name), make("dd", {}, numbers === null ? "none" : numbers.map((one) => number(one, 6)).join(", "))]));
}

export function drawMine(view, picture) {
  if (!view.childElementCount) build(view, picture);
  text("step", `${number(picture.step, 9)} of ${number(picture.total, 9)}`);
  text("visits", number(picture.visits, 9));
  text("gave", number(picture.contributions, 9));
  text("peer-epsilon", number(picture.epsilon));
  text("all-epsilon", picture.seen_by_all === null ? "none (infinite)" : number(picture.seen_by_all));
  const share = picture.promise ? Math.min(1, (picture.epsilon ?? 0) / picture.promise) : 0;
  document.getElementById("spent").style.width = `${100 * share}%`;
  text("exposed", picture.promise
    ? `at most ${number(picture.epsilon)} of the promised ${number(picture.promise)}, at delta ${number(picture.delta)}: the bound of a walk as long as the one so far`
    : "this plan promises no epsilon towards one peer, or it is being computed");
  drawBudget(picture);
  drawPeers(picture);
  drawValues(picture);
  rows(document.getElementById("events"), [...picture.events].reverse());
  if (picture.visits === null) text("unmet", "When I held the token is hidden, from whoever looks at this page too; --values shows it.");
  if (picture.final) return ["finished", "ended"];
  return picture.running ? ["taking part", "up"] : ["not running", picture.visits ? "down" : "waiting"];
}
