// What to leave out of a chat that is longer than the context: the oldest turns, or those that are ticked. What is
// left out stays in the chat and can be given again.

import { h } from "../../../shared/dom.js";
import { words } from "../../../shared/words.js";
import { say } from "../words.js";

const short = (text) => (text.length > 90 ? `${text.slice(0, 89)}…` : text);

export class Fitting {
  // `oldest()` leaves out as many of the oldest turns as it takes, `leave(ids)` the messages of these ids.
  constructor({ oldest, leave }) {
    this.leave = leave;
    this.head = h("h2", { id: "fitting-head" });
    this.why = h("p", {});
    this.list = h("ul", { class: "turns" });
    this.first = h("button", { class: "ft-button primary", type: "button", dataset: { act: "oldest" }, on: { click: () => (this.close(), oldest()) } }, say.dropOldest);
    this.chosen = h("button", { class: "ft-button", type: "button", dataset: { act: "chosen" }, on: { click: () => this.take() } }, say.dropChosen);
    this.node = h("dialog", { class: "fitting", "aria-labelledby": "fitting-head" },
      this.head, this.why, h("p", { class: "hint" }, say.fullHint), this.list,
      h("div", { class: "dialog-buttons" }, this.first, this.chosen,
        h("button", { class: "ft-button", type: "button", on: { click: () => this.close() } }, words.cancel)));
  }

  // `turns` are lists of messages; `sends`: something waits to be sent.
  open(why, turns, sends) {
    this.head.textContent = say.fullHead[sends];
    this.why.textContent = why;
    this.first.hidden = !sends; // how many are too many is known once something is to be sent
    this.chosen.textContent = sends ? say.dropChosen : say.leaveChosen;
    this.list.replaceChildren(...turns.map((turn) => {
      const box = h("input", { type: "checkbox", on: { change: () => this.count() } });
      box.ids = turn.map((message) => message.id);
      return h("li", {}, h("label", {}, box, h("span", { dir: "auto" }, short(turn[0].text))));
    }));
    this.count();
    if (!this.node.open) this.node.showModal();
  }

  get ticked() {
    return [...this.list.querySelectorAll("input:checked")];
  }

  count() {
    this.chosen.disabled = !this.ticked.length;
  }

  take() {
    const ids = this.ticked.flatMap((box) => box.ids);
    this.close();
    this.leave(ids);
  }

  close() {
    this.node.close();
  }
}
