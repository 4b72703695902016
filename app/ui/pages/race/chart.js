// The runs of a race as dots on one axis: below 1 slower, above it faster.

import { draw, fitted } from "../../shared/replay/charts.js";

const LEFT = 16, RIGHT = 16, TOP = 14, BOTTOM = 34;
const TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128];
const LEAST = Math.log(1.25); // the axis shows at least from 0.8 to 1.25
const APART = 44; // between two ticks

// `ratios` in the order they were measured; `found`: {median, low, high, favours} of them.
export function chart(ratios, found, say) {
  const logs = ratios.map(Math.log);
  const low = Math.min(-LEAST, ...logs) - 0.08;
  const high = Math.max(LEAST, ...logs) + 0.08;
  const row = ratios.length > 12 ? 5 : 11;
  const height = TOP + BOTTOM + row * Math.max(ratios.length, 5);
  const end = height - BOTTOM;
  const colour = ["slow", "open", "fast"][found.favours + 1];
  return fitted({ "aria-label": say.chart(ratios, found), class: `dots ${colour}` }, height, (width) => {
    const x = (ratio) => LEFT + ((Math.log(ratio) - low) / (high - low)) * (width - LEFT - RIGHT);
    const upright = (ratio, kind) => draw("line", { x1: x(ratio), x2: x(ratio), y1: TOP - 8, y2: end, class: kind });
    const shown = [draw("rect", { x: x(found.low), y: TOP - 6, width: Math.max(x(found.high) - x(found.low), 2), height: end - TOP + 6, rx: 4, class: "range" })];
    let last = -Infinity;
    for (const tick of TICKS.filter((each) => Math.log(each) >= low && Math.log(each) <= high)) {
      if (tick !== 1 && (x(tick) - last < APART || Math.abs(x(tick) - x(1)) < APART)) continue;
      last = x(tick);
      shown.push(upright(tick, tick === 1 ? "one" : "grid"), draw("text", { x: last, y: end + 14, "text-anchor": "middle" }, `${tick}×`));
    }
    shown.push(upright(found.median, "median"));
    ratios.forEach((ratio, i) => shown.push(draw("circle", { cx: x(ratio), cy: TOP + row * (i + 0.5), r: row > 6 ? 5 : 3, class: "dot" })));
    shown.push(draw("text", { x: LEFT, y: height - 4, class: "way" }, `← ${say.slower}`), draw("text", { x: width - RIGHT, y: height - 4, "text-anchor": "end", class: "way" }, `${say.faster} →`));
    return shown;
  });
}
