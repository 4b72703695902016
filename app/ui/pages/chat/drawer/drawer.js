// The drawer on the right with two tabs, Rounds and Settings. On a phone it covers the chat.

import { h } from "../../../shared/dom.js";
import { Tabs } from "../../../shared/form/tabs.js";
import { words } from "../../../shared/words.js";
import { say } from "../words.js";

const narrow = matchMedia("(max-width: 699px)");
const drawn = matchMedia("(max-width: 1079px)"); // the list of chats is a drawer too

export class Drawer {
  // `panes` are the nodes by their names: rounds, settings.
  constructor(root, panes) {
    this.root = root;
    this.tabs = new Tabs(panes, words, say.drawer, (name) => this.tabs.show(name));
    const close = h("button", { class: "ft-link drawer-close", type: "button", "aria-label": say.close, title: say.close, on: { click: () => this.hide() } }, "✕");
    this.node = h("aside", { class: "drawer", "aria-label": say.drawer }, h("div", { class: "drawer-head" }, this.tabs.node, close), ...Object.values(panes));
    this.toggle = h("button", { class: "ft-button small", type: "button", dataset: { toggle: "drawer" }, title: say.drawer, "aria-label": `${say.drawerShort}: ${say.drawer}`, on: { click: () => (this.shown ? this.hide() : this.open()) } }, say.drawerShort);
    this.chats = h("button", { class: "ft-button small", type: "button", dataset: { toggle: "side" }, on: { click: () => this.openChats(!root.classList.contains("side-open")) } }, say.skipChats);
    this.tabs.show("rounds");
    this.set(!narrow.matches);
    narrow.addEventListener("change", () => this.set(!narrow.matches));
    this.openChats(false);
  }

  // Opens the drawer at this tab.
  show(name) {
    this.tabs.show(name);
    this.open();
  }

  open() {
    this.openChats(false);
    this.set(true);
  }

  hide() {
    this.set(false);
    this.toggle.focus();
  }

  set(shown) {
    this.shown = shown;
    this.root.classList.toggle("drawer-open", shown);
    this.toggle.setAttribute("aria-expanded", String(shown));
  }

  openChats(open) {
    if (open && narrow.matches) this.set(false);
    this.root.classList.toggle("side-open", open);
    this.chats.setAttribute("aria-expanded", String(open || !drawn.matches));
  }

  // Closes what covers the conversation. Returns whether anything did.
  uncover() {
    const covered = this.root.classList.contains("side-open") || (this.shown && narrow.matches);
    this.openChats(false);
    if (narrow.matches) this.set(false);
    return covered;
  }
}
