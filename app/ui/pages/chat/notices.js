// What is said above the message box: mistakes, and what is no mistake and may be taken back.

import { h } from "../../shared/dom.js";
import { say } from "./words.js";

export class Notices {
  constructor() {
    this.alert = h("div", { class: "ft-error notice", role: "alert", hidden: true });
    this.told = h("div", { class: "notice told", role: "status", hidden: true });
  }

  // One that is about loading goes away when loading ends.
  notice(text, ofLoading = false) {
    this.ofLoading = ofLoading;
    this.alert.textContent = text;
    this.alert.hidden = !text;
  }

  loadingEnded() {
    if (this.ofLoading) this.notice("");
  }

  // Takes `text` away, where it is what was said last.
  over(text) {
    if (this.alert.textContent === text) this.notice("");
  }

  // What is no mistake; `undo` takes it back, where it can be.
  tell(text, undo = null) {
    this.told.hidden = !text;
    if (this.told.firstChild?.textContent === text) return; // it is not said again
    const button = undo && h("button", { class: "ft-link", type: "button", on: { click: undo } }, say.heldCancel);
    this.told.replaceChildren(...(text ? [h("span", {}, text), button ?? ""] : []));
  }

  clear() {
    this.notice("");
    this.tell("");
  }
}
