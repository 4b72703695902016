// What all messages of a conversation have in common: an article, which holds the message while it is near what is
// seen, and its text alone otherwise; see nearby.js.

import { h } from "../../../shared/dom.js";
import { say } from "../words.js";

export const action = (name, label, f, title = null) => h("button", { class: "ft-link", type: "button", title, dataset: { action: name }, on: { click: f } }, label);

// Arrows between the messages that could stand in this place; null where there is one.
export function branches({ id, beside }, page) {
  if (!(beside?.length > 1)) return null;
  const here = beside.indexOf(id);
  const arrow = (step, sign, label) => {
    const goal = beside[here + step];
    return h("button", { class: "ft-link", type: "button", "aria-label": label, title: label, disabled: goal === undefined, dataset: { branch: step < 0 ? "before" : "after" }, on: { click: () => page.showBranch(goal, step) } }, sign);
  };
  return h("span", { class: "branches", role: "group", "aria-label": say.versions },
    arrow(-1, "‹", say.versionBefore), h("span", {}, `${here + 1}/${beside.length}`), arrow(1, "›", say.versionAfter));
}

// `page` does what a message's buttons ask for: act(data), showBranch(id, step), openRounds(message),
// giveAgain(message) and removeMessage(message). It shows notice(why), and is told when a reply has grown().
//
// Those that are made of it have a `text`, fill(), which puts what people see into `node`, empty(), which lets go of it,
// and `wanted`, whether it must not be let go of now.
export class Message {
  constructor(message, page) {
    this.id = message.id;
    this.page = page;
    this.role = message.role;
    this.beside = message.beside ?? [];
    this.drawn = false;
    this.scattered = false; // what is left of it lies where it was written, see nearby.js
    this.node = h("article", { class: `msg ${message.role}`, dataset: { id: String(message.id ?? "") } });
    this.leaveOut(Boolean(message.left_out));
  }

  draw() {
    if (this.drawn) return;
    this.drawn = true;
    this.scattered = false;
    this.node.style.height = "";
    this.node.classList.remove("far");
    this.fill();
    this.showLeftOut();
  }

  // Its text stays, to be searched and copied, at the height that the message had; where nobody knows that, it is null.
  rest(height) {
    if (this.drawn) this.empty();
    this.scattered ||= this.drawn;
    this.drawn = false;
    this.node.classList.add("far");
    this.node.setAttribute("aria-live", "off"); // it is not news when it is drawn again
    this.node.style.height = height ? `${height}px` : "";
    this.node.replaceChildren(h("div", { class: "body", dir: "auto" }, this.text));
  }

  // In another place of the memory.
  renew() {
    const fresh = this.node.cloneNode(true);
    this.node.replaceWith(fresh);
    this.node = fresh;
    this.scattered = false;
  }

  // Whether people hold it: what they write in, or have selected, stays.
  get held() {
    const selection = getSelection();
    return this.wanted || this.node.contains(document.activeElement) || (!selection.isCollapsed && selection.containsNode(this.node, true));
  }

  // Whether models are given it; `again` gives it to them again.
  leaveOut(out) {
    this.leftOut = out;
    this.node.classList.toggle("left-out", out);
    if (this.drawn) this.showLeftOut();
  }

  showLeftOut() {
    this.note?.remove();
    this.note = null;
    if (!this.leftOut || this.role !== "user") return;
    this.note = h("div", { class: "left-note" }, say.leftOut, " ", action("give", say.giveAgain, () => this.page.giveAgain(this)));
    this.node.append(this.note);
  }
}
