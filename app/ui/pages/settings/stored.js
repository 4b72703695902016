// What the app stores: its folders, deleting everything that was asked, and diagnostics.

import { pageLink } from "../../shared/addresses.js";
import { copy, h } from "../../shared/dom.js";
import { drafts } from "../../shared/form/drafts.js";
import { status } from "../../shared/frame/status.js";
import { words } from "../../shared/words.js";
import { say } from "./words.js";

// The app's folders and their sizes.
export class Folders {
  constructor(page) {
    this.page = page;
    this.list = h("ul", { class: "places" }, h("li", { class: "hint" }, say.measuring));
    this.node = h("section", { class: "panel", dataset: { part: "folders" } }, h("h2", {}, say.folders), this.list);
  }

  async refresh() {
    const view = await this.page.ask("folders");
    if (view) this.list.replaceChildren(...view.folders.map((folder) => this.row(folder, view)));
  }

  row({ name, path, size, there }, { free, moved }) {
    const title = say.names[name];
    const copying = h("button", { class: "ft-button small", type: "button", dataset: { act: "copy-path" }, "aria-label": say.copyNamed(title), on: { click: () => copy(path, copying, words.copied) } }, words.copy);
    const opening = h("button", { class: "ft-button small", type: "button", disabled: !there, "aria-label": say.openNamed(title), on: { click: () => this.page.ask("open_folder", { name }) } }, say.open);
    const more = name === "models" ? pageLink("models", say.toModels) : null;
    return h("li", { dataset: { place: name } },
      h("div", { class: "place-head" }, h("b", {}, title), h("span", { class: "place-size" }, there ? size : say.absent), more),
      h("div", { class: "place-path" }, path),
      h("p", { class: "hint" }, moved[name] ? say.moved(moved[name]) : say.hints[name], name === "models" ? ` ${say.free(free)}` : ""),
      h("div", { class: "place-acts" }, copying, opening));
  }
}

// Deletes everything that was asked, after a confirmation.
export class Forgetting {
  constructor(page) {
    this.page = page;
    this.info = h("p", { class: "hint" });
    this.acts = h("div", { class: "buttons" });
    this.told = h("div", { class: "reload", role: "status", hidden: true });
    this.node = h("section", { class: "panel", dataset: { part: "forget" } }, h("h2", {}, say.forget), this.info, h("p", { class: "hint" }, say.forgetStays), this.acts, this.told);
    this.rest();
  }

  async refresh() {
    const asked = await this.page.ask("asked");
    if (asked) this.info.textContent = say.forgetInfo(asked);
  }

  rest() {
    this.acts.replaceChildren(h("button", { class: "ft-button", type: "button", dataset: { act: "forget" }, on: { click: () => this.question() } }, say.forgetAsk));
  }

  question() {
    const sure = h("button", { class: "ft-button sure", type: "button", dataset: { act: "forget-sure" }, on: { click: () => this.forget() } }, say.forgetSure);
    const back = h("button", { class: "ft-button", type: "button", on: { click: () => (this.rest(), this.acts.firstElementChild.focus()) } }, say.keep);
    this.acts.replaceChildren(sure, back);
    back.focus(); // Enter alone deletes nothing
  }

  async forget() {
    for (const button of this.acts.children) button.disabled = true;
    const answer = await this.page.ask("forget", {});
    this.rest();
    this.acts.firstElementChild.focus();
    if (!answer) return void this.refresh();
    drafts.forgetAll();
    window.dispatchEvent(new Event("foretoken-forgotten"));
    this.info.textContent = say.forgetInfo(answer);
    const again = h("button", { class: "ft-button small", type: "button", on: { click: () => (this.page.reload(), this.tell([say.forgotten])) } }, say.reloadNow);
    this.tell([`${say.forgotten} `, ...(answer.held ? [say.held, again] : [])]);
    status.refresh();
  }

  tell(parts) {
    this.told.hidden = false;
    this.told.replaceChildren(...parts.map((part) => (typeof part === "string" ? h("span", {}, part) : part)));
  }
}

// A report for a bug report, shown before it is sent.
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

  // Fetches the report. Returns false if the app does not answer.
  async look() {
    const answer = await this.page.ask("diagnostics");
    if (answer) this.text.textContent = answer.text;
    return Boolean(answer);
  }

  async copy() {
    if (await this.look()) await copy(this.text.textContent, this.button, words.copied);
  }
}
