// What the pages that measure have in common: fields of a form, and following what Python measures.

import { h } from "./dom.js";
import { follow } from "./feed.js";
import { answered, reason } from "./server.js";

export const field = (label, control, more = "") => h("label", { class: `field ${more}` }, h("span", {}, label), control);

export const select = (name, options, value, more = {}) =>
  h("select", { name, ...more }, ...options.map(([each, text]) => h("option", { value: each, selected: each === value }, text)));

// A choice among several: `type` is radio or checkbox.
export const choice = (type, name, value, title, hint, more = {}) =>
  h("label", { class: "choice-card" }, h("input", { type, name, value, ...more }), h("span", {}, h("b", {}, title), hint ? h("span", { class: "hint" }, hint) : null));

// Calls `f` each time the page of `form` comes into sight, until somebody has chosen something in it: what
// it offers follows the chats and their settings.
export function followChats(form, f) {
  let touched = false;
  form.addEventListener("input", () => (touched = true));
  new IntersectionObserver((entries) => entries.at(-1).isIntersecting && !touched && f()).observe(form);
}

// One measurement after another, each followed by its number; a page that was reloaded follows the last.
export class Following {
  // `onEvents(events, stats, done)`; `onError(text)` says what went wrong.
  constructor(server, onEvents, onError) {
    this.server = server;
    this.onEvents = onEvents;
    this.onError = onError;
    this.number = null;
  }

  // Starts one by a question to Python; false where it was refused, which is said.
  async start(question, onStart) {
    try {
      const { number } = await answered(question);
      onStart();
      this.watch(number);
      return true;
    } catch (error) {
      this.onError(reason(error));
      return false;
    }
  }

  async watch(number) {
    this.number = number;
    try {
      await follow((from) => this.server.follow({ number, from }), () => this.number === number, this.onEvents);
    } catch (error) {
      this.onError(reason(error));
    }
  }
}
