// Small bar charts, drawn by hand: a bar for each place, its value above it, its name below.

const SPACE = "http://www.w3.org/2000/svg";
const HEIGHT = 92;
const TOP = 16;
const BOTTOM = 16;
const WIDEST = 34;
const WIDTH = 320;

export function draw(tag, attributes = {}, text = undefined) {
  const node = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// `values` as bars up to `most`, drawn with `format`; `names` below them. `label` and all values are its name
// for those who do not see it.
export function bars(values, { label, names, format, most = Math.max(...values, 1e-9) }) {
  const told = values.map((value, i) => `${names[i]}: ${format(value)}`).join(", ");
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${label}: ${told}`, class: "bars" });
  const each = Math.min(WIDEST, WIDTH / Math.max(values.length, 1));
  const room = HEIGHT - TOP - BOTTOM;
  svg.append(draw("line", { x1: 0, x2: each * values.length, y1: HEIGHT - BOTTOM + 0.5, y2: HEIGHT - BOTTOM + 0.5, class: "grid" }));
  values.forEach((value, i) => {
    const height = Math.max(value > 0 ? 1 : 0, (value / most) * room);
    const middle = each * (i + 0.5);
    svg.append(
      draw("rect", { x: each * i + 2, y: HEIGHT - BOTTOM - height, width: each - 4, height, rx: 2, class: "bar" }),
      draw("text", { x: middle, y: HEIGHT - BOTTOM - height - 4, "text-anchor": "middle", class: "value" }, format(value)),
      draw("text", { x: middle, y: HEIGHT - 4, "text-anchor": "middle" }, names[i]));
  });
  return svg;
}
