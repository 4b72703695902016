// For a chat that is longer than the context: asks what to leave out, then sends what was waiting.

import { h } from "../../../shared/dom.js";
import { words } from "../../../shared/words.js";
import { say } from "../words.js";

const short = (text) => (text.length > 90 ? `${text.slice(0, 89)}…` : text);

// The dialog that leaves out the oldest turns, or those that are ticked. They stay in the chat and can be given again.
class Fitting {
  // `oldest()` leaves out as many of the oldest turns as necessary, `leave(ids)` the messages with these ids.
  constructor({ oldest, leave }) {
    this.leave = leave;
    this.head = h("h2", { id: "fitting-head" });
    this.why = h("p", {});
    this.list = h("ul", { class: "turns" });
    this.first = h("button", { class: "ft-button primary", type: "button", dataset: { act: "oldest" }, on: { click: () => (this.close(), oldest()) } }, say.dropOldest);
    this.chosen = h("button", { class: "ft-button", type: "button", dataset: { act: "chosen" }, on: { click: () => this.take() } }, say.dropChosen);
    this.node = h("dialog", { class: "fitting", "aria-labelledby": "fitting-head" },
      this.head, this.why, h("p", { class: "hint" }, say.fullHint), this.list,
      h("div", { class: "dialog-buttons" }, this.first, this.chosen,
        h("button", { class: "ft-button", type: "button", on: { click: () => this.close() } }, words.cancel)));
  }

  // `turns` are lists of messages; `sends`: a message waits to be sent.
  open(why, turns, sends) {
    this.head.textContent = say.fullHead[sends];
    this.why.textContent = why;
    this.first.hidden = !sends; // only a message to be sent says how many turns are too many
    this.chosen.textContent = sends ? say.dropChosen : say.leaveChosen;
    this.list.replaceChildren(...turns.map((turn) => {
      const box = h("input", { type: "checkbox", on: { change: () => this.count() } });
      box.ids = turn.map((message) => message.id);
      return h("li", {}, h("label", {}, box, h("span", { dir: "auto" }, short(turn[0].text))));
    }));
    this.count();
    if (!this.node.open) this.node.showModal();
  }

  get ticked() {
    return [...this.list.querySelectorAll("input:checked")];
  }

  count() {
    this.chosen.disabled = !this.ticked.length;
  }

  take() {
    const ids = this.ticked.flatMap((box) => box.ids);
    this.close();
    this.leave(ids);
  }

  close() {
    this.node.close();
  }
}

export class Overflow {
  constructor(page) {
    this.page = page;
    this.waiting = null; // the request that did not fit
    this.dialog = new Fitting({ oldest: () => this.again({ ...this.waiting, drop: "oldest" }), leave: (ids) => this.leaveOut(ids) });
  }

  // Opens the dialog before anything has to be left out.
  choose() {
    this.waiting = null; // drop a request that was abandoned
    this.dialog.open(this.page.meter.warning.textContent, this.page.conversation.turns, false);
  }

  // Asks what to leave out, because `data` did not fit.
  full(data, why) {
    const { messages, turns } = this.page.conversation;
    this.waiting = data;
    const place = data.message ? messages.findIndex((m) => m.id === data.message) : Infinity;
    const ahead = new Set(messages.slice(0, place).map((m) => m.id));
    if (data.action !== "edit") ahead.delete(messages[place - 1]?.id); // its question is needed
    const found = turns.map((turn) => turn.filter(({ id }) => ahead.has(id))).filter((turn) => turn.length);
    this.dialog.open(why, found, true);
  }

  async leaveOut(messages, out = true) {
    const chat = await this.page.ask("leave_out", { chat: this.page.chat, messages, out });
    const again = this.waiting;
    if (!chat) return;
    this.page.redraw(chat);
    if (again && out) this.again(again);
  }

  again(data) {
    this.waiting = null;
    this.page.sending.again(data);
  }

  giveAgain(message) {
    this.waiting = null;
    const { messages } = this.page.conversation;
    const reply = messages[messages.indexOf(message) + 1];
    return this.leaveOut([message.id, ...(reply?.role === "assistant" ? [reply.id] : [])], false);
  }
}
