// A round as chips: the shape of each drafted token shows its fate, then comes the target's own. `node.told` is what
// probe.js shows for a chip.

import { h, showToken } from "../dom.js";
import { agreedOf } from "./timeline.js";
import { say } from "./words.js";

const fates = { a: "accepted", r: "rejected", u: "unseen", x: "accepted cut" };
const tellings = { a: say.accepted, r: say.rejected, u: say.unseen, x: say.cut };

function chip(kind, telling, text, told) {
  const node = h("span", { class: `chip ${kind}`, tabindex: "-1", role: "listitem", "aria-label": `${JSON.stringify(text)} ${telling}` }, h("span", {}, ...showToken(text)));
  node.told = { text, ...told };
  return node;
}

const stands = (round, node) => "ax".includes(round.d[node][1]);

// Returns the depth of each drafted token in its tree, from 0 on.
function depths(round) {
  const found = [];
  for (let node = 0; node < round.d.length; node += 1) {
    const parent = round.b ? round.b[node] : node - 1;
    found.push(parent < 0 ? 0 : found[parent] + 1);
  }
  return found;
}

// Returns the token in place of a rejected one: an accepted sibling, or the target's own.
function chosenFor(round, node, deep) {
  const beside = round.d.findIndex((_, other) => deep[other] === deep[node] && stands(round, other));
  return beside < 0 ? { text: round.n[0], p: round.n[2], topTokens: round.l } : { text: round.d[beside][0], p: round.d[beside][2] };
}

// Arranges a tree's chips in columns, one per position, the accepted one on top.
function columns(round, deep, drawn, last) {
  const places = Array.from({ length: Math.max(...deep) + 1 }, () => []);
  drawn.forEach((node, i) => {
    if (stands(round, i)) places[deep[i]].unshift(node);
    else places[deep[i]].push(node);
  });
  const kept = agreedOf(round);
  if (kept < places.length) places[kept].unshift(last);
  else places.push([last]);
  return places.map((place) => h("span", { class: "place" }, ...place));
}

export function chips(round) {
  const deep = depths(round);
  const drawn = round.d.map(([text, fate, p, q], node) => {
    const behind = round.b && round.b[node] >= 0 ? round.d[round.b[node]][0] : null;
    return chip(fates[fate], tellings[fate], text, { fate, p, q, behind, chosen: fate === "r" ? chosenFor(round, node, deep) : null });
  });
  const [text, origin, p, emitted] = round.n;
  const kind = origin === "c" ? "correction" : "bonus";
  const rejected = round.d.find(([, fate]) => fate === "r")?.[0] ?? null;
  const last = chip(emitted ? kind : `${kind} cut`, say[kind], text, { fate: origin, p, rejected, drafted: round.d.length, kept: agreedOf(round), emitted, topTokens: round.l });
  return h("span", { class: round.b ? "chips tree" : "chips", role: "list" }, ...(round.b ? columns(round, deep, drawn, last) : [...drawn, last]));
}
