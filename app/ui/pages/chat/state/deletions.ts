// Deletes chats and messages, and undoes that.

import { cut } from "../../../shared/format";
import { answered, away, reason } from "../../../shared/frame/server";
import type { Chat, ChatPage, Message } from "../types";

export class Deletions {
  count = 0; // of this page

  constructor(readonly page: ChatPage) {}

  async deleteChat(chat: Chat) {
    const answer = await this.page.change("delete_chat", { chat: chat.id });
    if (!answer) return;
    if (chat.id === this.page.state.chat) this.page.showChat(null);
    this.offerUndo(`Deleted “${cut(chat.title || "New chat", 40)}”.`, answer.deleted);
  }

  async deleteMessage(message: Message) {
    const { chat, messages } = this.page.state;
    const following = messages.length - 1 - messages.findIndex(({ id }) => id === message.id);
    const answer = await this.page.ask("delete_message", { chat, message: message.id });
    if (!answer) return;
    this.page.redraw(answer.chat);
    this.offerUndo(`Deleted this message${following ? ` and ${following} after it` : ""}.`, answer.deleted);
  }

  async clear() {
    if (!this.page.state.messages.length) return;
    const answer = await this.page.ask("clear_chat", { chat: this.page.state.chat });
    if (!answer) return;
    this.page.showChat(answer.chat);
    this.offerUndo("Chat cleared.", answer.deleted);
  }

  // `text` says what was deleted.
  offerUndo(text: string, deleted: number) {
    const take = async () => {
      try {
        this.page.take(await answered(this.page.server.restore({ deleted })));
      } catch (error) {
        if (away(error)) return false;
        this.page.fail(reason(error));
      }
      return true;
    };
    this.page.set({ toasts: [...this.page.state.toasts, { id: ++this.count, text, take, hidden: false }] });
  }

  // Undoes the last deletion of this page. Returns false if there is none.
  undoLast() {
    const last = this.page.state.toasts.at(-1);
    if (last) this.undo(last.id);
    return Boolean(last);
  }

  async undo(id: number) {
    const toast = this.page.state.toasts.find((each) => each.id === id);
    if (!toast) return;
    this.page.set({ toasts: this.page.state.toasts.filter((each) => each !== toast) }); // not twice
    if (!(await toast.take())) this.page.set({ toasts: [...this.page.state.toasts, { ...toast, hidden: true }] });
  }

  hideToast(id: number) {
    this.page.set({
      toasts: this.page.state.toasts.map((each) => (each.id === id ? { ...each, hidden: true } : each)),
    });
  }
}
