// The bar on top: a way past it, the pages, help, the switch between day and night; and whether the app is there.

import { address } from "./addresses.js";
import { h } from "./dom.js";
import { Shortcuts } from "./shortcuts.js";
import { status } from "./status.js";
import { words } from "./words.js";

const remembered = "foretoken.theme";

function dark(on) {
  document.body.classList.toggle("dark", on);
  document.documentElement.style.colorScheme = on ? "dark" : "light";
}

function chosen() {
  const asked = new URLSearchParams(location.search).get("__theme");
  if (asked === "dark" || asked === "light") return asked === "dark";
  const kept = localStorage.getItem(remembered);
  return kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeSwitch() {
  let applied = chosen();
  const settle = () => dark(applied);
  settle();
  // Gradio sets its own class once, when it has mounted.
  window.addEventListener("load", settle);
  new MutationObserver((_, observer) => document.querySelector(".ft-page") && (settle(), observer.disconnect())).observe(document.body, { childList: true, subtree: true });
  const turn = () => {
    applied = !document.body.classList.contains("dark");
    localStorage.setItem(remembered, applied ? "dark" : "light");
    settle();
  };
  return h("button", { class: "theme-toggle", type: "button", title: words.theme, "aria-label": words.theme, on: { click: turn } }, "◐");
}

// A click that only a link of this page is meant by: no new tab, no download.
const plain = (event) => event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;

function pages() {
  const links = Object.entries(window.ForetokenPages).map(([name, label]) => h("a", { role: "tab", href: `/${name}`, dataset: { page: name }, on: {
    click: (event) => {
      if (!plain(event)) return;
      event.preventDefault();
      address.go(address.of(name));
    },
  } }, label));
  const mark = () => {
    for (const link of links) {
      const here = link.dataset.page === address.page;
      link.setAttribute("aria-selected", String(here));
      link.href = address.of(link.dataset.page);
      if (here) link.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    document.title = `${window.ForetokenPages[address.page]} · Foretoken`;
  };
  address.watch(mark);
  mark();
  // Where the window is too narrow for a row, they stand in a menu.
  const list = h("div", { role: "tablist", id: "pages-list", "aria-label": words.pages }, ...links);
  const turn = (open) => (nav.classList.toggle("open", open), menu.setAttribute("aria-expanded", String(open)));
  const menu = h("button", { class: "pages-menu", type: "button", "aria-haspopup": "true", "aria-expanded": "false", "aria-controls": "pages-list", on: { click: () => turn(!nav.classList.contains("open")) } });
  const nav = h("nav", { class: "pages", "aria-label": words.pages }, menu, list);
  nav.addEventListener("keydown", (event) => event.key === "Escape" && nav.classList.contains("open") && (event.stopPropagation(), turn(false), menu.focus()));
  document.addEventListener("pointerdown", (event) => !nav.contains(event.target) && turn(false));
  const name = () => (turn(false), (menu.textContent = `${window.ForetokenPages[address.page]} ▾`));
  address.watch(name);
  name();
  return nav;
}

// To the message box, or where a page has none to the page itself.
function skip() {
  const past = () => {
    const page = document.getElementById(`${address.page}-page`);
    const goal = page.querySelector(".composer textarea") ?? page.querySelector("button:not(:disabled), a[href], input, textarea, select") ?? page;
    goal.focus();
  };
  return h("button", { class: "skip", type: "button", on: { click: past } }, words.skip);
}

export function brand() {
  const shortcuts = new Shortcuts();
  const away = h("p", { class: "away", role: "status", hidden: true });
  status.watchAway((gone) => {
    away.hidden = !gone;
    away.textContent = gone ? words.away : "";
  });
  document.body.prepend(
    h("header", { id: "brand" }, skip(),
      h("span", { class: "logo", "aria-hidden": true }, h("i", { class: "one" }), h("i", { class: "two" }), h("i", { class: "three" })),
      h("span", { class: "name" }, "Foretoken"),
      pages(), shortcuts.button, themeSwitch()),
    away, shortcuts.node);
}
