// What can draft for a model, by kind, and why the rest cannot.

import { h } from "../../../shared/dom.js";
import { say } from "../words.js";

const AGAIN_MS = 700;

export class Drafts {
  // `page` has ask(name, data), open(data), download(data), mark() and transfers; `reckon` is called with a
  // pair whose memory people want to see; `context` tells the one that they chose.
  constructor(page, target, reckon, context) {
    this.page = page;
    this.target = target;
    this.reckon = reckon;
    this.context = context;
    this.list = h("div", { class: "drafts" });
    this.node = h("section", { class: "why", "aria-label": say.draftersOf }, h("h3", {}, say.draftersOf), this.list);
    this.others = false; // whether people opened those that do not fit
    this.draw({ drafts: [], pending: true, here: false, error: null });
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
    const { drafts, pending, here, error } = known;
    const fits = drafts.filter((draft) => !draft.reason);
    const rest = drafts.filter((draft) => draft.reason);
    const group = (title, among) => (among.length ? [h("h4", {}, title), h("ul", {}, ...among.map((draft) => this.line(draft)))] : []);
    const others = h("details", { class: "others", open: this.others }, h("summary", {}, `${say.groups.no} (${rest.length})`), h("ul", {}, ...rest.map((draft) => this.line(draft))));
    others.addEventListener("toggle", () => (this.others = others.open));
    this.list.replaceChildren(
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

  // A button that loads `pair`, which rests while that is loaded.
  load(id, pair, label) {
    const own = pair.heads ? "" : JSON.stringify([pair.target, pair.draft]);
    return h("button", { class: "ft-button small", type: "button", dataset: { open: id, pair: own }, on: { click: () => this.page.open({ ...pair, context: this.context() }) } }, label);
  }

  // One of them and whether it fits, with a button where both can be opened at once.
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
