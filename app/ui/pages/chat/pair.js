// The chip above the chat: the loaded pair and how it drafts. Behind it: all pairs that can be loaded, and every
// proposer with its speed if known, or the reason why it is unavailable.

import { pageLink } from "../../shared/addresses.js";
import { h, percent } from "../../shared/dom.js";
import { field } from "../../shared/form/fields.js";
import { Loading } from "../../shared/frame/loading.js";
import { pairKey, status } from "../../shared/frame/status.js";
import { words } from "../../shared/words.js";
import { say } from "./words.js";

export class PairChip {
  // `choose(proposer)` selects another proposer.
  constructor(ask, choose) {
    this.ask = ask;
    this.choose = choose;
    this.label = h("span", { class: "badge-label" });
    // Nothing is known until the first answer.
    this.chip = h("button", { class: "badge opening", type: "button", "aria-haspopup": "dialog", "aria-expanded": "false", "aria-controls": "pair-popover", on: { click: () => this.turn(this.popover.hidden) } },
      this.label, h("span", { class: "caret", "aria-hidden": true }, "▾"));
    this.detail = h("p", { class: "hint detail" });
    this.details = h("details", { class: "pair-details" }, h("summary", {}, say.pairDetails), this.detail);
    this.loading = new Loading(() => this.cancel());
    this.form = h("div", { class: "pair-fields" });
    this.load = h("button", { class: "ft-button primary", id: "load-pair", type: "button", on: { click: () => this.start() } }, words.loadPair);
    this.note = h("p", { class: "ft-error", id: "pair-note", role: "alert", hidden: true });
    this.methods = h("div", { class: "methods", role: "radiogroup", "aria-labelledby": "methods-head" });
    this.changes = h("p", { class: "hint changes", hidden: true });
    const elsewhere = (page) => pageLink(page, window.ForetokenPages[page]);
    this.others = h("p", { class: "hint", hidden: true, on: { click: (event) => event.target.href && this.turn(false) } }, ...say.others(elsewhere("models"), elsewhere("train")));
    this.popover = h("div", { class: "popover", id: "pair-popover", role: "dialog", "aria-label": say.pair, hidden: true },
      this.loading.node, this.form, h("div", { class: "field-row" }, this.load), this.note, this.details,
      h("h3", { id: "methods-head" }, say.methods), this.changes, this.methods, this.others);
    this.node = h("div", { class: "pair" }, this.chip, this.popover);
    this.node.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.popover.hidden) return;
      event.stopPropagation();
      this.turn(false);
      this.chip.focus();
    });
    document.addEventListener("pointerdown", (event) => !this.popover.hidden && !this.node.contains(event.target) && this.turn(false));
    this.popover.addEventListener("focusout", () => this.stale && setTimeout(() => this.stale && !this.choosing && this.again(), 100));
  }

  turn(open) {
    this.popover.hidden = !open;
    this.chip.setAttribute("aria-expanded", String(open));
    if (open) this.refresh();
  }

  // ---- which pair

  // Shows the pair that is loaded or being loaded.
  refresh() {
    this.draftless = false;
    return this.offer({});
  }

  async offer(chosen) {
    const mine = (this.asked = Symbol("choices"));
    const answer = await this.ask("pair_choices", chosen);
    if (!answer || mine !== this.asked) return;
    this.stale = false;
    this.values = Object.fromEntries(answer.fields.map(({ name, value }) => [name, value]));
    this.load.textContent = answer.load;
    this.pickers ??= {};
    for (const spec of answer.fields) {
      const picker = (this.pickers[spec.name] ??= this.picker(spec));
      picker.set(spec.value, spec.choices);
    }
    for (const [name, { node }] of Object.entries(this.pickers)) node.hidden = !(name in this.values);
  }

  picker(spec) {
    const made = field({ ...spec, kind: "choice", id: spec.name.replace("_", "-") }, spec.value, (value) => {
      this.values[spec.name] = value;
      if (["target", "draft"].includes(spec.name)) this.draftless = spec.name === "target";
      this.offer(this.wanted());
    });
    this.form.append(made.node);
    return made;
  }

  // Leaves the draft out until one is chosen: the app chooses the best draft for another target.
  wanted() {
    const { draft, ...rest } = this.values ?? {};
    return this.draftless ? rest : { ...rest, draft };
  }

  // True while a list may be open, which would close if it were drawn again.
  get choosing() {
    return this.form.contains(document.activeElement);
  }

  // Updates the choices and keeps what was chosen.
  again() {
    if (this.popover.hidden || !this.values) return;
    if (this.choosing) this.stale = true;
    else this.offer(this.wanted());
  }

  async start() {
    const answer = await this.ask("load_pair", this.wanted());
    this.fail(answer?.error ?? "");
    status.refresh();
  }

  fail(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  async cancel() {
    await this.ask("cancel_loading");
    status.refresh();
  }

  // ---- what is told

  show(latest) {
    const { loaded, opening, failed } = latest;
    this.latest = latest;
    this.loading.show(latest);
    this.load.disabled = Boolean(opening);
    if (opening) this.fail("");
    else if (failed && !this.popover.hidden) this.fail(failed);
    this.chip.classList.toggle("off", !loaded && !opening);
    this.chip.classList.toggle("opening", Boolean(opening));
    this.chip.title = loaded?.detail ?? "";
    this.detail.textContent = loaded?.detail ?? words.noModel;
    this.details.hidden = !loaded;
    this.name();
  }

  name() {
    const { loaded, opening, progress } = this.latest;
    const share = opening && progress?.share;
    const text = (share ? say.share(opening, percent(share)) : opening) ?? (loaded ? say.pairOf(loaded.label, this.method ?? "auto") : words.noModel);
    if (this.label.textContent === text) return;
    this.label.textContent = text;
    this.chip.setAttribute("aria-label", say.chip(text));
  }

  // Shows the proposers, from the answer that the settings got.
  showMethods({ method, methods, settings, changes }) {
    this.method = method;
    if (this.latest) this.name();
    this.changes.textContent = changes.join(" ");
    this.changes.hidden = !changes.length;
    this.others.hidden = methods.every(({ why }) => !why);
    if (!methods.length) return this.methods.replaceChildren(h("p", { class: "hint" }, say.noPair));
    const row = ({ name, about, why, speed, default: usual }) => {
      const id = `method-${name}`;
      const input = h("input", { type: "radio", name: "method", id, value: name, disabled: Boolean(why), "aria-describedby": `${id}-about`, on: { change: () => this.choose(name) } });
      input.checked = name === settings.proposer;
      return h("div", { class: why ? "method off" : "method", dataset: { method: name } }, input,
        h("label", { for: id }, h("b", {}, name), usual ? h("span", { class: "tag" }, say.isDefault) : null, h("span", { class: "about", id: `${id}-about` }, why ? `${about}. ${why}` : [about, speed].filter(Boolean).join(" · "))));
    };
    const focused = document.activeElement?.closest?.(".method")?.dataset.method;
    this.methods.replaceChildren(...methods.map(row));
    if (focused) this.methods.querySelector(`[data-method="${focused}"] input`)?.focus();
  }
}

