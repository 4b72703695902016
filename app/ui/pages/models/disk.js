// The disk: what downloads take, deleting them, and models that cannot run.

import { h } from "../../shared/dom.js";
import { say } from "./words.js";

export class Disk {
  // `page` has ask(name, data) and refresh(data).
  constructor(page) {
    this.page = page;
    this.line = h("p", { class: "hint" });
    this.list = h("ul", { class: "kept" });
    this.token = h("p", { class: "hint" });
    this.error = h("p", { class: "ft-error", role: "alert", hidden: true });
    this.unusable = h("div");
    this.node = h("section", { class: "disk", "aria-label": say.disk }, h("h2", {}, say.disk), this.line, this.list, this.error, this.token, this.unusable);
  }

  async show(table) {
    this.showUnusable(table.unusable);
    const disk = await this.page.ask("disk");
    if (!disk || JSON.stringify(disk) === this.shown) return;
    this.shown = JSON.stringify(disk);
    this.line.textContent = say.diskLine(disk.total, disk.free, disk.folder);
    this.list.replaceChildren(...disk.kept.map((one) => this.kept(one)));
    this.token.replaceChildren(disk.token, disk.own_token
      ? h("button", { class: "ft-link", type: "button", on: { click: () => this.change("forget_token", {}) } }, say.forgetToken) : "");
  }

  kept(one) {
    const acts = h("span", { class: "acts" });
    const remove = () => h("button", { class: "ft-button small", type: "button", disabled: one.in_use, "aria-label": say.removeNamed(one.name), on: { click: ask } }, say.remove);
    const ask = () => {
      const sure = h("button", { class: "ft-button small sure", type: "button", on: { click: () => this.change("delete", { path: one.path }) } }, say.removeSure(one.size));
      acts.replaceChildren(sure, h("button", { class: "ft-button small", type: "button", on: { click: () => (acts.replaceChildren(remove()), acts.firstElementChild.focus()) } }, say.keep));
      sure.focus();
    };
    acts.append(remove());
    return h("li", { dataset: { kept: one.name } }, h("span", {}, h("b", {}, one.name), " ", h("span", { class: "tag" }, one.size), one.unfinished ? h("span", { class: "tag warn" }, say.unfinished) : null, one.in_use ? h("span", { class: "tag good" }, say.inUse) : null,
      h("span", { class: "hint source", title: one.path }, one.path)), acts);
  }

  showUnusable(models) {
    const lines = models.map((model) => h("li", { class: "no" }, h("b", {}, "✕ ", model.name), ` (${model.place}): `, model.reason));
    const before = this.unusable.querySelector("details")?.open ?? false;
    this.unusable.replaceChildren(models.length
      ? h("details", { class: "why unusable", open: before }, h("summary", {}, say.unusable(models.length)), h("ul", {}, ...lines)) : "");
  }

  async change(name, data) {
    const answer = await this.page.ask(name, data);
    this.error.textContent = answer?.error ?? "";
    this.error.hidden = !answer?.error;
    this.page.refresh();
  }
}
