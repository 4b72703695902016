// Folders in the list of chats: folded or not, renamed, deleted, and chats moved in and out by menu or by dragging.

import { h } from "../../../shared/dom.js";
import { words } from "../../../shared/words.js";
import { say } from "../words.js";

const kind = "application/x-foretoken-chat";

// Makes an input for a new name; `done(name)` is called with it, or with null if nothing changed.
export function nameInput(label, name, done) {
  const input = h("input", { class: "rename", type: "text", "aria-label": label, placeholder: label, maxlength: "120", dir: "auto" });
  input.value = name;
  let open = true;
  const close = (keep) => {
    if (!open) return;
    open = false;
    const text = input.value.trim();
    done(keep && text && text !== name ? text : null);
  };
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") close(true);
    if (event.key === "Escape") close(false);
  });
  input.addEventListener("blur", () => close(true));
  return input;
}

export class Folders {
  // `item(chat)` draws one chat.
  constructor(page, item) {
    this.page = page;
    this.item = item;
    this.all = [];
  }

  // Draws a section for each folder; during a search only those with results, unfolded.
  draw(chats, searching) {
    const holding = this.all.map((folder) => [folder, chats.filter((chat) => chat.folder === folder.id)]);
    return holding.filter(([, own]) => own.length || !searching).map(([folder, own]) => this.section(folder, own, folder.folded && !searching));
  }

  section(folder, chats, folded) {
    const { id, name } = folder;
    const turn = h("button", { class: "fold", type: "button", "aria-expanded": String(!folded), on: { click: () => this.page.change("change_folder", { folder: id, folded: !folded }) } },
      h("span", { class: "fold-sign", "aria-hidden": true }, folded ? "▸" : "▾"), h("span", { class: "folder-name", dir: "auto" }, name), h("span", { class: "hint" }, String(chats.length)));
    const tool = (label, sign, f) => h("button", { class: "tool", type: "button", title: label, "aria-label": `${label}: ${name}`, on: { click: f } }, sign);
    const head = h("div", { class: "folder-head" }, turn, h("span", { class: "tools" },
      tool(words.rename, "✎", () => this.rename(head, folder)),
      tool(say.deleteFolder, "✕", () => this.page.change("delete_folder", { folder: id }))));
    const list = h("ul", { hidden: folded }, ...chats.map(this.item));
    if (!chats.length) list.append(h("li", { class: "none" }, say.folderEmpty));
    const section = h("section", { class: "chat-folder", dataset: { folder: String(id) } }, head, list);
    this.takes(section, id);
    return section;
  }

  rename(head, folder) {
    const input = nameInput(words.rename, folder.name, async (name) => {
      input.remove();
      if (name) await this.page.change("change_folder", { folder: folder.id, name });
      this.page.list();
    });
    head.replaceChildren(input);
    input.focus();
    input.select();
  }

  // Makes the menu's choice of a folder for a chat.
  picker(chat, asNew) {
    const select = h("select", { "aria-label": say.moveTo, on: {
      change: () => (select.value === "new" ? asNew() : this.page.change("move_chat", { chat: chat.id, folder: select.value ? Number(select.value) : null })),
    } },
      h("option", { value: "" }, say.noFolder),
      ...this.all.map((folder) => h("option", { value: String(folder.id) }, folder.name)),
      h("option", { value: "new" }, `${say.newFolder}…`));
    select.value = String(this.all.some((folder) => folder.id === chat.folder) ? chat.folder : "");
    return h("label", { class: "move" }, `${say.moveTo} `, select);
  }

  drags(item, chat) {
    item.draggable = true;
    item.addEventListener("dragstart", (event) => {
      event.dataTransfer.setData(kind, String(chat.id));
      event.dataTransfer.effectAllowed = "move";
    });
  }

  takes(node, folder) {
    const ours = (event) => event.dataTransfer?.types.includes(kind);
    node.addEventListener("dragover", (event) => {
      if (!ours(event)) return;
      event.preventDefault();
      event.stopPropagation();
      node.classList.add("over");
    });
    node.addEventListener("dragleave", () => node.classList.remove("over"));
    node.addEventListener("drop", (event) => {
      node.classList.remove("over");
      if (!ours(event)) return;
      event.preventDefault();
      event.stopPropagation();
      this.page.change("move_chat", { chat: Number(event.dataTransfer.getData(kind)), folder });
    });
  }

  // A chat dropped beside the folders leaves its folder.
  takesBack(node) {
    this.takes(node, null);
  }
}
