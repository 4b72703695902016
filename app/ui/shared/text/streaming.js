// Markdown drawn block by block. Only blocks whose source changed are redrawn, and only the last ones of a growing text
// are parsed again, so that a long reply costs its last paragraph.

import { GrowingCode } from "./code.js";
import { h } from "../dom.js";
import { parse, renderBlock } from "./markdown.js";
import { place, source } from "./places.js";

const OPEN = 4; // blocks at the end that more text may still change
const UNCLOSED = /(^|\n) {0,3}(\$\$|\\\[)/; // an open formula, which may span blocks

const growing = new Set(["P", "UL", "OL", "LI", "BLOCKQUOTE", "TABLE", "TBODY"]);

// Makes `shown` equal to `fresh` and keeps their common beginning: a long paragraph that grows by a word is laid out
// again only from that word on.
function keepBeginning(shown, fresh) {
  let a = shown.firstChild;
  let b = fresh.firstChild;
  while (a && b && a.isEqualNode(b)) {
    a = a.nextSibling;
    b = b.nextSibling;
  }
  const alike = a && b && a.nodeName === b.nodeName;
  if (alike && a.nodeType === Node.TEXT_NODE && b.data.startsWith(a.data)) {
    a.appendData(b.data.slice(a.length));
    [a, b] = [a.nextSibling, b.nextSibling];
  } else if (alike && a.nodeType === Node.ELEMENT_NODE && a.className === b.className && growing.has(a.nodeName)) {
    const after = b.nextSibling;
    keepBeginning(a, b);
    [a, b] = [a.nextSibling, after];
  }
  while (a) {
    const next = a.nextSibling;
    a.remove();
    a = next;
  }
  while (b) {
    const next = b.nextSibling;
    shown.append(b);
    b = next;
  }
}

export class StreamingMarkdown {
  constructor(element) {
    this.element = element;
    // The blocks in the element: {raw, start, token, node, marked, unclosed, named}, and `code` for a growing code block.
    // `start` is an offset in the text as marked reads it.
    this.blocks = [];
    this.text = "";
  }

  // Draws `text`. `marks`: see marks.js; null adds none. `more`: the text will grow. `base`: its offset in the message of
  // the marks.
  render(text, marks, more = false, base = 0) {
    this.base = base;
    const kept = more ? this.settled(text) : 0;
    const begin = kept ? this.blocks[kept].start : 0;
    const tokens = parse(text.slice(begin), this.addresses(kept));
    const places = marks && source(text, begin, base);
    const named = JSON.stringify(tokens.links);
    let start = begin; // of the block
    tokens.forEach((token, i) => {
      const end = start + token.raw.length;
      const at = places?.at.slice(start - begin, end - begin);
      const open = more && i === tokens.length - 1;
      this.renderAt(kept + i, token, { start, at, marks, open, named });
      start = end;
    });
    while (this.blocks.length > kept + tokens.length) this.blocks.pop().node.remove();
    this.text = text;
    this.places = null;
  }

  // Returns the link definitions in the first blocks; the first of several counts.
  addresses(count) {
    const found = {};
    for (const { token } of this.blocks.slice(0, count)) {
      if (token.type === "def") found[token.tag] ??= { href: token.href, title: token.title };
    }
    return found;
  }

  // Returns how many blocks cannot change, however `text` continues.
  settled(text) {
    if (!text.startsWith(this.text) || text.includes("\r")) return 0; // "\r": its places are not marked's
    const unclosed = this.blocks.findIndex((block) => block.unclosed);
    const last = unclosed < 0 ? this.blocks.length : unclosed;
    return Math.max(0, Math.min(last, this.blocks.length - OPEN));
  }

  // Redraws a block if its source, its marks or the link definitions it may use changed.
  renderAt(index, token, { start, at, marks, open, named }) {
    const known = this.blocks[index];
    const marked = marks !== null && marks.covered(at.at(-1) + 1);
    const code = open && token.type === "code" && token.codeBlockStyle !== "indented";
    const same = known && known.raw === token.raw && Boolean(known.code) === code && !(marks && !known.marked);
    if (same && (known.named === named || !token.raw.includes("["))) return void Object.assign(known, { start });
    if (marks) place([token], { text: token.raw, at });
    const unclosed = token.type === "paragraph" && UNCLOSED.test(token.raw);
    const block = { raw: token.raw, start, token, marked, unclosed, named, node: known?.node };
    if (code) this.growCode(block, known, marks);
    else this.redraw(block, renderBlock(token, marks));
    this.blocks[index] = block;
  }

  redraw(block, fresh) {
    if (block.node) {
      block.node.dir = fresh.dir;
      keepBeginning(block.node, fresh);
    } else this.element.append((block.node = fresh));
  }

  growCode(block, known, marks) {
    const { lang, text, at } = block.token;
    const goesOn = known?.code?.becomes(lang, text);
    block.code = goesOn ? known.code : new GrowingCode(lang);
    block.code.grow(text, at, marks);
    if (!goesOn) this.redraw(block, h("div", { class: "block", dir: "ltr" }, block.code.node));
  }

  // ---- marks that are drawn later, where somebody looks

  // Draws the marks of blocks between these offsets of the message, at most so many characters. Returns whether some are
  // left.
  mark(marks, from = 0, to = Infinity, most = Infinity) {
    let drawn = 0;
    for (const block of this.blocks) {
      if (block.marked || block.code || !block.raw.trim()) continue;
      const at = this.placesOf(block);
      if (at.at(-1) < from || at[0] >= to || !marks.covered(at.at(-1) + 1)) continue;
      if (drawn > most) return true;
      drawn += block.raw.length;
      place([block.token], { text: block.raw, at });
      block.node.replaceChildren(...renderBlock(block.token, marks).childNodes);
      block.marked = true;
    }
    return false;
  }

  // Returns the offsets of the block around this node: [first, behind the last]; null if its marks are drawn.
  unmarkedAt(node) {
    const holder = node.closest?.(".block");
    const block = holder && this.blocks.find((each) => each.node === holder);
    if (!block || block.marked || block.code || !block.raw.trim()) return null;
    const at = this.placesOf(block);
    return [at[0], at.at(-1) + 1];
  }

  placesOf({ start, raw }) {
    this.places ??= source(this.text, 0, this.base).at;
    return this.places.slice(start, start + raw.length);
  }
}
