// The page and chat in the address, and navigation without loading anything again.

import { h } from "./dom.js";

const names = Object.keys(window.ForetokenPages ?? { chat: "" });

class Address {
  constructor() {
    this.watchers = [];
    this.latest = {}; // where each page was left
    window.addEventListener("popstate", () => this.tell());
  }

  get page() {
    const [, name] = location.pathname.split("/");
    return names.includes(name) ? name : names[0];
  }

  // The chat's id; null where the address names none.
  get chat() {
    const [, page, id] = location.pathname.split("/");
    return page === "chat" && /^\d+$/.test(id ?? "") ? Number(id) : null;
  }

  // True if the address names no page.
  get open() {
    return location.pathname === "/";
  }

  // `f` is called when another page or chat is to be shown.
  watch(f) {
    this.watchers.push(f);
  }

  // Returns the address at which a page was left.
  of(page) {
    return this.latest[page] ?? `/${page}`;
  }

  // Adds an entry to the history, or replaces the current one.
  go(path, { replace = false } = {}) {
    if (path === location.pathname) return;
    history[replace ? "replaceState" : "pushState"](null, "", path + location.search);
    this.tell();
  }

  tell() {
    const { page } = this;
    if (!this.open) this.latest[page] = location.pathname;
    document.documentElement.dataset.page = page;
    for (const f of this.watchers) f(page);
  }
}

export const address = new Address();

// Makes a link to `page`, where it was left.
export function pageLink(page, text, look = "ft-link") {
  return h("a", { class: look, href: `/${page}`, on: { click: (event) => (event.preventDefault(), address.go(address.of(page))) } }, text);
}

const pages = Object.entries(window.ForetokenPages ?? {}).map(([page, label]) => [`${label} page`, page]);

// Returns a sentence as nodes; a page's name, as "Models page", becomes a link.
export function linked(text) {
  const named = pages.find(([name]) => text.includes(name));
  if (!named) return text ? [text] : [];
  const [before, ...after] = text.split(named[0]);
  return [before, pageLink(named[1], named[0]), ...linked(after.join(named[0]))];
}
