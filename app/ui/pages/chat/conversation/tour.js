// A tour of five steps, offered once in an empty chat, and behind "?".

import { address } from "../../../shared/addresses.js";
import { h } from "../../../shared/dom.js";
import { words } from "../../../shared/words.js";
import { say } from "../words.js";

const remembered = "foretoken.tour";
const places = {
  picker: [".badge"],
  dial: [".msg.assistant:last-child .figures:not(:empty)", ".msg.assistant:last-child .dial:not([hidden])", ".composer"],
  rounds: [".drawer-tab[data-tab=rounds]", "[data-toggle=drawer]"],
  race: [".pages a[data-page=race]", ".pages-menu"],
  server: [".pages a[data-page=server]", ".pages-menu"],
}; // the first one that is visible

const seen = (node) => node?.getClientRects().length > 0;

export class Tour {
  constructor() {
    this.title = h("h2", { id: "tour-head", tabindex: "-1" });
    this.text = h("p", {});
    this.count = h("span", { class: "hint" });
    this.back = h("button", { class: "ft-button small", type: "button", on: { click: () => this.go(this.at - 1) } }, say.tour.back);
    this.next = h("button", { class: "ft-button small primary", type: "button", dataset: { act: "tour-next" }, on: { click: () => this.go(this.at + 1) } });
    this.node = h("div", { class: "tour", role: "dialog", "aria-labelledby": "tour-head", hidden: true, on: {
      keydown: (event) => event.key === "Escape" && (event.stopPropagation(), this.end()),
    } }, this.title, this.text,
    h("div", { class: "dialog-buttons" }, this.count, h("span", { class: "grow" }),
      h("button", { class: "ft-link", type: "button", dataset: { act: "tour-end" }, on: { click: () => this.end() } }, words.close), this.back, this.next));
    window.addEventListener("resize", () => this.place());
    window.addEventListener("foretoken-tour", () => {
      address.go(address.of("chat"));
      this.start();
    });
    address.watch((page) => page !== "chat" && !this.node.hidden && this.end());
  }

  // Returns the offer of the tour; null once it was answered.
  invitation() {
    if (localStorage.getItem(remembered)) return null;
    const node = h("p", { class: "invitation" }, say.tour.ask, " ",
      h("button", { class: "ft-link", type: "button", dataset: { act: "tour" }, on: { click: () => (node.remove(), this.start()) } }, say.tour.yes), " ",
      h("button", { class: "ft-link", type: "button", dataset: { act: "no-tour" }, on: { click: () => (node.remove(), this.end()) } }, say.tour.no));
    return node;
  }

  start() {
    this.cameFrom = document.activeElement;
    this.node.hidden = false;
    this.go(0);
  }

  go(step) {
    if (step >= say.tour.steps.length) return this.end();
    this.at = step;
    const { title, text } = say.tour.steps[step];
    this.title.textContent = title;
    this.text.textContent = text;
    this.count.textContent = say.tour.count(step + 1, say.tour.steps.length);
    this.back.hidden = step === 0;
    this.next.textContent = step + 1 === say.tour.steps.length ? say.tour.done : say.tour.next;
    this.place();
    this.title.focus({ preventScroll: true });
  }

  // Places the step beside its target, within the window.
  place() {
    this.target?.classList.remove("tour-target");
    if (this.node.hidden) return;
    const found = places[say.tour.steps[this.at].place].map((where) => document.querySelector(where));
    this.target = found.find(seen) ?? document.body;
    this.target.classList.add("tour-target");
    const goal = this.target.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.node;
    const below = goal.bottom + 12 + height <= innerHeight;
    const top = below ? goal.bottom + 12 : Math.max(goal.top - 12 - height, 8);
    this.node.style.top = `${top}px`;
    this.node.style.left = `${Math.max(8, Math.min(goal.left, innerWidth - width - 8))}px`;
  }

  // Ends the tour and never offers it again.
  end() {
    localStorage.setItem(remembered, "seen");
    const within = this.node.contains(document.activeElement);
    this.node.hidden = true;
    this.target?.classList.remove("tour-target");
    document.querySelector(".invitation")?.remove();
    if (within) (seen(this.cameFrom) ? this.cameFrom : document.querySelector(".composer textarea"))?.focus();
  }
}
