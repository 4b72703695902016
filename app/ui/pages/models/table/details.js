// A model's card: its facts, the memory it takes, and what can draft for it.

import { h } from "../../../shared/dom.js";
import { say } from "../words.js";
import { Files } from "./files.js";

const AGAIN_MS = 700;
const STEP = 256; // tokens of context

export class Details {
  constructor(page, id) {
    this.page = page;
    this.facts = h("div", { class: "facts" });
    this.bar = new FitBar(page);
    this.files = new Files(page, id);
    this.drafts = new Drafts(page, id, (pair) => this.bar.reckon(pair), () => this.bar.context);
    this.node = h("article", { class: "card", dataset: { target: id } }, this.facts, this.files.node, this.bar.node, this.drafts.node);
  }

  // Refreshes a card that is shown again: memory and speeds may have changed.
  opened() {
    this.files.refresh();
    this.drafts.refresh();
    this.bar.again();
  }

  show(row) {
    const shown = JSON.stringify(row);
    if (shown === this.shown) return;
    this.shown = shown;
    const tags = [row.architecture, row.parameters_text && say.parameters(row.parameters_text), row.type, row.size, row.context && say.context(row.context), row.licence];
    const forget = async () => {
      await this.page.ask("forget", { path: row.path });
      this.page.refresh();
    };
    this.facts.replaceChildren(
      row.pair_name && row.pair_name !== row.name ? h("p", { class: "model-name" }, say.withDraft(row.pair_name)) : "",
      row.note ? h("p", { class: "note" }, row.note) : "",
      h("p", { class: "tags" }, h("span", { class: `tag ${row.here ? "good" : "elsewhere"}` }, row.here ? say.here : say.away), ...tags.filter(Boolean).map((text) => h("span", { class: "tag" }, text)), row.gated ? h("span", { class: "tag warn", title: say.gatedHint }, say.gated) : null),
      h("p", { class: "hint source" }, row.path ?? row.source),
      row.recent ? h("button", { class: "ft-link", type: "button", title: say.forgetHint, on: { click: forget } }, say.forget) : "");
    if (row.files.length) this.files.refresh();
    const asked = `${row.pair} ${row.here} ${row.draft.id}`;
    if (asked === this.asked) return;
    this.asked = asked;
    this.bar.reckon(row.pair ? { pair: row.pair } : { target: row.id, draft: row.draft.id });
    this.drafts.refresh();
  }
}

// The drafts and heads for a model, and why others do not fit.
class Drafts {
  // `page` has ask(name, data), open(data), download(data), mark() and transfers; `reckon` shows the memory of a pair;
  // `context` returns the chosen context.
  constructor(page, target, reckon, context) {
    this.page = page;
    this.target = target;
    this.reckon = reckon;
    this.context = context;
    this.list = h("div", { class: "drafts" });
    this.node = h("section", { class: "why", "aria-label": say.draftersOf }, h("h3", {}, say.draftersOf), this.list);
    this.others = false; // whether the list of those that do not fit is open
    this.draw({ drafts: [], mtp: false, pending: true, here: false, error: null });
  }

  async refresh() {
    clearTimeout(this.timer);
    const answer = await this.page.ask("why_not", { target: this.target });
    if (!answer) return;
    this.draw(answer);
    if (answer.pending) this.timer = setTimeout(() => this.node.isConnected && this.refresh(), AGAIN_MS);
  }

  draw(known) {
    const shown = JSON.stringify(known);
    if (this.shown === shown) return;
    this.shown = shown;
    const { drafts, mtp, pending, here, error } = known;
    const fits = drafts.filter((draft) => !draft.reason);
    const rest = drafts.filter((draft) => draft.reason);
    const group = (title, among) => (among.length ? [h("h4", {}, title), h("ul", {}, ...among.map((draft) => this.line(draft)))] : []);
    const others = h("details", { class: "others", open: this.others }, h("summary", {}, `${say.groups.no} (${rest.length})`), h("ul", {}, ...rest.map((draft) => this.line(draft))));
    others.addEventListener("toggle", () => (this.others = others.open));
    this.list.replaceChildren(
      mtp ? h("ul", {}, h("li", { class: "yes" }, h("span", {}, h("b", {}, "✓ MTP"), " ", say.mtp))) : "",
      ...group(say.groups.heads, fits.filter((draft) => draft.kind !== "draft")),
      ...group(say.groups.same, fits.filter((draft) => draft.kind === "draft" && !draft.across)),
      ...group(say.groups.across, fits.filter((draft) => draft.across)),
      error ? h("p", { class: "ft-error" }, error) : h("div", {}, h("h4", {}, say.none), h("ul", {}, this.plain(here))),
      pending ? h("p", { class: "hint" }, say.comparing) : "",
      rest.length ? others : "");
    this.page.mark();
  }

