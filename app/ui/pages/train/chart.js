// A small line chart over time.

import { draw, fitted } from "../../shared/replay/charts.js";

const HEIGHT = 170, LEFT = 42, RIGHT = 10, TOP = 10, BOTTOM = 24;

// `points`: [x, y] in order, at least one. `from`: where the y axis begins, unless a point lies below.
export function chart(points, { label, at, from = Infinity }) {
  const ys = points.map(([, y]) => y);
  const least = Math.min(from, ...ys), most = Math.max(...ys);
  const room = Math.max(0, 0.1 - (most - least)); // a flat line has some above and below
  const low = least === from ? least : least - room / 2, high = low + Math.max(most - least, 0.1);
  const end = Math.max(points.at(-1)[0], 1e-9);
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const dots = points.length <= 40 ? points : points.slice(-1);
  return fitted({ "aria-label": `${label}: ${ys.at(-1).toFixed(2)}`, class: "chart" }, HEIGHT, (width) => {
    const x = (value) => LEFT + (value / end) * (width - LEFT - RIGHT);
    return [
      ...[low, (low + high) / 2, high].flatMap((value) => [
        draw("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), class: "grid" }),
        draw("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(2)),
      ]),
      draw("text", { x: LEFT, y: HEIGHT - 6 }, at(0)),
      draw("text", { x: width - RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, at(end)),
      draw("polyline", { points: points.map((point) => `${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`).join(" "), class: "curve" }),
      ...dots.map((point) => draw("circle", { cx: x(point[0]), cy: y(point[1]), r: 2.6, class: "dot" })),
    ];
  });
}
