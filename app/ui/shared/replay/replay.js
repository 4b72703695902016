// A finished reply, played round by round: a clock with its controls, and what the reply was at its time.
//
// For several replies on one clock: one Clock, one Transport, a ReplayPane and a Timeline for each, and
// `clock.load(timelines)`.

import { h } from "../dom.js";
import { Clock } from "./clock.js";
import { ReplayPane } from "./pane.js";
import { Timeline } from "./timeline.js";
import { Transport } from "./transport.js";
import { say } from "./words.js";

export { Clock, ReplayPane, Timeline, Transport };

export class Replay {
  constructor() {
    this.clock = new Clock();
    this.timeline = new Timeline();
    this.transport = new Transport(this.clock, () => say.now(this.timeline.at(this.clock.time), this.timeline.length, this.clock.time));
    this.pane = new ReplayPane(this.clock);
    this.node = h("section", { class: "replay", "aria-label": say.replay }, this.transport.node, this.pane.node);
  }

  // The Timeline of a reply; the clock stands at its end.
  show(timeline) {
    this.timeline = timeline;
    this.pane.show(timeline);
    this.clock.load([timeline], { atEnd: true });
  }
}
