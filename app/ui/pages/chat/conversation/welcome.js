// What an empty chat shows: who answers, and what to ask it first.

import { h } from "../../../shared/dom.js";
import { words } from "../../../shared/words.js";
import { pipPicture } from "./pip.js";
import { greetings, where } from "../words.js";

// `loading` shows how far a load is, while one goes on; `ask` is called with the text of a suggestion; `tour`
// may be offered.
export function welcome(loaded, loading, ask, tour) {
  if (!loaded && loading) return h("div", { class: "empty" }, pipPicture(), loading);
  if (!loaded) return h("div", { class: "empty" }, pipPicture(), h("h1", {}, words.noModel), h("p", {}, words.noModelBody));
  const { title, body, examples } = greetings.find(({ fits }) => fits(loaded));
  const suggestions = examples.map(({ label, text }) =>
    h("button", { class: "example", type: "button", on: { click: () => ask(text) } }, h("b", {}, label), h("span", {}, text)));
  return h("div", { class: "empty" }, pipPicture(), h("h1", {}, title(loaded)), h("p", {}, ...placed(body)), tour.invitation(), h("div", { class: "examples" }, ...suggestions));
}

// The styles show the one of both that is true.
function placed(body) {
  const [before, after] = body.split("{where}");
  return [before, ...Object.entries(where).map(([state, text]) => h("span", { class: `where-${state}` }, text)), after];
}
