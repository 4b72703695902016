// The page and chat in the address, and navigation without loading anything again.

import { Watched } from "./store";

export const PAGES: Record<string, string> = window.ForetokenPages ?? { chat: "" }; // the pages' labels by name
export const LAB = ["race", "tune", "train", "plan"]; // the pages of the second row

const names = Object.keys(PAGES);

// Tells the page when another page or chat is to be shown.
class Address extends Watched<[page: string]> {
  latest: Record<string, string> = {}; // where each page was left

  constructor() {
    super();
    window.addEventListener("popstate", () => this.tell());
    // Gradio writes a title of its own once it has loaded.
    new MutationObserver(() => this.entitle()).observe(document.head, { childList: true, subtree: true });
  }

  get page() {
    const [, name] = location.pathname.split("/");
    return names.includes(name) ? name : names[0];
  }

  // The chat's id; null if the address names none.
  get chat() {
    const [, page, id] = location.pathname.split("/");
    return page === "chat" && /^\d+$/.test(id ?? "") ? Number(id) : null;
  }

  // True if the address names no page.
  get open() {
    return location.pathname === "/";
  }

  // Returns the address at which a page was left.
  of(page: string) {
    return this.latest[page] ?? `/${page}`;
  }

  // Adds an entry to the history, or replaces the current one.
  go(path: string, { replace = false } = {}) {
    if (path === location.pathname) return;
    history[replace ? "replaceState" : "pushState"](null, "", path + location.search);
    this.tell();
  }

  tell() {
    const { page } = this;
    if (!this.open) this.latest[page] = location.pathname;
    document.documentElement.dataset.page = page;
    this.entitle();
    super.tell(page);
  }

  entitle() {
    const title = `${PAGES[this.page]} · Foretoken`;
    if (document.title !== title) document.title = title;
  }
}

export const address = new Address();

// Returns a click listener that goes to a page without a reload; a click that opens a tab stays the browser's.
export const going = (page: string) => (event: MouseEvent) => {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  address.go(address.of(page));
};

// Splits a sentence at the names of pages, as in "Models page".
export function linkedParts(text: string): { text: string; page: string | null }[] {
  const pages = Object.fromEntries(Object.entries(PAGES).map(([page, label]) => [`${label} page`, page]));
  const named = new RegExp(`(${Object.keys(pages).join("|")})`);
  return text.split(named).map((part) => ({ text: part, page: pages[part] ?? null }));
}
