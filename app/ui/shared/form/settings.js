// The settings: presets, the system prompt, and the rest folded below. A change is stored at once, and a message is sent
// with the current values.

import { h } from "../dom.js";
import { field } from "./fields.js";
import { words } from "../words.js";

const drafting = ["proposer", "controller", "depth"];
const folded = "foretoken.advanced";
const unkept = "foretoken.unkept"; // what is being typed, for a reload before it is stored
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

export class Settings {
  // `ask(name, data)` calls an endpoint; `shown(view)` gets its answers; `ofChat` are nodes for the open chat only.
  // A second page that shows the settings gives a `prefix` for ids.
  constructor(ask, shown, ofChat = [], prefix = "") {
    this.prefix = prefix;
    this.ask = ask;
    this.shown = shown;
    this.values = null; // not known yet
    this.pair = null; // key of the pair they are for
    this.fields = {};
    this.asked = 0;
    this.keeping = 0;
    this.last = Promise.resolve();
    this.presets = h("div", { class: "presets" });
    this.first = h("div", { class: "fields" });
    this.rest = h("div", { class: "fields" });
    this.options = h("div", { class: "fields options" });
    this.advanced = h("details", { class: "advanced" }, h("summary", {}, words.advanced), this.rest);
    this.advanced.open = localStorage.getItem(folded) === "open";
    this.advanced.addEventListener("toggle", () => localStorage.setItem(folded, this.advanced.open ? "open" : ""));
    this.node = h("div", { id: `${prefix}settings`, class: "settings" },
      h("h3", { id: `${prefix}presets-head` }, words.presets), this.presets, ...ofChat, this.first, this.advanced,
      (this.defaults = h("button", { class: "ft-button small", id: `${prefix}defaults`, type: "button", on: { click: () => this.tell(this.undoes ? "restore_settings" : "forget_settings", {}) } }, words.defaults)));
    this.presets.setAttribute("role", "group");
    this.presets.setAttribute("aria-labelledby", `${prefix}presets-head`);
  }

  // Fetches the settings of the loaded pair; `other`: it was loaded just now.
  async refresh(other = false) {
    await this.tell("panel", { first: !Object.keys(this.fields).length, other });
  }

  async tell(name, data) {
    const mine = (this.asked += 1);
    this.keeping += 1; // until the answer, Python has newer settings than this page
    const typed = localStorage.getItem(unkept);
    // One after the other: requests in flight may overtake each other, and the last change must win.
    const view = await (this.last = this.last.then(() => this.ask(name, data)));
    this.keeping -= 1;
    if (view && name !== "panel" && localStorage.getItem(unkept) === typed) localStorage.removeItem(unkept);
    if (!view || mine !== this.asked) return null; // a later answer is newer
    this.show(view, name === "keep_settings");
    return view;
  }

  // Shows an answer. `own`: the answer to a change of this page, which must not overwrite what is being typed.
  show(view, own) {
    if (view.fields) this.build(view.fields);
    const typed = this.values ? null : JSON.parse(localStorage.getItem(unkept));
    this.view = view;
    this.offerUndo(view.forgotten);
    this.pair = view.pair;
    this.version = view.version;
    if (!own) this.values = { ...structuredClone(view.settings), ...typed };
    const enabled = new Set(view.sampling);
    for (const [name, each] of Object.entries(this.fields)) {
      if (!own) each.set(this.values[name], { acceptance: view.rules, controller: view.controllers }[name]);
      if (name === "thinking_budget") each.node.hidden = !view.thinking_budget;
      if (name === "depth") each.enable(view.controllers.includes("fixed"), words.notHere);
      if (each.sampling) each.enable(enabled.has(name), words.notHere);
    }
    if (!own) this.drawOptions();
    this.drawPresets();
    this.shown(view);
    if (typed) this.keep(false);
  }

  // Offers to undo "Back to defaults" until something is changed.
  offerUndo(on) {
    this.undoes = on;
    this.defaults.textContent = on ? words.undoDefaults : words.defaults;
  }

  build(specs) {
    const made = (spec) => {
      if (spec.kind === "options") return this.options;
      const control = field({ ...spec, id: `${this.prefix}${spec.id ?? spec.name}` }, "", (value, done) => this.change({ [spec.name]: value }, done));
      this.fields[spec.name] = { ...control, sampling: spec.sampling };
      return control.node;
    };
    for (const spec of specs) {
      if (spec.kind === "group") this.rest.append(h("h3", {}, spec.label), ...spec.fields.map(made));
      else this.first.append(made(spec));
    }
  }

  change(values, done) {
    if (!this.values) return;
    Object.assign(this.values, values);
    this.drawPresets();
    this.offerUndo(false);
    if (!done) localStorage.setItem(unkept, JSON.stringify({ ...JSON.parse(localStorage.getItem(unkept)), ...values }));
    if (done) this.keep(drafting.some((name) => name in values));
  }

  keep(chosen) {
    return this.tell("keep_settings", { settings: this.values, pair: this.pair, chosen });
  }

  // Selects another proposer, from the chip.
  choose(proposer) {
    this.change({ proposer }, false);
    this.drawOptions();
    return this.keep(true);
  }

  drawOptions() {
    const { proposer, options } = this.values;
    const own = this.view.methods.find((each) => each.name === proposer)?.options ?? [];
    this.options.hidden = !own.length;
    this.options.replaceChildren(...own.map((spec) => {
      const change = (value, done) => {
        this.values.options = { ...options, ...this.values.options, [proposer]: { ...this.values.options[proposer], [spec.name]: value } };
        if (done) this.keep(false);
      };
      return field({ ...spec, name: `${this.prefix}${proposer}-${spec.name}` }, options[proposer]?.[spec.name] ?? spec.value, change).node;
    }));
  }

  drawPresets() {
    const chosen = (values) => Object.entries(values).every(([name, value]) => same(this.values[name], value));
    this.presets.replaceChildren(...this.view.presets.map(({ id, label, about, values }) =>
      h("button", { class: "preset", type: "button", "aria-pressed": String(chosen(values)), dataset: { preset: id }, on: { click: () => this.preset(id, values) } },
        h("b", {}, label), h("span", {}, about))));
  }

  async preset(id, values) {
    Object.assign(this.values, values);
    for (const [name, each] of Object.entries(this.fields)) each.set(this.values[name]);
    this.drawOptions();
    await this.keep(true);
    this.presets.querySelector(`[data-preset="${id}"]`)?.focus();
  }

  // The settings that are sent with a message.
  get sent() {
    return this.values ? { settings: this.values, pair: this.pair } : {};
  }
}
