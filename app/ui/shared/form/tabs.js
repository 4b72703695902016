// Tabs over panes, of which one is shown; the arrow keys go from tab to tab.

import { h } from "../dom.js";

export class Tabs {
  // `panes` are nodes by name, `labels` what their tabs are called; `pick(name)` is called for a click or a key.
  constructor(panes, labels, label, pick) {
    this.panes = panes;
    this.picked = pick;
    this.tabs = Object.fromEntries(Object.entries(panes).map(([name, pane]) => {
      pane.id ||= `pane-${name}`;
      pane.setAttribute("role", "tabpanel");
      const tab = h("button", { id: `tab-${name}`, class: "drawer-tab", type: "button", role: "tab", "aria-controls": pane.id, dataset: { tab: name }, on: { click: () => pick(name) } }, labels[name]);
      pane.setAttribute("aria-labelledby", tab.id);
      return [name, tab];
    }));
    this.node = h("div", { class: "drawer-tabs", role: "tablist", "aria-label": label, on: { keydown: (event) => this.walk(event) } }, ...Object.values(this.tabs));
  }

  show(name) {
    this.name = name;
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
    const next = names[(names.indexOf(this.name) + step + names.length) % names.length];
    event.preventDefault();
    this.picked(next);
    this.tabs[next].focus();
  }
}
