// One model's card: what it is, what it takes of memory, and what can draft for it.

import { h } from "../../../shared/dom.js";
import { Drafts } from "./drafts.js";
import { FitBar } from "./fitbar.js";
import { say } from "../words.js";

export class Details {
  constructor(page, id) {
    this.page = page;
    this.facts = h("div", { class: "facts" });
    this.bar = new FitBar(page);
    this.drafts = new Drafts(page, id, (pair) => this.bar.reckon(pair), () => this.bar.context);
    this.node = h("article", { class: "card", dataset: { target: id } }, this.facts, this.bar.node, this.drafts.node);
  }

  // People see it again: what was asked for may have been left unfinished, and memory and speeds be others since.
  opened() {
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
    const asked = `${row.pair} ${row.here} ${row.draft.id}`;
    if (asked === this.asked) return;
    this.asked = asked;
    this.bar.reckon(row.pair ? { pair: row.pair } : { target: row.id, draft: row.draft.id });
    this.drafts.refresh();
  }
}
