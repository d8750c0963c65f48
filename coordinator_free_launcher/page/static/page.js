// One stream of pictures from this machine; each picture is drawn whole.
import { drawMine } from "./mine.js";
import { drawRoom } from "./room.js";
import { text } from "./draw.js";

const views = { mine: drawMine, room: drawRoom };
const view = document.getElementById("view");
let shown = "";

function draw(picture) {
  if (!(picture.view in views)) return;
  if (picture.view + picture.run !== shown) {
    shown = picture.view + picture.run;
    view.replaceChildren();
    view.className = picture.view;
  }
  document.title = `${picture.user ?? picture.name} · network-dp`;
  text("name", picture.user ? `${picture.user} in ${picture.name}` : picture.name);
  text("about", picture.about);
  const [status, look] = views[picture.view](view, picture);
  const pill = document.getElementById("status");
  text("status", status);
  pill.className = `pill ${look}`;
}

const stream = new EventSource("events");
stream.onmessage = (event) => draw(JSON.parse(event.data));
stream.onerror = () => {
  text("status", "the page's server does not answer");
  document.getElementById("status").className = "pill down";
};
