// Undo: each action can be undone for a while, in any order; Ctrl+Z undoes all actions of this page, last first.

import { h } from "../../../shared/dom.js";
import { say } from "../words.js";

const shownFor = 10_000; // ms; longer while the pointer or the focus is on it
const shownMost = 3;

export class Undo {
  constructor() {
    this.steps = []; // {take, row}
    this.node = h("div", { class: "toasts", role: "status" });
    for (const event of ["pointerenter", "focusin"]) this.node.addEventListener(event, () => this.steps.forEach(({ timer }) => clearTimeout(timer)));
    for (const event of ["pointerleave", "focusout"]) this.node.addEventListener(event, () => this.steps.forEach((step) => this.wait(step)));
  }

  // `take` undoes what `text` says was done; it returns false if the app did not answer.
  offer(text, take) {
    const step = { take };
    step.row = h("div", { class: "toast" }, h("span", {}, text),
      h("button", { class: "ft-button small", type: "button", on: { click: () => this.take(step) } }, say.undo),
      h("button", { class: "ft-link", type: "button", "aria-label": say.close, on: { click: () => step.row.remove() } }, "✕"));
    this.steps.push(step);
    this.node.append(step.row);
    while (this.node.children.length > shownMost) this.node.firstElementChild.remove();
    this.wait(step);
  }

  // Undoes the last action. Returns false if there is none.
  last() {
    const step = this.steps.at(-1);
    if (step) this.take(step);
    return Boolean(step);
  }

  async take(step) {
    this.steps = this.steps.filter((each) => each !== step); // not twice
    step.row.remove();
    if (!(await step.take())) this.steps.push(step); // Ctrl+Z tries again
  }

  // Forgets all actions.
  forget() {
    this.steps = [];
    this.node.replaceChildren();
  }

  wait(step) {
    clearTimeout(step.timer);
    step.timer = setTimeout(() => step.row.remove(), shownFor);
  }
}
