// Origin marks: which parts of a message came from the draft, and which from the target.
//
// The engine reports each token's length in UTF-16 units, and its origin. The offset of each rendered character comes
// from its Markdown token, see places.ts.

import { firstIndex } from "../search";

const classes = { a: "accepted", c: "correction", b: "bonus" } as Record<string, string>; // "n": unknown

export class Marks {
  ends: number[] = []; // end offset of each token in the message
  origins: string[] = [];

  constructor(compact = "") {
    this.add(compact);
  }

  // Adds marks in Python's form, "a4 c5".
  add(compact: string) {
    if (compact) for (const item of compact.split(" ")) this.push(Number(item.slice(1)), item[0]);
  }

  push(length: number, origin: string) {
    if (length === 0) return;
    this.ends.push((this.ends.at(-1) ?? 0) + length);
    this.origins.push(origin);
  }

  covered(offset: number) {
    return (this.ends.at(-1) ?? 0) >= offset;
  }

  // Returns the token that holds the character at `offset`, or -1.
  at(offset: number) {
    const token = firstIndex(this.ends.length, (i) => this.ends[i] > offset);
    return token < this.ends.length ? token : -1;
  }

  // Splits characters at these offsets into spans of one token each: [begin, end, token], -1 for none.
  spans(offsets: number[], length = offsets.length) {
    const found: [begin: number, end: number, token: number][] = [];
    for (let i = 0; i < length; i += 1) {
      const token = offsets[i] === undefined ? -1 : this.at(offsets[i]);
      const last = found.at(-1);
      if (last?.[2] === token) last[1] = i + 1;
      else found.push([i, i + 1, token]);
    }
    return found;
  }
}

function wrap(textNode: Text, offsets: number[], marks: Marks) {
  const fragment = document.createDocumentFragment();
  for (const [begin, end, token] of marks.spans(offsets, textNode.length)) {
    const part = textNode.data.slice(begin, end);
    const kind = classes[marks.origins[token]];
    if (kind) {
      const span = document.createElement("span");
      span.className = `mark ${kind}`;
      span.dataset.token = String(token);
      span.textContent = part;
      fragment.append(span);
    } else {
      fragment.append(part);
    }
  }
  textNode.replaceWith(fragment);
}

// Wraps the texts in `node`; `offsets` are those of its characters.
export function markText(node: Element, offsets: number[], marks: Marks) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT, (text) =>
    text.parentElement?.closest("[data-chrome]") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT,
  );
  const found: [Text, number][] = [];
  let from = 0;
  while (walker.nextNode()) {
    const text = walker.currentNode as Text;
    found.push([text, from]);
    from += text.length;
  }
  for (const [text, from] of found) wrap(text, offsets.slice(from, from + text.length), marks);
}

// Wraps the texts of a rendered block, and replaces its leaves by their content. A leaf is an element with `data-leaf`,
// the index in `leaves` of its characters' offsets.
export function markBlock(node: Element, leaves: number[][], marks: Marks) {
  for (const leaf of node.querySelectorAll("[data-leaf]")) {
    markText(leaf, leaves[Number(leaf.getAttribute("data-leaf"))] ?? [], marks);
    leaf.replaceWith(...leaf.childNodes);
  }
  node.normalize();
}
