// The pairs of a race as dots on one line: below 1 slower, above it faster.

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 640, LEFT = 16, RIGHT = 16, TOP = 14, BOTTOM = 30;
const TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128];
const LEAST = Math.log(1.25); // the axis shows at least from 0.8 to 1.25
const APART = 44; // between two ticks

function draw(tag, attributes, text) {
  const node = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// `ratios` in the order they were measured; `found`: {median, low, high, favours} of them.
export function chart(ratios, found, say) {
  const logs = ratios.map(Math.log);
  const low = Math.min(-LEAST, ...logs) - 0.08;
  const high = Math.max(LEAST, ...logs) + 0.08;
  const row = ratios.length > 12 ? 5 : 11;
  const height = TOP + BOTTOM + row * Math.max(ratios.length, 5);
  const x = (ratio) => LEFT + ((Math.log(ratio) - low) / (high - low)) * (WIDTH - LEFT - RIGHT);
  const end = height - BOTTOM;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": say.chart(ratios, found), class: `dots ${["slow", "open", "fast"][found.favours + 1]}` });
  svg.append(draw("rect", { x: x(found.low), width: Math.max(x(found.high) - x(found.low), 2), y: TOP - 6, height: end - TOP + 6, rx: 4, class: "range" }));
  let last = -Infinity;
  for (const tick of [1, ...TICKS.filter((each) => each !== 1)].filter((each) => Math.log(each) >= low && Math.log(each) <= high).sort((a, b) => a - b)) {
    if (tick !== 1 && (x(tick) - last < APART || Math.abs(x(tick) - x(1)) < APART)) continue;
    last = x(tick);
    svg.append(draw("line", { x1: last, x2: last, y1: TOP - 8, y2: end, class: tick === 1 ? "one" : "grid" }));
    svg.append(draw("text", { x: last, y: end + 14, "text-anchor": "middle" }, `${tick}×`));
  }
  svg.append(draw("line", { x1: x(found.median), x2: x(found.median), y1: TOP - 8, y2: end, class: "median" }));
  ratios.forEach((ratio, i) => svg.append(draw("circle", { cx: x(ratio), cy: TOP + row * (i + 0.5), r: row > 6 ? 5 : 3, class: "dot" })));
  svg.append(draw("text", { x: LEFT, y: height - 3, class: "side" }, `← ${say.slower}`), draw("text", { x: WIDTH - RIGHT, y: height - 3, "text-anchor": "end", class: "side" }, `${say.faster} →`));
  return svg;
}
