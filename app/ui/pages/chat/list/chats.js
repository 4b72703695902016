// The list of chats: folders, then days, newest first; search, rename, move, export, import and delete.

import { h, saveFile } from "../../../shared/dom.js";
import { words } from "../../../shared/words.js";
import { Folders, nameInput } from "./folders.js";
import { say } from "../words.js";

const tool = (label, sign, title, f) => h("button", { class: "tool", type: "button", title: label, "aria-label": `${label}: ${title}`, on: { click: f } }, sign);

const DAY = 86_400_000;
const months = new Intl.DateTimeFormat("en", { month: "long", year: "numeric" });

// Returns [name, chats] for each day or span; `chats` are newest first, and `updated` is in seconds.
function byDay(chats, now) {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const name = (updated) => {
    const at = updated * 1000;
    if (at >= midnight) return say.today;
    if (at >= midnight - DAY) return say.yesterday;
    if (at >= midnight - 7 * DAY) return say.week;
    if (at >= midnight - 30 * DAY) return say.month;
    return months.format(at);
  };
  const found = new Map();
  for (const chat of chats) {
    const day = name(chat.updated);
    if (!found.has(day)) found.set(day, []);
    found.get(day).push(chat);
  }
  return [...found];
}

export class ChatList {
  constructor(root, page) {
    this.page = page;
    this.list = h("div", { class: "chat-list" });
    this.folders = new Folders(page, (chat) => this.item(chat));
    this.folders.takesBack(this.list);
    this.search = h("input", { type: "search", class: "chat-search", placeholder: say.search, "aria-label": say.search, on: { input: () => this.find() } });
    const file = h("input", { type: "file", accept: ".json,application/json", hidden: true, on: { change: () => this.take(file) } });
    root.append(
      h("div", { class: "chats-head" }, h("h2", {}, words.chats),
        h("button", { class: "ft-button small", type: "button", dataset: { action: "new" }, title: "Alt+N", on: { click: () => page.newChat() } }, words.newChat)),
      this.search, this.list, file,
      h("div", { class: "list-actions" },
        h("button", { class: "ft-link", type: "button", dataset: { action: "new-folder" }, on: { click: () => this.newFolder() } }, say.newFolder),
        h("button", { class: "ft-link import", type: "button", title: say.importHint, on: { click: () => file.click() } }, say.importChat)));
  }

  show({ chats, folders }, current) {
    this.chats = chats;
    this.folders.all = folders;
    this.current = current;
    if (!this.list.querySelector(".rename")) this.draw(); // not while a name is being written
  }

  draw() {
    const shown = this.found ? this.chats.filter((chat) => this.found.has(chat.id)) : this.chats;
    const known = new Set(this.folders.all.map((folder) => folder.id));
    const loose = shown.filter((chat) => !known.has(chat.folder));
    const days = byDay(loose, new Date()).map(([name, chats]) =>
      h("section", { class: "day" }, h("h3", {}, name), h("ul", {}, ...chats.map((chat) => this.item(chat)))));
    const none = shown.length ? null : h("p", { class: "none" }, this.found ? say.noneFound : words.noChats);
    const focused = document.activeElement?.closest?.("[data-chat]")?.dataset.chat;
    this.list.replaceChildren(...this.folders.draw(shown, Boolean(this.found)), ...days, ...(none ? [none] : []));
    if (focused && !this.list.contains(document.activeElement)) this.list.querySelector(`[data-chat="${focused}"] .open`)?.focus();
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

  item(chat) {
    const current = chat.id === this.current;
    const title = chat.title || words.untitled;
    const open = h("a", { class: "open", href: `/chat/${chat.id}`, dir: "auto", draggable: "false", "aria-current": current ? "page" : null, title, on: {
      click: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        this.page.open(chat.id);
      },
    } }, title);
    const menu = h("div", { class: "menu", hidden: true });
    const more = tool(say.more, "⋯", title, () => {
      menu.hidden = !menu.hidden;
      if (!menu.hidden) menu.replaceChildren(...this.menu(chat));
    });
    const item = h("li", { class: current ? "current" : null, dataset: { chat: String(chat.id) } }, open,
      h("span", { class: "tools" },
        tool(words.rename, "✎", title, () => this.rename(item, chat)),
        more,
        tool(words.remove, "✕", title, () => this.page.deletions.deleteChat(chat))),
      menu);
    this.folders.drags(item, chat);
    return item;
  }

  menu(chat) {
    const exported = async (form) => {
      const file = await this.page.ask("export_chat", { chat: chat.id, form });
      if (file) saveFile(file.name, file.text);
    };
    return [
      this.folders.picker(chat, () => this.newFolder(chat.id)),
      ...["markdown", "json"].map((form) => h("button", { class: "ft-link", type: "button", dataset: { export: form }, on: { click: () => exported(form) } }, say[form])),
    ];
  }

  // Makes a folder, and moves this chat into it if one is given.
  newFolder(chat = null) {
    const input = nameInput(say.folderName, "", async (name) => {
      input.remove();
      if (name) await this.page.change("new_folder", { name, chat });
      this.draw();
    });
    this.list.prepend(input);
    input.focus();
  }

  rename(item, chat) {
    const input = nameInput(words.rename, chat.title, async (title) => {
      input.remove();
      if (title) await this.page.change("rename_chat", { chat: chat.id, title });
      this.draw();
    });
    item.replaceChildren(input);
    input.focus();
    input.select();
  }
}
