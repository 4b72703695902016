// The list of chats, newest first: search, rename, export, import and delete.

import { h } from "../../shared/dom.js";
import { words } from "../../shared/words.js";
import { say } from "./words.js";

const tool = (label, sign, title, f) => h("button", { class: "tool", type: "button", title: label, "aria-label": `${label}: ${title}`, on: { click: f } }, sign);

// Hands a text to the browser as a file.
function save({ name, text }) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text])), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export class ChatList {
  constructor(root, page) {
    this.page = page;
    this.list = h("ul", { class: "chat-list" });
    this.search = h("input", { type: "search", class: "chat-search", placeholder: say.search, "aria-label": say.search, on: { input: () => this.find() } });
    const file = h("input", { type: "file", accept: ".json,application/json", hidden: true, on: { change: () => this.take(file) } });
    root.append(
      h("div", { class: "chats-head" }, h("h2", {}, words.chats),
        h("button", { class: "ft-button small", type: "button", dataset: { action: "new" }, title: "Alt+N", on: { click: () => page.newChat() } }, words.newChat)),
      this.search, this.list, file,
      h("button", { class: "ft-link import", type: "button", title: say.importHint, on: { click: () => file.click() } }, say.importChat));
  }

  show(chats, current) {
    this.chats = chats;
    this.current = current;
    this.draw();
  }

  draw() {
    const shown = this.found ? this.chats.filter((chat) => this.found.has(chat.id)) : this.chats;
    const none = this.found ? say.noneFound : words.noChats;
    if (!shown.length) return this.list.replaceChildren(h("li", { class: "none" }, none));
    this.list.replaceChildren(...shown.map((chat) => this.item(chat, chat.id === this.current)));
  }

  async find() {
    const text = this.search.value.trim();
    const found = text ? await this.page.ask("search_chats", { text }) : null;
    if (text !== this.search.value.trim()) return;
    this.found = found && new Set(found);
    this.draw();
  }

  async take(file) {
    const [chosen] = file.files;
    file.value = "";
    if (!chosen) return;
    const answer = await this.page.ask("import_chat", { text: await chosen.text() });
    if (answer) this.page.take(answer);
  }

  item(chat, current) {
    const title = chat.title || words.untitled;
    const open = h("a", { class: "open", href: `/chat/${chat.id}`, dir: "auto", "aria-current": current ? "page" : null, title, on: {
      click: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        this.page.open(chat.id);
      },
    } }, title);
    const remove = tool(words.remove, "✕", title, () => {
      if (remove.classList.contains("sure")) return this.page.remove(chat.id);
      remove.classList.add("sure");
      remove.textContent = words.removeSure;
      setTimeout(() => (remove.classList.remove("sure"), (remove.textContent = "✕")), 3000);
    });
    const exported = async (form) => {
      const file = await this.page.ask("export_chat", { chat: chat.id, form });
      if (file) save(file);
    };
    const menu = h("span", { class: "menu", hidden: true },
      ...["markdown", "json"].map((form) => h("button", { class: "ft-link", type: "button", dataset: { export: form }, on: { click: () => exported(form) } }, say[form])));
    const item = h("li", { class: current ? "current" : null, dataset: { chat: String(chat.id) } }, open,
      h("span", { class: "tools" },
        tool(words.rename, "✎", title, () => this.rename(item, chat)),
        tool(say.exportAs, "⇩", title, () => (menu.hidden = !menu.hidden)),
        remove),
      menu);
    return item;
  }

  rename(item, chat) {
    const input = h("input", { class: "rename", type: "text", "aria-label": words.rename, maxlength: "120", dir: "auto" });
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
