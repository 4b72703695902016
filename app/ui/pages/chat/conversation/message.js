// A message of a conversation: an article that holds the whole message near the view, and only its text elsewhere; see
// nearby.js.

import { h } from "../../../shared/dom.js";
import { say } from "../words.js";

export const action = (name, label, f, title = null) => h("button", { class: "ft-link", type: "button", title, dataset: { action: name }, on: { click: f } }, label);

// Makes arrows between the versions of a message; null if there is one version.
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
// A subclass has `text`, fill(), which draws the message into `node`, empty(), which drops what fill() made, and
// `wanted`: it must stay drawn now.
export class Message {
  constructor(message, page) {
    this.id = message.id;
    this.page = page;
    this.role = message.role;
    this.beside = message.beside ?? [];
    this.drawn = false;
    this.scattered = false; // its nodes are scattered over memory, see nearby.js
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

  // Leaves only the text, for search and copying, at the height the message had (null if unknown).
  rest(height) {
    if (this.drawn) this.empty();
    this.scattered ||= this.drawn;
    this.drawn = false;
    this.node.classList.add("far");
    this.node.setAttribute("aria-live", "off"); // screen readers must not announce it again
    this.node.style.height = height ? `${height}px` : "";
    this.node.replaceChildren(h("div", { class: "body", dir: "auto" }, this.text));
  }

  // Replaces the node by a copy elsewhere in memory.
  renew() {
    const fresh = this.node.cloneNode(true);
    this.node.replaceWith(fresh);
    this.node = fresh;
    this.scattered = false;
  }

  // True if the message must stay drawn: it has the focus or a selection, or is `wanted`.
  get held() {
    const selection = getSelection();
    return this.wanted || this.node.contains(document.activeElement) || (!selection.isCollapsed && selection.containsNode(this.node, true));
  }

  // Marks whether the message is left out of what the model gets.
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
