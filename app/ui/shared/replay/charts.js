// Small SVG charts in pixels; their text keeps its size at any width.

const SPACE = "http://www.w3.org/2000/svg";
const HEIGHT = 92;
const TOP = 16;
const BOTTOM = 16;
const WIDEST = 34;
const LABEL = 20; // the least width for a number at a bar
const UNSEEN = 320; // the width of a chart that is not in the page yet

export function draw(tag, attributes = {}, text = undefined) {
  const node = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// Makes an SVG of this height and as wide as its container; `paint(width)` returns its content for each width.
export function fitted(attributes, height, paint) {
  const svg = draw("svg", { ...attributes, role: "img" });
  svg.style.height = `${height}px`;
  let painted = null;
  const fit = (width) => {
    if (!width || width === painted) return;
    painted = width;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(...paint(width));
  };
  fit(UNSEEN);
  new ResizeObserver(([entry]) => fit(Math.floor(entry.contentRect.width))).observe(svg);
  return svg;
}

// Draws `values` as bars up to `most`, with `names` below them. `label` and all values are its accessible name. Narrow
// bars are not all numbered.
export function bars(values, { label, names, format, most = Math.max(...values, 1e-9) }) {
  const told = values.map((value, i) => `${names[i]}: ${format(value)}`).join(", ");
  return fitted({ "aria-label": `${label}: ${told}`, class: "bars" }, HEIGHT, (width) => {
    const each = Math.min(WIDEST, width / Math.max(values.length, 1));
    const numbered = Math.ceil(LABEL / each);
    const gap = Math.min(2, each / 6);
    const room = HEIGHT - TOP - BOTTOM;
    const found = [draw("line", { x1: 0, x2: each * values.length, y1: HEIGHT - BOTTOM + 0.5, y2: HEIGHT - BOTTOM + 0.5, class: "grid" })];
    values.forEach((value, i) => {
      const height = Math.max(value > 0 ? 1 : 0, (value / most) * room);
      const middle = each * (i + 0.5);
      found.push(draw("rect", { x: each * i + gap, y: HEIGHT - BOTTOM - height, width: each - 2 * gap, height, rx: Math.min(2, gap), class: "bar" }));
      if (i % numbered) return;
      found.push(
        draw("text", { x: middle, y: HEIGHT - BOTTOM - height - 4, "text-anchor": "middle", class: "value" }, format(value)),
        draw("text", { x: middle, y: HEIGHT - 4, "text-anchor": "middle" }, names[i]));
    });
    return found;
  });
}
