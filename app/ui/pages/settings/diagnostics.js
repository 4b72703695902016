// What to send along with a report of a fault, to be read before it is sent.

import { copy, h } from "../../shared/dom.js";
import { words } from "../../shared/words.js";
import { say } from "./words.js";

export class Diagnostics {
  constructor(page) {
    this.page = page;
    this.text = h("pre", { class: "report", tabindex: "0", "aria-label": say.diagnostics });
    this.details = h("details", { on: { toggle: () => this.details.open && this.look() } }, h("summary", {}, say.showDiagnostics), this.text);
    this.button = h("button", { class: "ft-button", type: "button", dataset: { act: "copy-diagnostics" }, on: { click: () => this.copy() } }, say.copyDiagnostics);
    this.node = h("section", { class: "panel", dataset: { part: "diagnostics" } }, h("h2", {}, say.diagnostics), h("p", { class: "hint" }, say.diagnosticsHint), h("div", { class: "buttons" }, this.button), this.details);
  }

  async refresh() {
    if (this.details.open) await this.look();
  }

  // As it is now; false where the app does not answer.
  async look() {
    const answer = await this.page.ask("diagnostics");
    if (answer) this.text.textContent = answer.text;
    return Boolean(answer);
  }

  async copy() {
    if (await this.look()) await copy(this.text.textContent, this.button, words.copied);
  }
}
