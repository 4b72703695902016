// Forgetting everything that was asked: what it is, a question, and then nothing of it is left.

import { h } from "../../shared/dom.js";
import { drafts } from "../../shared/form/drafts.js";
import { status } from "../../shared/frame/status.js";
import { say } from "./words.js";

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
