// Notices above the message box: errors, information with an undo, and advice on the loaded model.

import { h } from "../../shared/dom.js";
import { status } from "../../shared/frame/status.js";
import { say } from "./words.js";

export class Notices {
  constructor() {
    this.alert = h("div", { class: "ft-error notice", role: "alert", hidden: true });
    this.told = h("div", { class: "notice told", role: "status", hidden: true });
  }

  // Shows an error; one about loading goes away when loading ends.
  notice(text, ofLoading = false) {
    this.ofLoading = ofLoading;
    this.alert.textContent = text;
    this.alert.hidden = !text;
  }

  loadingEnded() {
    if (this.ofLoading) this.notice("");
  }

  // Hides the error if it still says `text`.
  over(text) {
    if (this.alert.textContent === text) this.notice("");
  }

  // Shows information, with a button that calls `undo` if there is one.
  tell(text, undo = null) {
    this.told.hidden = !text;
    if (this.told.firstChild?.textContent === text) return; // do not announce it again
    const button = undo && h("button", { class: "ft-link", type: "button", on: { click: undo } }, say.heldCancel);
    this.told.replaceChildren(...(text ? [h("span", {}, text), button ?? ""] : []));
  }

  clear() {
    this.notice("");
    this.tell("");
  }
}

const target = (title) => title.split(" + ")[0];

// Advises if the loaded model did not write this chat, or is a base model. Sending stays possible.
export class Advice {
  constructor(page) {
    this.page = page;
    this.text = h("span", {});
    this.load = h("button", { class: "ft-button small", type: "button", dataset: { act: "load-written" }, on: { click: () => this.start() } });
    this.node = h("div", { class: "notice advice", role: "status", hidden: true }, this.text, this.load);
  }

  show() {
    const { conversation, loaded: { pair, opening }, stream } = this.page;
    const last = conversation.replies.at(-1);
    this.writer = !opening && last?.model && (!pair || this.differs(last, pair)) ? last : null;
    const told = this.writer ? say.otherModel(this.writer.model, pair?.title) : pair?.base ? say.baseModel(pair.greeting) : "";
    this.node.hidden = !told || Boolean(stream.running);
    this.load.hidden = !this.writer;
    if (this.text.textContent !== told) this.text.textContent = told; // screen readers announce it once
    if (this.writer) this.load.textContent = say.loadWriter(this.writer.model);
  }

  // Older replies have only the model's name.
  differs({ pair, model }, loaded) {
    return pair ? pair.target !== loaded.target : target(model) !== target(loaded.title);
  }

  async start() {
    const { pair, model } = this.writer;
    const answer = await this.page.ask("load_written", { ...pair, model });
    if (answer?.error) this.page.notices.notice(answer.error, true);
    status.refresh();
  }
}
