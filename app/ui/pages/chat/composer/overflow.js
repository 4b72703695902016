// A chat that is longer than the context: what is left out of it, and what was to be sent goes once that is done.

import { Fitting } from "./fitting.js";

export class Overflow {
  constructor(page) {
    this.page = page;
    this.waiting = null; // what was too much to be sent
    this.dialog = new Fitting({ oldest: () => this.again({ ...this.waiting, drop: "oldest" }), leave: (ids) => this.leaveOut(ids) });
  }

  // Leaves out before it has to be.
  choose() {
    this.waiting = null; // what was not to be sent after all does not go now
    this.dialog.open(this.page.meter.warning.textContent, this.page.conversation.turns, false);
  }

  // Nothing was sent: what is to be left out is asked first.
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
