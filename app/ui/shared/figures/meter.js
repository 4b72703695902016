// How much of the context a conversation takes: a small bar with words, and a warning before it is full.

import { h } from "../dom.js";
import { words } from "../words.js";

const NEARLY = 0.85; // from here on it warns

export class ContextMeter {
  constructor() {
    this.fill = h("i", { class: "fill" });
    this.words = h("span", { class: "meter-words" });
    this.warning = h("span", { class: "meter-warning", role: "status" });
    this.bar = h("span", { class: "track", role: "meter", "aria-label": words.context.name, "aria-valuemin": "0" }, this.fill);
    this.node = h("div", { class: "context-meter", hidden: true }, this.bar, this.words, this.warning);
    this.used = null;
    this.limit = null;
  }

  // `limit`: what the loaded pair's context holds; null where nothing is loaded.
  setLimit(limit) {
    this.limit = limit ?? null;
    this.draw();
  }

  // The figures of the conversation's last reply: its prompt was all that came before.
  show(stats) {
    this.used = stats?.prompt_tokens ? stats.prompt_tokens + stats.completion_tokens : null;
    this.draw();
  }

  draw() {
    const { used, limit } = this;
    this.node.hidden = !used || !limit;
    if (this.node.hidden) return void this.warn("");
    const share = Math.min(used / limit, 1);
    this.fill.style.width = `${100 * share}%`;
    this.bar.setAttribute("aria-valuemax", String(limit));
    this.bar.setAttribute("aria-valuenow", String(Math.min(used, limit)));
    this.words.textContent = words.context.used(used, limit);
    this.node.dataset.state = share >= NEARLY ? "nearly" : "";
    this.warn(share === 1 ? words.context.full : share >= NEARLY ? words.context.nearly : "");
  }

  // Said once, not with every token: it is read out when it changes.
  warn(text) {
    if (this.warning.textContent !== text) this.warning.textContent = text;
  }
}
