// The bar on top: a link past it, the pages, help, the theme; and a notice while the app does not answer.

import { address } from "../addresses.js";
import { h } from "../dom.js";
import { status } from "./status.js";
import { theme } from "./theme.js";
import { words } from "../words.js";

// Returns whether keys pressed in `node` write text.
export const typing = (node) => node?.matches?.("input, textarea, select, [contenteditable]");

// The dialog behind "?", which lists the keyboard shortcuts.
class Shortcuts {
  constructor() {
    const rows = words.shortcuts.map(([keys, what]) => h("div", {}, h("dt", {}, ...keys.map((key) => h("kbd", {}, key))), h("dd", {}, what)));
    this.node = h("dialog", { class: "shortcuts", "aria-label": words.shortcutsTitle },
      h("h2", {}, words.shortcutsTitle), h("dl", {}, ...rows),
      h("div", { class: "dialog-buttons" },
        h("button", { class: "ft-button", type: "button", dataset: { act: "tour" }, on: { click: () => this.tour() } }, words.takeTour),
        h("button", { class: "ft-button", type: "button", on: { click: () => this.node.close() } }, words.close)));
    this.node.addEventListener("click", (event) => event.target === this.node && this.node.close());
    this.button = h("button", { class: "help", type: "button", title: words.shortcutsTitle, "aria-label": words.shortcutsTitle, on: { click: () => this.open() } }, "?");
    document.addEventListener("keydown", (event) => {
      if (event.key !== "?" || typing(event.target)) return;
      event.preventDefault();
      this.open();
    });
  }

  tour() {
    this.node.close();
    window.dispatchEvent(new Event("foretoken-tour"));
  }

  open() {
    if (!this.node.open) this.node.showModal();
  }
}

function themeSwitch() {
  theme.begin();
  return h("button", { class: "theme-toggle", type: "button", title: words.theme, "aria-label": words.theme, on: { click: () => theme.choose(theme.dark ? "light" : "dark") } }, "◐");
}

// True for a plain click, which opens no new tab.
const plain = (event) => event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;

// Makes a link to a page, which navigates without a reload.
const leading = (name, attributes, text) => h("a", { href: `/${name}`, dataset: { page: name }, ...attributes, on: {
  click: (event) => {
    if (!plain(event)) return;
    event.preventDefault();
    address.go(address.of(name));
  },
} }, text);

const current = (link, here) => (here ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current"));

// The settings' link stands beside help and theme.
const SETTINGS = "settings";

function settings() {
  const label = window.ForetokenPages[SETTINGS];
  const link = leading(SETTINGS, { class: "gear", title: label, "aria-label": label }, "⚙");
  const mark = () => current(link, address.page === SETTINGS);
  address.watch(mark);
  mark();
  return link;
}

// Scrolls the bar of pages so that a link of it is in view.
function show(link) {
  const bar = link.closest(".pages"), [inner, outer] = [link, bar].map((each) => each.getBoundingClientRect());
  bar.scrollLeft += Math.min(0, inner.left - outer.left) + Math.max(0, inner.right - outer.right);
}

function pages() {
  const listed = Object.entries(window.ForetokenPages).filter(([name]) => name !== SETTINGS);
  const links = listed.map(([name, label]) => leading(name, {}, label));
  const mark = () => {
    for (const link of links) {
      const here = link.dataset.page === address.page;
      current(link, here);
      link.href = address.of(link.dataset.page);
      // Not scrollIntoView: in Chromium the first Tab of a page would then start at this link.
      if (here && link.isConnected) show(link);
    }
    document.title = `${window.ForetokenPages[address.page]} · Foretoken`;
  };
  address.watch(mark);
  mark();
  // In a narrow window they are a menu.
  const list = h("ul", { class: "pages-list", id: "pages-list" }, ...links.map((link) => h("li", {}, link)));
  const turn = (open) => (nav.classList.toggle("open", open), menu.setAttribute("aria-expanded", String(open)));
  const menu = h("button", { class: "pages-menu", type: "button", "aria-expanded": "false", "aria-controls": "pages-list", on: { click: () => turn(!nav.classList.contains("open")) } });
  const nav = h("nav", { class: "pages", "aria-label": words.pages }, menu, list);
  nav.addEventListener("keydown", (event) => event.key === "Escape" && nav.classList.contains("open") && (event.stopPropagation(), turn(false), menu.focus()));
  document.addEventListener("pointerdown", (event) => !nav.contains(event.target) && turn(false));
  const name = () => {
    if (nav.classList.contains("open") && list.contains(document.activeElement)) menu.focus(); // the link is hidden now
    turn(false);
    menu.textContent = `${window.ForetokenPages[address.page]} ▾`;
  };
  address.watch(name);
  name();
  return nav;
}

const BACK_MS = 4000; // how long it says that the app is back

// Makes the button that skips to the message box, or to the page's first control.
function skip() {
  const past = () => {
    const page = document.getElementById(`${address.page}-page`);
    const goal = page.querySelector(".composer textarea") ?? page.querySelector("button:not(:disabled), a[href], input, textarea, select") ?? page;
    goal.focus();
  };
  const button = h("button", { class: "skip", type: "button", on: { click: past } });
  const name = () => (button.textContent = address.page === "chat" ? words.skip : words.skipMenu);
  address.watch(name);
  name();
  return button;
}

// Makes the page's heading for screen readers.
function heading() {
  const node = h("h1", { class: "sr-only" });
  const name = () => (node.textContent = window.ForetokenPages[address.page]);
  address.watch(name);
  name();
  return node;
}

// Makes the bar that says that the app does not answer, and for a moment that it does again.
function awayBar() {
  const bar = h("p", { class: "away", role: "status", hidden: true });
  let over = null;
  // Pages begin below it.
  new ResizeObserver(() => document.documentElement.style.setProperty("--ft-away", `${bar.offsetHeight}px`)).observe(bar);
  status.watchAway((gone, stale) => {
    clearTimeout(over);
    bar.hidden = false;
    bar.classList.toggle("back", !gone);
    bar.textContent = stale ? `${words.stale} ` : gone ? words.away : words.back;
    if (stale) bar.append(h("button", { class: "ft-button small", type: "button", on: { click: () => location.reload() } }, words.reload));
    if (!gone) over = setTimeout(() => (bar.hidden = true), BACK_MS);
  });
  return bar;
}

export function brand() {
  const shortcuts = new Shortcuts();
  const away = awayBar();
  document.body.prepend(
    h("header", { id: "brand" }, skip(),
      h("span", { class: "logo", "aria-hidden": true }, h("i", { class: "one" }), h("i", { class: "two" }), h("i", { class: "three" })),
      h("span", { class: "name" }, "Foretoken"),
      heading(), pages(), shortcuts.button, settings(), themeSwitch()),
    away, shortcuts.node);
}