  plain(here) {
    return h("li", { class: "yes" }, h("span", {}, say.noneBody), here ? this.load("plain", { target: this.target, draft: "" }, say.loadWithout) : null);
  }

  // Makes a button that loads `pair`.
  load(id, pair, label) {
    const own = pair.heads ? "" : JSON.stringify([pair.target, pair.draft]);
    return h("button", { class: "ft-button small", type: "button", dataset: { open: id, pair: own }, on: { click: () => this.page.open({ ...pair, context: this.context() }) } }, label);
  }

  // Makes the line of one draft, with a button if it fits.
  line(draft) {
    const how = draft.kind === "draft" ? say.fitsDraft(draft.across) : say.fitsHead(draft.kind, draft.name);
    if (draft.reason) return h("li", { class: "no" }, h("span", {}, h("b", {}, "✕ ", draft.name), " ", draft.reason));
    const pays = draft.break_even === null ? null : h("span", { class: "tag", title: say.breakEvenHint }, say.breakEven(draft.break_even));
    const speed = h("span", { class: draft.faster ? "tag good" : "tag", title: draft.measured ? say.triedHint : say.untriedHint }, draft.measured ?? say.untriedDraft);
    return h("li", { class: "yes" },
      h("span", {}, h("b", {}, "✓ ", draft.name), " ", how, " ", h("span", { class: "tags" }, draft.size ? h("span", { class: "tag" }, draft.size) : null, speed, pays)),
      h("span", { class: "acts" },
        h("button", { class: "ft-link", type: "button", "aria-label": say.reckonHint(draft.name), on: { click: () => this.reckon(draft.open) } }, say.reckon),
        draft.here
          ? this.load(draft.id, draft.open, say.loadWith)
          : draft.downloads.length ? h("button", { class: "ft-button small", type: "button", on: { click: () => this.page.download({ id: draft.id }) } }, say.download(draft.size)) : null));
  }
}

// The memory of a pair as a bar of its parts, with a slider for the context. Python computes it.
class FitBar {
  constructor(page) {
    this.page = page;
    this.sum = h("span", { class: "hint", role: "status" });
    this.bar = h("div", { class: "fitbar", role: "img", "aria-label": say.memory });
    this.legend = h("ul", { class: "fit-legend" });
    this.context = null;
    this.tokens = h("output", {});
    this.slider = h("input", { type: "range", min: String(STEP), step: String(STEP), "aria-label": say.contextLabel, on: { input: () => this.slid() } });
    this.control = h("label", { class: "fit-context" }, h("span", {}, say.contextLabel), this.slider, this.tokens);
    this.sentence = h("p", { class: "fit" });
    this.node = h("section", { class: "memory", "aria-label": say.memory }, h("div", { class: "memory-head" }, h("h3", {}, say.memory), this.sum), this.bar, this.legend, this.control, this.sentence);
    this.asked = 0; // number of the last request; only its answer counts
  }

  // Shows the memory of `pair` (as for `fit` in backend.py) with the chosen `context`.
  async reckon(pair, context = this.context ?? null) {
    [this.pair, this.context] = [pair, context];
    const asked = (this.asked += 1);
    const found = await this.page.ask("fit", { ...pair, context });
    if (!found || asked !== this.asked) return;
    this.node.classList.toggle("unknown", Boolean(found.error));
    this.sentence.textContent = found.error ?? found.sentence;
    this.sentence.className = `fit ${found.fits ?? ""}`;
    if (found.error) return;
    this.sum.textContent = [say.needs(found.needed, found.free), found.held && say.held(found.held)].filter(Boolean).join(", ");
    this.draw(found.parts);
    this.slider.max = String(Math.max(STEP, found.longest));
    this.slider.value = String(found.context);
    this.tokens.textContent = say.tokens(found.context);
    this.slider.setAttribute("aria-valuetext", say.tokens(found.context));
  }

  again() {
    if (this.pair) this.reckon(this.pair, this.context);
  }

  draw(parts) {
    const label = (part) => `${say.part(part.kind, part.role)} ${part.size}`;
    const kind = (part) => `${part.kind} ${["target", "draft", ""].includes(part.role) ? part.role : "head"}`;
    this.bar.setAttribute("aria-label", parts.map(label).join(", "));
    const width = (part) => (part.kind === "lacking" ? `width: ${100 * part.share}%` : `flex-grow: ${Math.max(part.share, 0.002)}`);
    this.bar.replaceChildren(...parts.map((part) => h("span", { class: `part ${kind(part)}`, style: width(part), title: part.name ? `${label(part)} (${part.name})` : label(part) })));
    this.legend.replaceChildren(...parts.map((part) => h("li", {}, h("i", { class: `part ${kind(part)}` }), label(part))));
  }

  slid() {
    const context = (this.context = Number(this.slider.value)); // at once: Load may be pressed before the answer comes
    this.tokens.textContent = say.tokens(context);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.reckon(this.pair, context), 60);
  }
}
