// The welcome of an empty chat: the model and what to ask it first.

import { h } from "../../../shared/dom.js";
import { words } from "../../../shared/words.js";
import { greetings, where } from "../words.js";

const PIP = `<svg viewBox="0 0 96 96" width="84" height="84" role="img" aria-label="Pip">
<path d="M47 30c-1-10 4-18 13-21 1 9-4 18-13 21z" fill="var(--ft-accept)"/>
<path d="M46 30c-8-1-14-7-15-15 8 0 15 6 15 15z" fill="var(--ft-accept)" opacity=".55"/>
<path d="M48 26c19 0 31 17 31 34 0 17-13 28-31 28S17 77 17 60c0-17 12-34 31-34z" fill="var(--ft-pip)" stroke="var(--ft-pip-line)" stroke-width="2"/>
<circle cx="41" cy="57" r="4.2" fill="var(--ft-pip-eye)"/><circle cx="61" cy="57" r="4.2" fill="var(--ft-pip-eye)"/>
<circle cx="42.6" cy="55.6" r="1.3" fill="#fff"/><circle cx="62.6" cy="55.6" r="1.3" fill="#fff"/>
<path d="M45 69c4 3.6 9 3.6 13 0" fill="none" stroke="var(--ft-pip-eye)" stroke-width="2.4" stroke-linecap="round"/>
</svg>`;

function pipPicture() {
  const node = document.createElement("div");
  node.className = "pip";
  node.innerHTML = PIP;
  return node;
}

// `loading` is the node with a load's progress, if there is one; `ask` is called with the text of a suggestion; `tour` may
// be offered.
export function welcome(loaded, loading, ask, tour) {
  if (!loaded && loading) return h("div", { class: "empty" }, pipPicture(), loading);
  if (!loaded) return h("div", { class: "empty" }, pipPicture(), h("h1", {}, words.noModel), h("p", {}, words.noModelBody));
  const { title, body, examples } = greetings.find(({ fits }) => fits(loaded));
  const suggestions = examples.map(({ label, text }) =>
    h("button", { class: "example", type: "button", on: { click: () => ask(text) } }, h("b", {}, label), h("span", {}, text)));
  return h("div", { class: "empty" }, pipPicture(), h("h1", {}, title(loaded)), h("p", {}, ...placed(body)), tour.invitation(), h("div", { class: "examples" }, ...suggestions));
}

// Puts both texts in; the styles show the one that is true.
function placed(body) {
  const [before, after] = body.split("{where}");
  return [before, ...Object.entries(where).map(([state, text]) => h("span", { class: `where-${state}` }, text)), after];
}
