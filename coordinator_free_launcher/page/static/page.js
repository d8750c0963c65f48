// One stream of pictures from this machine; each picture is drawn whole.
import { drawMine } from "./mine.js";
import { drawRoom } from "./room.js";
import { text, width } from "./draw.js";

const views = { mine: drawMine, room: drawRoom };
const view = document.getElementById("view");
let shown = "";

function draw(picture) {
  if (!(picture.view in views)) return;
  const fresh = picture.view + picture.run !== shown;
  if (fresh) {
    shown = picture.view + picture.run;
    view.replaceChildren();
    view.className = picture.view;
  }
  document.title = `${picture.user ?? picture.name} · network-dp`;
  text("name", picture.user ? `${picture.user} in ${picture.name}` : picture.name);
  text("about", picture.headline ? `This run ${picture.headline}.` : picture.about);
  const [status, look] = views[picture.view](view, picture, fresh);
  show(status, look);
  width(document.querySelector("#progress > div"), picture.total ? picture.step / picture.total : 0);
  document.getElementById("report").hidden = !picture.report;
}

function show(status, look) {
  text("status", status);
  document.getElementById("status").className = `pill ${look}`;
}

const stream = new EventSource("events");
stream.onmessage = (event) => draw(JSON.parse(event.data));
stream.onerror = () => show("the page's server is gone", "down");
