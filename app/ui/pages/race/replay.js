// Replays both replies of a run side by side on one clock, slowed down.

import { h } from "../../shared/dom.js";
import { Clock, SPEEDS, Transport } from "../../shared/replay/clock.js";
import { ReplayPane } from "../../shared/replay/replay.js";
import { Timeline } from "../../shared/replay/timeline.js";
import { say } from "./words.js";

const LONGEST = 20; // seconds that the replay should take

// `sides`: name and rounds of each. Returns null if an engine reports no rounds.
export function replay(sides) {
  if (sides.some(({ rounds }) => !rounds.length)) return null;
  const clock = new Clock();
  const timelines = sides.map(({ rounds }) => new Timeline(rounds));
  const duration = Math.max(...timelines.map((each) => each.duration));
  clock.setSpeed(SPEEDS.findLast((each) => each < 1 && duration / each >= LONGEST / 4) ?? SPEEDS[0]);
  const panes = sides.map(({ name }, i) => {
    const pane = new ReplayPane(clock, { charts: false });
    pane.show(timelines[i]);
    return h("section", { class: "race-replay", "aria-label": name }, h("h3", {}, name), pane.node);
  });
  const transport = new Transport(clock);
  clock.load(timelines, { atEnd: true }); // playing begins anew there
  return h("section", { class: "panel replays", "aria-label": say.replay },
    h("h2", {}, say.replay), h("p", { class: "hint" }, say.replayHint), transport.node, h("div", { class: "race-lanes" }, ...panes));
}
