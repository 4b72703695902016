// One line over time: small, with its ends named.

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 400, HEIGHT = 150, LEFT = 40, RIGHT = 10, TOP = 10, BOTTOM = 22;

function draw(tag, attributes, text) {
  const node = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// `points`: [x, y] in order, at least one. `from`: where the y axis begins, unless a point lies below.
export function chart(points, { label, at, from = Infinity }) {
  const ys = points.map(([, y]) => y);
  const least = Math.min(from, ...ys), most = Math.max(...ys);
  const room = Math.max(0, 0.1 - (most - least)); // a flat line has some above and below
  const low = least === from ? least : least - room / 2, high = low + Math.max(most - least, 0.1);
  const end = Math.max(points.at(-1)[0], 1e-9);
  const x = (value) => LEFT + (value / end) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${label}: ${ys.at(-1).toFixed(2)}`, class: "chart" });
  for (const value of [low, (low + high) / 2, high]) {
    svg.append(draw("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value), class: "grid" }));
    svg.append(draw("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(2)));
  }
  svg.append(draw("text", { x: LEFT, y: HEIGHT - 5 }, at(0)), draw("text", { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, at(end)));
  svg.append(draw("polyline", { points: points.map((point) => `${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`).join(" "), class: "curve" }));
  const dots = points.length <= 40 ? points : points.slice(-1);
  for (const point of dots) svg.append(draw("circle", { cx: x(point[0]), cy: y(point[1]), r: 2.6, class: "dot" }));
  return svg;
}
