// The messages of the chat, or the welcome of an empty one; stays scrolled to the end while the reader is there.

import { Follow, h } from "../../../shared/dom.js";
import { MARKS_SHOWN } from "../../../shared/reply.js";
import { words } from "../../../shared/words.js";
import { AssistantMessage, UserMessage } from "./messages.js";
import { Nearby } from "./nearby.js";
import { welcome } from "./welcome.js";

export class Conversation {
  // `page` does what messages ask for (see message.js); `tour` may be offered in an empty chat.
  constructor(page, tour) {
    this.page = page;
    this.tour = tour;
    this.messages = [];
    this.stack = h("div", { class: "stack" });
    this.log = h("div", { class: "messages", role: "log", "aria-label": words.messages, tabindex: "0" }, this.stack);
    const pill = h("button", { class: "newest", type: "button", hidden: true }, words.newest);
    this.node = h("div", { class: "messages-frame" }, this.log, pill);
    this.scroll = new Follow(this.log, pill);
    this.nearby = new Nearby(this.log, this.scroll, () => this.messages);
    window.addEventListener(MARKS_SHOWN, () => this.nearby.drawn.forEach((message) => message.reply?.markAll()));
  }

  // Shows these messages; toEnd() draws those near the end.
  show(messages) {
    for (const message of this.messages) this.nearby.forget(message);
    this.messages = [];
    this.stack.replaceChildren();
    for (const message of messages) {
      const shown = this.append(message);
      if (shown.wanted) this.nearby.draw(shown);
      else shown.rest(null);
    }
  }

  append(message) {
    this.stack.querySelector(".empty")?.remove();
    const shown = message.role === "user" ? new UserMessage(message, this.page) : new AssistantMessage(message, this.page);
    this.messages.push(shown);
    this.stack.append(shown.node);
    return shown;
  }

  // Appends a new message and draws it; screen readers announce it.
  add(message) {
    const shown = this.append(message);
    this.nearby.draw(shown);
    return shown;
  }

  toEnd() {
    this.scroll.toEnd();
    this.nearby.look();
  }

  // Removes all messages except those with these ids.
  keep(ids) {
    const kept = new Set(ids);
    for (const message of this.messages.filter((each) => !kept.has(each.id))) {
      this.nearby.forget(message);
      message.node.remove();
    }
    this.messages = this.messages.filter((each) => kept.has(each.id));
  }

  // Shows the welcome of an empty chat; `loading` is the node with a load's progress, if there is one.
  showEmpty(loaded, loading) {
    const shown = JSON.stringify([loaded, !loaded && Boolean(loading)]);
    if (this.welcomed === shown && this.stack.querySelector(".empty")) return; // people may be choosing in it
    this.welcomed = shown;
    this.stack.replaceChildren(welcome(loaded, loading, (text) => this.page.act({ action: "send", text }), this.tour));
    this.log.scrollTop = 0;
    this.scroll.stuck = false; // show it from its heading on
  }

  // Calls `draw` and restores the scroll position.
  inPlace(draw) {
    const { scrollTop } = this.log;
    const heights = new Map(this.messages.map(({ id, node }) => [id, node.offsetHeight]));
    draw();
    this.scroll.stuck = false;
    for (const message of this.messages) if (!message.drawn) message.rest(heights.get(message.id));
    this.log.scrollTop = scrollTop;
    this.nearby.look();
  }

  get empty() {
    return !this.messages.length;
  }

  find(id) {
    return this.messages.find((m) => m.id === id);
  }

  get replies() {
    return this.messages.filter((m) => m instanceof AssistantMessage);
  }

  get lastQuestion() {
    return this.messages.findLast((m) => m instanceof UserMessage);
  }

  // Edits the last question. Returns false if there is none.
  editLast() {
    const last = this.lastQuestion;
    last?.edit();
    return Boolean(last);
  }

  // Questions with their replies, without messages that are left out.
  get turns() {
    const found = [];
    for (const message of this.messages.filter((m) => !m.leftOut)) {
      if (message instanceof UserMessage || !found.length) found.push([]);
      found.at(-1).push(message);
    }
    return found.map((turn) => turn.map(({ id, text }) => ({ id, text })));
  }
}
