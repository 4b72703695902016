// The models page: what is loaded now, what lies on this machine, a path, and the catalog as cards.

import { h } from "../../shared/dom.js";
import { Loading } from "../../shared/loading.js";
import { register } from "../../shared/pages.js";
import { answered, reason } from "../../shared/server.js";
import { status } from "../../shared/status.js";
import { words } from "../../shared/words.js";
import { Drafts } from "./drafts.js";
import { Found } from "./found.js";
import { say } from "./words.js";

class ModelsPage {
  constructor({ element, server }) {
    this.server = server;
    this.lines = h("div");
    this.loading = new Loading(() => this.cancel());
    this.told = h("span");
    this.alert = h("div", { class: "ft-error", role: "alert", hidden: true }, this.told,
      h("button", { class: "ft-link", type: "button", "aria-label": say.dismiss, on: { click: () => this.fail("") } }, "✕"));
    this.now = h("section", { class: "now", "aria-label": say.now }, this.lines);
    const news = h("div", { class: "news" }, this.loading.node, this.alert);
    this.drafts = new Drafts(this);
    this.found = new Found(this);
    this.cards = h("div", { class: "cards" });
    this.memory = h("p", { class: "hint" });
    element.querySelector(".ft-models").replaceChildren(
      this.now, news, this.found.node, this.folder(), h("div", { class: "cards-head" }, h("h2", {}, say.catalog), this.memory), this.cards);
    status.watch((latest) => this.show(latest), server.status);
    this.refresh();
    // Each time the page comes into sight; of several changes that are told together, the last counts.
    new IntersectionObserver((entries) => entries.at(-1).isIntersecting && this.found.refresh({ look: true })).observe(this.now);
  }

  // The answer; null where there is none, which is said.
  async ask(name, data = {}) {
    try {
      return await answered(this.server[name](data));
    } catch (error) {
      this.fail(reason(error));
      return null;
    }
  }

  async refresh() {
    const catalog = await this.ask("catalog");
    if (!catalog) return;
    this.memory.textContent = catalog.memory;
    this.cards.replaceChildren(
      ...catalog.problems.map((problem) => h("p", { class: "ft-error" }, problem)),
      ...catalog.pairs.map((pair) => this.card(pair)));
    this.mark();
  }

  show(latest) {
    const { loaded, opening, failed } = latest;
    const lines = [];
    if (loaded) lines.push(h("p", { class: "now-name" }, loaded.label), ...loaded.detail.split("\n").map((line) => h("p", { class: "hint" }, line)));
    else if (!opening) lines.push(h("p", { class: "now-name" }, words.noModel));
    this.lines.replaceChildren(h("h2", {}, say.now), ...lines);
    this.loading.show(latest);
    // A failure is told once: people may have dismissed it, or pressed something else since.
    const told = opening ? null : failed;
    if (opening || told !== this.failed) this.fail(told ?? "");
    this.failed = told;
    const settled = this.wasOpening && !opening;
    this.wasOpening = Boolean(opening);
    this.loaded = loaded;
    if (settled) this.refresh();
    else this.mark();
  }

  // Buttons rest while something is being opened; the loaded pair says so.
  mark() {
    for (const card of this.cards.querySelectorAll(".card")) card.classList.toggle("loaded", card.dataset.name === this.loaded?.name);
    for (const row of document.querySelectorAll(".found-row")) row.classList.toggle("loaded", row.dataset.target === this.loaded?.target);
    for (const button of document.querySelectorAll(".ft-models [data-open]")) button.disabled = Boolean(this.wasOpening);
  }

  fail(text) {
    this.told.textContent = text;
    this.alert.hidden = !text;
  }

  async cancel() {
    await this.ask("cancel_loading");
    status.refresh();
  }

  async open(data) {
    this.fail("");
    const answer = await this.ask("open", data);
    if (answer?.error) this.fail(answer.error);
    status.refresh();
  }

  folder() {
    const field = (label, hint, name) => {
      const input = h("input", { type: "text", placeholder: hint, spellcheck: "false", name });
      return [h("label", {}, h("span", {}, label), input), input];
    };
    const [targetLabel, target] = field(say.folder, say.folderHint, "folder");
    const [draftLabel, draft] = field(say.folderDraft, say.folderDraftHint, "draft");
    return h("form", { class: "folder", on: { submit: (event) => (event.preventDefault(), this.open({ folder: target.value, draft: draft.value })) } },
      h("h2", {}, say.openFolder), targetLabel, draftLabel,
      h("button", { class: "ft-button", type: "submit", dataset: { open: "folder" } }, say.open),
      h("p", { class: "hint" }, say.folderInfo));
  }

  card(pair) {
    const model = (m) => h("div", { class: "model" },
      h("p", { class: "role" }, m.role),
      h("p", { class: "model-name" }, m.name),
      h("p", { class: "hint source" }, m.source),
      h("p", { class: "tags" },
        ...[m.parameters && say.parameters(m.parameters), m.size, m.context && say.context(m.context), m.licence].filter(Boolean).map((text) => h("span", { class: "tag" }, text)),
        m.gated ? h("span", { class: "tag warn", title: say.gatedHint }, say.gated) : null,
        h("span", { class: `tag ${m.here ? "good" : "away"}` }, m.here ? say.here : say.away)),
      m.note ? h("p", { class: "hint" }, m.note) : null);
    const label = pair.missing ? say.download(pair.missing) : say.load;
    return h("article", { class: "card", dataset: { pair: pair.id, name: pair.name } },
      h("header", {}, h("h3", {}, pair.name), h("span", { class: "loaded-tag" }, say.loadedNow)),
      pair.note ? h("p", { class: "note" }, pair.note) : null,
      h("div", { class: "models" }, ...pair.models.map(model)),
      h("p", { class: `fit ${pair.fits ?? ""}` }, say.fitMarks[pair.fits] ?? "", pair.fit),
      this.drafts.list(pair.id, pair.target, say.why),
      h("footer", {}, h("button", { class: "ft-button primary", type: "button", dataset: { open: pair.id }, on: { click: () => this.open({ pair: pair.id }) } }, label)));
  }
}

register("models", ModelsPage);