// Updates what depends on the loaded pair: chip, settings, progress and context meter.
export class Loaded {
  constructor(page) {
    this.page = page;
    this.pair = undefined; // not known yet
  }

  show(latest) {
    const { loaded, opening, waits, failed, found, looking } = latest;
    const { pair, settings, loading, meter, notices } = this.page;
    const ended = this.opening && !opening;
    if (ended) notices.loadingEnded();
    this.opening = opening;
    this.waits = waits; // messages wait for what is being loaded
    const first = this.pair === undefined;
    const other = first || (loaded && pairKey(loaded) !== pairKey(this.pair));
    const changed = settings.version !== latest.settings && !settings.keeping;
    this.pair = loaded;
    pair.show(latest);
    loading.show(latest);
    meter.setLimit(loaded?.context);
    if (other || changed) this.renewing = this.renewSettings(other && !first);
    if (!pair.popover.hidden && (other || ended)) pair.refresh();
    else if (!looking && found !== this.found) pair.again();
    if (!looking) this.found = found;
    if (failed && !opening) notices.notice(failed, true);
  }

  // Fetches the settings of the loaded pair; `tell` says what could not be kept of the choices.
  async renewSettings(tell) {
    const { settings, notices } = this.page;
    await settings.refresh(tell);
    document.body.dataset.controls = "ready";
    if (tell) notices.tell((settings.view?.news ?? []).join(" "));
  }
}
