// Leaves messages out of what the model is given, for a request that does not fit, and includes them again.

import type { ChatPage } from "./page";
import { NOTHING, type Message, type Request } from "../types";

export class LeavingOut {
  constructor(readonly page: ChatPage) {}

  // Questions with their replies, without messages that are left out.
  get turns() {
    const found: Message[][] = [];
    for (const message of this.page.state.messages.filter((each) => !each.left_out)) {
      if (message.role === "user" || !found.length) found.push([]);
      found.at(-1)?.push(message);
    }
    return found;
  }

  // Asks what to leave out, because `data` did not fit.
  full(data: Request, why: string) {
    const { messages } = this.page.state;
    const place = data.message ? messages.findIndex(({ id }) => id === data.message) : messages.length;
    const ahead = new Set(messages.slice(0, place));
    if (data.action !== "edit" && data.action !== "send") ahead.delete(messages[place - 1]); // its question is needed
    const turns = this.turns.map((turn) => turn.filter((each) => ahead.has(each))).filter((turn) => turn.length);
    this.page.set({ overflow: { why, turns, data } });
  }

  // Sends again what did not fit.
  again(data: Request) {
    if (data.action === "send") this.page.set({ draft: NOTHING }); // it was put back into the box
    this.page.sending.request(data);
  }

  // `then` is sent afterwards.
  async leaveOut(messages: number[], out = true, then: Request | null = null) {
    const chat = await this.page.ask("leave_out", { chat: this.page.state.chat, messages, out });
    if (!chat) return;
    this.page.redraw(chat);
    if (then) this.again(then);
  }

  includeAgain(message: Message) {
    const { messages } = this.page.state;
    const reply = messages[messages.findIndex(({ id }) => id === message.id) + 1];
    return this.leaveOut([message.id, ...(reply?.role === "assistant" ? [reply.id] : [])], false);
  }
}
