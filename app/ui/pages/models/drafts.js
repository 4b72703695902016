// What can draft for a model, and why the rest cannot: asked when people open the list.

import { h } from "../../shared/dom.js";
import { say } from "./words.js";

const AGAIN_MS = 700;

export class Drafts {
  // `page` has ask(name, data), which gives null where there is no answer, open(data) and mark().
  constructor(page) {
    this.page = page;
    this.open = new Set(); // keys of the lists that people opened: drawn anew, they stay open
    this.known = new Map(); // target -> what was said of its drafts
  }

  // The list for `target`, closed at first; `key` is one list's own.
  list(key, target, summary) {
    const box = h("div", { class: "drafts" });
    const details = h("details", { class: "why", open: this.open.has(key) }, h("summary", {}, summary), box);
    details.addEventListener("toggle", () => {
      if (!details.open) return void this.open.delete(key);
      this.open.add(key);
      this.explain(target, box, details);
    });
    return details;
  }

  async explain(target, box, details) {
    this.draw(target, box);
    const answer = await this.page.ask("why_not", { target });
    if (!answer) return;
    this.known.set(target, answer);
    this.draw(target, box);
    const again = () => details.open && details.isConnected && this.explain(target, box, details);
    if (answer.pending) setTimeout(again, AGAIN_MS);
  }

  draw(target, box) {
    const known = this.known.get(target) ?? { drafts: [], pending: true, error: null };
    const shown = JSON.stringify(known);
    if (box.dataset.shown === shown) return;
    box.dataset.shown = shown;
    const { drafts, pending, error } = known;
    box.replaceChildren(
      error ? h("p", { class: "ft-error" }, error) : h("ul", {}, ...drafts.map((draft) => this.line(target, draft))),
      pending ? h("p", { class: "hint" }, say.comparing) : !drafts.length && !error ? h("p", { class: "hint" }, say.noDrafts) : "");
    this.page.mark();
  }

  // One draft and whether it fits, with a button where both can be opened at once.
  line(target, draft) {
    const load = () => this.page.open({ target, draft: draft.id });
    return h("li", { class: draft.reason ? "no" : "yes" },
      h("span", {}, h("b", {}, draft.reason ? "✕ " : "✓ ", draft.name), " ", draft.reason ?? say.fitsDraft(draft.across)),
      draft.reason || !draft.here ? null
        : h("button", { class: "ft-button small", type: "button", dataset: { open: draft.id }, on: { click: load } }, say.loadWith));
  }
}
