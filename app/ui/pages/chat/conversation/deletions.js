// Deletes a chat, a message with all that follows, or all messages of a chat; each can be undone.

import { answered, away, reason } from "../../../shared/frame/server.js";
import { words } from "../../../shared/words.js";
import { Undo } from "./undo.js";
import { say } from "../words.js";

export class Deletions {
  constructor(page) {
    this.page = page;
    this.undo = new Undo();
  }

  async deleteChat(chat) {
    const answer = await this.page.change("delete_chat", { chat: chat.id });
    if (!answer) return;
    if (chat.id === this.page.chat) this.page.showChat(null);
    this.offer(say.chatDeleted(chat.title || words.untitled), answer);
  }

  async deleteMessage(message) {
    const { messages } = this.page.conversation;
    const following = messages.length - 1 - messages.indexOf(message);
    const answer = await this.page.ask("delete_message", { chat: this.page.chat, message: message.id });
    if (!answer) return;
    this.page.redraw(answer.chat);
    this.offer(say.messageDeleted(following), answer);
  }

  async clear() {
    if (this.page.conversation.empty) return;
    const answer = await this.page.ask("clear_chat", { chat: this.page.chat });
    if (!answer) return;
    this.page.showChat(answer.chat);
    this.offer(say.cleared, answer);
  }

  offer(text, { deleted }) {
    this.undo.offer(text, async () => {
      try {
        this.page.take(await answered(this.page.server.restore({ deleted })));
      } catch (error) {
        this.page.notices.notice(reason(error));
        return !away(error);
      }
      return true;
    });
  }
}
