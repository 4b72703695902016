// What is said above the message box: mistakes, what is no mistake and may be taken back, and what would answer next.

import { h } from "../../shared/dom.js";
import { status } from "../../shared/frame/status.js";
import { say } from "./words.js";

export class Notices {
  constructor() {
    this.alert = h("div", { class: "ft-error notice", role: "alert", hidden: true });
    this.told = h("div", { class: "notice told", role: "status", hidden: true });
  }

  // One that is about loading goes away when loading ends.
  notice(text, ofLoading = false) {
    this.ofLoading = ofLoading;
    this.alert.textContent = text;
    this.alert.hidden = !text;
  }

  loadingEnded() {
    if (this.ofLoading) this.notice("");
  }

  // Takes `text` away, where it is what was said last.
  over(text) {
    if (this.alert.textContent === text) this.notice("");
  }

  // What is no mistake; `undo` takes it back, where it can be.
  tell(text, undo = null) {
    this.told.hidden = !text;
    if (this.told.firstChild?.textContent === text) return; // it is not said again
    const button = undo && h("button", { class: "ft-link", type: "button", on: { click: undo } }, say.heldCancel);
    this.told.replaceChildren(...(text ? [h("span", {}, text), button ?? ""] : []));
  }

  clear() {
    this.notice("");
    this.tell("");
  }
}

const target = (title) => title.split(" + ")[0];

// Another model than the one that wrote this chat, or one that cannot hold a conversation. Nobody is kept from sending.
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
    if (this.text.textContent !== told) this.text.textContent = told; // it is read out once
    if (this.writer) this.load.textContent = say.loadWriter(this.writer.model);
  }

  // Of older replies the name alone is known.
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
