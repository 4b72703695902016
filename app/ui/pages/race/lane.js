// One side of a race: its name, its speed and its last reply.

import { fixed, h, percent, speed } from "../../shared/dom.js";
import { MARKS_SHOWN, Reply } from "../../shared/reply.js";
import { words } from "../../shared/words.js";
import { say } from "./words.js";

export class Lane {
  constructor(side) {
    this.title = h("h3", {});
    this.state = h("span", { class: "lane-state" });
    this.speed = h("b", { class: "lane-speed", dataset: { lane: `${side}-speed` } }, "–");
    this.facts = h("dl", { class: "lane-facts" });
    this.body = h("div", { class: "lane-body" });
    this.text = h("div", { class: "lane-text", tabindex: "0", role: "group" }, this.body);
    this.node = h("section", { class: `race-lane ${side}`, dataset: { lane: side } },
      h("header", {}, this.title, this.state, h("span", { class: "grow" }), this.speed, h("span", { class: "unit" }, say.speed)),
      this.facts, this.text);
    window.addEventListener(MARKS_SHOWN, () => this.reply?.markAll());
    this.reset();
  }

  name(text) {
    this.title.textContent = text;
    this.text.setAttribute("aria-label", text);
  }

  reset() {
    this.rounds = []; // of the last reply
    this.cut = false; // whether somebody stopped it
    this.state.textContent = say.waiting;
    this.speed.textContent = "–";
    this.facts.replaceChildren();
    this.body.replaceChildren();
    this.reply = null;
    delete this.node.dataset.state;
  }

  begin(state) {
    this.reset();
    this.state.textContent = state;
    this.node.dataset.state = "running";
  }

  done() {
    this.state.textContent = this.reply ? (this.cut ? say.cut : say.done) : "";
    this.node.dataset.state = "done";
  }

  // Takes an event; each turn of a conversation is a reply of its own.
  event(event) {
    if (event.t === "queued") this.state.textContent = words.queued(event.ahead);
    else if (event.t === "started" || !this.reply) this.turn();
    this.cut = event.t === "finished" && event.reason === "cancelled";
    this.rounds.push(...this.reply?.add([event], event.thought) ?? []);
  }

  turn() {
    const node = h("div", { class: "body markdown" });
    this.body.append(node);
    this.reply = new Reply(node);
    this.reply.onDrawn = () => (this.text.scrollTop = this.text.scrollHeight);
  }

  total(stats) {
    this.speed.textContent = speed(stats.tokens_per_s);
    const facts = [[say.tokens, stats.completion_tokens]];
    if (stats.drafted) facts.push([say.acceptance, percent(stats.acceptance_rate)], [say.length, fixed(stats.mean_acceptance_length)]);
    this.facts.replaceChildren(...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value)))));
  }
}
