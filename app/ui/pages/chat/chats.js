// The list of chats, newest first, with rename and delete.

import { h } from "../../shared/dom.js";
import { words } from "../../shared/words.js";

export class ChatList {
  constructor(root, page) {
    this.page = page;
    this.list = h("ul", { class: "chat-list" });
    root.replaceChildren(
      h("div", { class: "chats-head" }, h("h2", {}, words.chats),
        h("button", { class: "ft-button small", type: "button", dataset: { action: "new" }, title: "Alt+N", on: { click: () => page.newChat() } }, words.newChat)),
      this.list);
  }

  show(chats, current) {
    if (!chats.length) return this.list.replaceChildren(h("li", { class: "none" }, words.noChats));
    this.list.replaceChildren(...chats.map((chat) => this.item(chat, chat.id === current)));
  }

  item(chat, current) {
    const open = h("button", { class: "open", type: "button", "aria-current": current ? "true" : null, title: chat.title, on: { click: () => this.page.open(chat.id) } }, chat.title || words.untitled);
    const rename = h("button", { class: "tool", type: "button", title: words.rename, "aria-label": `${words.rename}: ${chat.title}`, on: { click: () => this.rename(item, chat) } }, "✎");
    const remove = h("button", { class: "tool", type: "button", title: words.remove, "aria-label": `${words.remove}: ${chat.title}` }, "✕");
    remove.addEventListener("click", () => {
      if (remove.classList.contains("sure")) return this.page.remove(chat.id);
      remove.classList.add("sure");
      remove.textContent = words.removeSure;
      setTimeout(() => (remove.classList.remove("sure"), (remove.textContent = "✕")), 3000);
    });
    const item = h("li", { class: current ? "current" : null, dataset: { chat: String(chat.id) } }, open, rename, remove);
    return item;
  }

  rename(item, chat) {
    const input = h("input", { class: "rename", type: "text", "aria-label": words.rename, maxlength: "120" });
    input.value = chat.title;
    let open = true;
    const close = (keep) => {
      if (!open) return;
      open = false;
      const title = input.value.trim();
      if (keep && title && title !== chat.title) this.page.rename(chat.id, title);
      else this.page.list();
    };
    input.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") close(true);
      if (event.key === "Escape") close(false);
    });
    input.addEventListener("blur", () => close(true));
    item.replaceChildren(input);
    input.focus();
    input.select();
  }
}
