// Taking back: a toast that offers it for a while, and Ctrl+Z for all that was done on this page, last first.

import { h } from "../../shared/dom.js";
import { say } from "./words.js";

const shownFor = 10_000; // ms; while it is pointed at or focused, longer

export class Undo {
  // `failed(error)` is told of what could not be taken back.
  constructor() {
    this.steps = [];
    this.text = h("span", {});
    this.button = h("button", { class: "ft-button small", type: "button", on: { click: () => this.last() } }, say.undo);
    const close = h("button", { class: "ft-link", type: "button", "aria-label": say.close, on: { click: () => this.hide() } }, "✕");
    this.node = h("div", { class: "toast", role: "status", hidden: true }, this.text, this.button, close);
    for (const event of ["pointerenter", "focusin"]) this.node.addEventListener(event, () => clearTimeout(this.timer));
    for (const event of ["pointerleave", "focusout"]) this.node.addEventListener(event, () => this.wait());
  }

  // `step` takes back what `text` says was done.
  offer(text, step) {
    this.steps.push(step);
    this.text.textContent = text;
    this.node.hidden = false;
    this.wait();
  }

  // Takes back what was done last; false where there is nothing.
  last() {
    const step = this.steps.pop();
    this.hide();
    step?.();
    return Boolean(step);
  }

  wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.hide(), shownFor);
  }

  hide() {
    clearTimeout(this.timer);
    this.node.hidden = true;
  }
}
