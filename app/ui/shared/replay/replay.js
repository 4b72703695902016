// A finished reply, played round by round: a clock with its controls, and the reply as it was at the clock's time.
//
// For several replies on one clock: one Clock, one Transport, a ReplayPane and a Timeline for each, and
// `clock.load(timelines)`.

import { h } from "../dom.js";
import { bars } from "./charts.js";
import { chips } from "./chips.js";
import { Clock, Transport } from "./clock.js";
import { Probe } from "./probe.js";
import { Timeline } from "./timeline.js";
import { say } from "./words.js";

const SHOWN = 1200; // characters of the text before the round
const parts = ["draft", "verify", "rest"];

// The text, the last round and the figures at the clock's time. Only the end of the text and one round are in the page.
export class ReplayPane {
  // `charts` false: without the charts.
  constructor(clock, { charts = true } = {}) {
    this.clock = clock;
    this.timeline = null;
    this.n = null; // rounds that have ended
    this.said = h("span", { class: "replay-said" });
    this.round = h("span", { class: "replay-round" });
    this.text = h("div", { class: "replay-text", tabindex: "0", role: "group", "aria-label": say.replay }, this.said, this.round);
    this.figures = h("dl", { class: "replay-figures" });
    this.why = h("p", { class: "replay-why" });
    this.parts = h("div", { class: "replay-parts" });
    this.charts = charts ? h("div", { class: "replay-charts" }) : null;
    this.node = h("div", { class: "replay-pane" }, this.text, this.figures, this.why, this.parts, this.charts);
    new Probe(this.text);
    this.text.addEventListener("keydown", (event) => this.walk(event));
    clock.watch(() => this.draw());
  }

  // Shows a Timeline; the caller loads the clock with it.
  show(timeline) {
    this.timeline = timeline;
    this.n = null;
    this.draw();
  }

  draw() {
    if (!this.timeline) return;
    const n = this.timeline.at(this.clock.time);
    if (n === this.n) return;
    this.n = n;
    this.node.dataset.round = String(n);
    this.drawText(n);
    this.drawFigures(n);
    if (this.charts) this.drawCharts(n);
  }

  drawText(n) {
    this.said.textContent = this.timeline.text(Math.max(0, n - 1), SHOWN);
    this.round.replaceChildren(...(n ? [chips(this.timeline.rounds[n - 1])] : []));
    this.text.scrollTop = this.text.scrollHeight;
  }

  // Right and left go through the round's tokens, where Tab does not stop.
  walk({ key }) {
    const words = [...this.round.querySelectorAll(".chip")];
    const at = words.indexOf(document.activeElement);
    if (key === "ArrowRight") words[at + 1]?.focus();
    else if (key === "ArrowLeft" && at >= 0) (words[at - 1] ?? this.text).focus();
  }

  drawFigures(n) {
    const found = this.timeline.after(n);
    this.figures.replaceChildren(...Object.entries(say.figures).map(([key, name]) =>
      h("div", { dataset: { figure: key } }, h("dt", {}, name), h("dd", {}, say.figure[key](found[key])))));
    this.why.textContent = found.why ?? "";
    const whole = found.seconds - this.timeline.lead;
    this.parts.replaceChildren(
      h("div", { class: "parts-bar", "aria-hidden": true }, ...parts.map((name) => {
        const part = h("i", { class: `time-part ${name}` });
        part.style.flexGrow = String(whole > 0 ? Math.max(found[name], 0) / whole : 0);
        return part;
      })),
      h("ul", { class: "parts-names", "aria-label": say.times_ }, ...parts.map((name) =>
        h("li", { dataset: { part: name } }, h("i", { class: `time-part ${name}`, "aria-hidden": true }), say.part(say.parts[name], Math.max(found[name], 0), whole)))));
  }

  drawCharts(n) {
    const lengths = this.timeline.lengths(n);
    if (this.timeline.drafted[n] === 0) return void this.charts.replaceChildren(h("p", { class: "hint" }, say.noCharts));
    const positions = this.timeline.positions(n);
    const figure = (name, hint, svg) => h("figure", { title: hint }, h("figcaption", {}, name), svg);
    const count = (values, from) => values.map((_, i) => String(i + from));
    this.charts.replaceChildren(
      figure(say.positions, say.positionsHint, bars(positions, { label: say.positions, names: count(positions, 1), format: (x) => String(Math.round(100 * x)), most: 1 })),
      figure(say.lengths, say.lengthsHint, bars(lengths, { label: say.lengths, names: count(lengths, 0), format: String })));
  }
}

export class Replay {
  constructor() {
    this.clock = new Clock();
    this.timeline = new Timeline();
    this.transport = new Transport(this.clock, () => say.now(this.timeline.at(this.clock.time), this.timeline.length, this.clock.time));
    this.pane = new ReplayPane(this.clock);
    this.node = h("section", { class: "replay", "aria-label": say.replay }, this.transport.node, this.pane.node);
  }

  // Shows the Timeline of a reply, at its end.
  show(timeline) {
    this.timeline = timeline;
    this.pane.show(timeline);
    this.clock.load([timeline], { atEnd: true });
  }
}
