// Calls of the API under tabs, each with a button that copies it.

import { copy, h } from "../../shared/dom.js";
import { words } from "../../shared/words.js";
import { calls } from "./calls.js";
import { say } from "./words.js";

const KEPT = "foretoken.snippet"; // the tab that was looked at last
const HIDDEN = "•".repeat(12); // stands for a key

export class Snippets {
  constructor() {
    this.texts = {};
    this.tabs = {};
    this.panes = {};
    for (const [name, { title, hint }] of Object.entries(say.calls)) this.build(name, title, hint);
    const list = h("div", { class: "drawer-tabs", role: "tablist", "aria-label": say.callsTitle, on: { keydown: (event) => this.walk(event) } }, ...Object.values(this.tabs));
    this.node = h("section", { class: "calls", "aria-label": say.callsTitle }, h("h2", {}, say.callsTitle), list, ...Object.values(this.panes));
    const first = navigator.platform.startsWith("Win") ? "powershell" : "curl";
    const kept = localStorage.getItem(KEPT);
    this.pick(kept in this.tabs ? kept : first);
  }

  build(name, title, hint) {
    const code = h("code", {});
    const button = h("button", { class: "ft-link", type: "button", on: { click: () => copy(this.texts[name], button, words.copied) } }, words.copy);
    const tab = h("button", { class: "drawer-tab", type: "button", role: "tab", id: `call-tab-${name}`, "aria-controls": `call-${name}`, on: { click: () => this.pick(name) } }, title);
    this.tabs[name] = tab;
    this.panes[name] = h("div", { class: "snippet", role: "tabpanel", id: `call-${name}`, "aria-labelledby": tab.id, dataset: { snippet: name } },
      h("div", { class: "code" }, h("div", { class: "code-bar" }, h("span", {}, hint), button), h("pre", { tabindex: "0" }, code)));
  }

  // The key is copied, and not shown unless `open`.
  show({ base, model, key }, open) {
    this.texts = calls({ base, model, key });
    const shown = calls({ base, model, key: key && !open ? HIDDEN : key });
    for (const [name, pane] of Object.entries(this.panes)) {
      const code = pane.querySelector("code");
      if (code.textContent !== shown[name]) code.textContent = shown[name];
    }
  }

  pick(name) {
    localStorage.setItem(KEPT, name);
    for (const [each, tab] of Object.entries(this.tabs)) {
      tab.setAttribute("aria-selected", String(each === name));
      tab.tabIndex = each === name ? 0 : -1;
      this.panes[each].hidden = each !== name;
    }
  }

  walk(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = Object.keys(this.tabs);
    const next = names[(names.findIndex((name) => this.tabs[name].tabIndex === 0) + step + names.length) % names.length];
    event.preventDefault();
    this.pick(next);
    this.tabs[next].focus();
  }
}
