// "?" lists the keys that do something.

import { h } from "../dom.js";
import { words } from "../words.js";

const typing = (node) => node?.matches?.("input, textarea, select, [contenteditable]");

export class Shortcuts {
  constructor() {
    const rows = words.shortcuts.map(([keys, what]) => h("div", {}, h("dt", {}, ...keys.map((key) => h("kbd", {}, key))), h("dd", {}, what)));
    this.node = h("dialog", { class: "shortcuts", "aria-label": words.shortcutsTitle },
      h("h2", {}, words.shortcutsTitle), h("dl", {}, ...rows),
      h("div", { class: "dialog-buttons" },
        h("button", { class: "ft-button", type: "button", dataset: { act: "tour" }, on: { click: () => this.tour() } }, words.takeTour),
        h("button", { class: "ft-button", type: "button", on: { click: () => this.node.close() } }, words.close)));
    this.node.addEventListener("click", (event) => event.target === this.node && this.node.close());
    this.button = h("button", { class: "help", type: "button", title: words.shortcutsTitle, "aria-label": words.shortcutsTitle, on: { click: () => this.open() } }, "?");
    document.addEventListener("keydown", (event) => {
      if (event.key !== "?" || typing(event.target)) return;
      event.preventDefault();
      this.open();
    });
  }

  tour() {
    this.node.close();
    window.dispatchEvent(new Event("foretoken-tour"));
  }

  open() {
    if (!this.node.open) this.node.showModal();
  }
}
