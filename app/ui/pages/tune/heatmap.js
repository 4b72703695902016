// Speedups as a table of colours: settings down, kinds of prompts across.

import { h } from "../../shared/dom.js";

const MOST = Math.log(2.5); // the speedup with the deepest colour

const key = (row) => `${row.method} ${row.depth}`;

// `rows`: one for every setting and kind. Plain decoding is the baseline and has no line.
export function heatmap(rows, kinds, say) {
  const lines = new Map();
  for (const row of rows) {
    if (row.method === "none") continue;
    if (!lines.has(key(row))) lines.set(key(row), new Map());
    lines.get(key(row)).set(row.kind, row);
  }
  const best = Object.fromEntries(kinds.map((kind) => [kind, Math.max(...[...lines.values()].map((line) => line.get(kind)?.speedup ?? 0))]));
  const head = h("thead", {}, h("tr", {}, ...[say.method, say.depth, ...kinds].map((name) => h("th", { scope: "col" }, name === "all" ? say.all : name))));
  const body = [...lines.values()].map((line) => {
    const { method, depth } = line.values().next().value;
    return h("tr", { dataset: { setting: `${method} ${depth}` } }, h("th", { scope: "row" }, method), h("td", {}, depth),
      ...kinds.map((kind) => cell(line.get(kind), best[kind], say)));
  });
  return h("table", { class: "heatmap" }, head, h("tbody", {}, ...body));
}

function cell(row, best, say) {
  if (!row) return h("td", {}, "–");
  const node = h("td", { class: `heat ${row.speedup >= 1 ? "faster" : "slower"}`, title: say.cell(row), dataset: { kind: row.kind } }, say.times(row.speedup));
  node.style.setProperty("--heat", `${Math.round(Math.min(Math.abs(Math.log(row.speedup)) / MOST, 1) * 42)}%`);
  if (row.speedup === best && best > 1) node.classList.add("best");
  return node;
}
