// Markdown drawn block by block. Only blocks whose source changed are redrawn, and only the last ones of a growing text
// are parsed again, so that a long reply costs its last paragraph.

import { GrowingCode } from "./code";
import { parse, renderBlock } from "./markdown";
import { place, source, type Token } from "./places";
import type { Marks } from "./marks";
import { seconds, several } from "../format";

// A block in the page.
interface Block {
  raw: string;
  start: number; // an offset in the text as marked reads it
  token: Token;
  node?: HTMLElement;
  marked: boolean;
  unclosed: boolean;
  named: string; // the link definitions it was drawn with
  code?: GrowingCode; // of a code block that grows
}

const OPEN = 4; // blocks at the end that more text may still change
const UNCLOSED = /(^|\n) {0,3}(\$\$|\\\[)/; // an open formula, which may span blocks

const growing = new Set(["P", "UL", "OL", "LI", "BLOCKQUOTE", "TABLE", "TBODY"]);

// Makes `shown` equal to `fresh` and keeps their common beginning: a long paragraph that grows by a word is laid out
// again only from that word on.
function keepBeginning(shown: Node, fresh: Node) {
  let a = shown.firstChild;
  let b = fresh.firstChild;
  while (a && b && a.isEqualNode(b)) {
    a = a.nextSibling;
    b = b.nextSibling;
  }
  if (a instanceof Text && b instanceof Text && b.data.startsWith(a.data)) {
    a.appendData(b.data.slice(a.length));
    [a, b] = [a.nextSibling, b.nextSibling];
  } else if (
    a instanceof Element &&
    b instanceof Element &&
    a.nodeName === b.nodeName &&
    a.className === b.className &&
    growing.has(a.nodeName)
  ) {
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
    shown.appendChild(b);
    b = next;
  }
}

export class StreamingMarkdown {
  blocks: Block[] = [];
  text = "";
  base = 0;
  places: number[] | null = null;

  constructor(readonly element: HTMLElement) {}

  // Draws `text`. `more`: the text will grow. `base`: its offset in the message of the marks.
  // Null as `marks` adds none.
  render(text: string, marks: Marks | null, more = false, base = 0) {
    this.base = base;
    const kept = more ? this.settled(text) : 0;
    const begin = kept ? this.blocks[kept].start : 0;
    const tokens = parse(text.slice(begin), this.addresses(kept));
    const places = marks && source(text, begin, base);
    const named = JSON.stringify(tokens.links);
    let start = begin; // of the block
    tokens.forEach((token, i) => {
      const end = start + token.raw.length;
      const at = places && places.at.slice(start - begin, end - begin);
      const open = more && i === tokens.length - 1;
      this.renderAt(kept + i, token, { start, at, marks, open, named });
      start = end;
    });
    while (this.blocks.length > kept + tokens.length) this.blocks.pop()?.node?.remove();
    this.text = text;
    this.places = null;
  }

  // Returns the link definitions in the first blocks; the first of several counts.
  addresses(count: number) {
    const found: Record<string, { href: string; title: string }> = {};
    for (const { token } of this.blocks.slice(0, count)) {
      if (token.type === "def") found[token.tag] ??= { href: token.href, title: token.title };
    }
    return found;
  }

  // Returns how many blocks cannot change, however `text` continues.
  settled(text: string) {
    if (!text.startsWith(this.text) || text.includes("\r")) return 0; // "\r": its places are not marked's
    const unclosed = this.blocks.findIndex((block) => block.unclosed);
    const last = unclosed < 0 ? this.blocks.length : unclosed;
    return Math.max(0, Math.min(last, this.blocks.length - OPEN));
  }

  // Redraws a block if its source, its marks or the link definitions it may use changed.
  renderAt(
    index: number,
    token: Token,
    {
      start,
      at,
      marks,
      open,
      named,
    }: { start: number; at: number[] | null; marks: Marks | null; open: boolean; named: string },
  ) {
    const known = this.blocks[index];
    const marked = Boolean(marks && at && marks.covered((at.at(-1) ?? 0) + 1));
    const code = open && token.type === "code" && token.codeBlockStyle !== "indented";
    const same = known && known.raw === token.raw && Boolean(known.code) === code && !(marks && !known.marked);
    if (same && (known.named === named || !token.raw.includes("["))) return void Object.assign(known, { start });
    if (marks && at) place([token], { text: token.raw, at });
    const unclosed = token.type === "paragraph" && UNCLOSED.test(token.raw);
    const block: Block = { raw: token.raw, start, token, marked, unclosed, named, node: known?.node };
    if (code) this.growCode(block, known, marks);
    else this.redraw(block, renderBlock(token, marks));
    this.blocks[index] = block;
  }

  redraw(block: Block, fresh: HTMLElement) {
    if (block.node) {
      block.node.dir = fresh.dir;
      keepBeginning(block.node, fresh);
    } else this.element.append((block.node = fresh));
  }

  growCode(block: Block, known: Block | undefined, marks: Marks | null) {
    const { lang, text, at } = block.token;
    const goesOn = known?.code?.becomes(lang, text) ? known.code : null;
    block.code = goesOn ?? new GrowingCode(lang);
    block.code.grow(text, at, marks);
    if (goesOn) return;
    const node = Object.assign(document.createElement("div"), { className: "block", dir: "ltr" });
    node.append(block.code.node);
    this.redraw(block, node);
  }

  // ---- marks that are drawn later, where somebody looks

  // Draws the marks of blocks between these offsets of the message, at most so many characters. Returns whether some are
  // left.
  mark(marks: Marks, from = 0, to = Infinity, most = Infinity) {
    let drawn = 0;
    for (const block of this.blocks) {
      if (block.marked || block.code || !block.raw.trim()) continue;
      const at = this.placesOf(block);
      const end = at[at.length - 1] + 1;
      if (end <= from || at[0] >= to || !marks.covered(end)) continue;
      if (drawn > most) return true;
      drawn += block.raw.length;
      place([block.token], { text: block.raw, at });
      block.node?.replaceChildren(...renderBlock(block.token, marks).childNodes);
      block.marked = true;
    }
    return false;
  }

  // Returns the offsets of the block around this node: [first, after the last]; null if its marks are drawn.
  unmarkedAt(node: Element) {
    const holder = node.closest(".block");
    const block = holder && this.blocks.find((each) => each.node === holder);
    if (!block || block.marked || block.code || !block.raw.trim()) return null;
    const at = this.placesOf(block);
    return [at[0], at[at.length - 1] + 1];
  }

  placesOf({ start, raw }: Block) {
    const places = (this.places ??= source(this.text, 0, this.base).at);
    return places.slice(start, start + raw.length);
  }
}

// ---- the model's thought before its answer, folded; it can be opened while it is written

// Where a thought is in its reply, as app/ui/rounds/view.py tells it; null while it is thought.
export interface Place {
  from: number;
  to: number | null;
  answer: number | null; // where the answer begins
  seconds: number | null;
  tokens: number | null;
}

export class Thought {
  head = document.createElement("summary");
  node = document.createElement("details");
  markdown: StreamingMarkdown;
  drawing: (() => void) | null = null;

  // It stands first in `element`.
  constructor(element: HTMLElement) {
    const body = document.createElement("div");
    body.className = "thought-text";
    body.dir = "auto";
    this.markdown = new StreamingMarkdown(body);
    this.node.className = "thought ft-disclosure";
    this.node.append(this.head, body);
    this.node.addEventListener("toggle", () => this.draw());
    element.prepend(this.node);
  }

  remove(): null {
    this.node.remove();
    return null;
  }

  // `more`: the reply will grow.
  show(text: string, place: Place, marks: Marks | null, more: boolean) {
    const open = place.to === null;
    const time = place.seconds === null ? "" : seconds(place.seconds);
    const thought = [time ? `Thought for ${time}` : "Thought"];
    const head = open && more ? ["Thinking", ...(time ? [time] : [])] : thought;
    if (place.tokens) head.push(several(place.tokens, "token"));
    if (open && !more) head.push("cut off");
    const told = head.join(", ");
    if (this.head.textContent !== told) this.head.textContent = told;
    const written = text.slice(place.from, place.to ?? undefined);
    this.drawing = () => this.markdown.render(written, marks, more && open, place.from);
    this.draw();
  }

  // Draws the text only while it is unfolded.
  draw() {
    if (!this.node.open || !this.drawing) return;
    this.drawing();
    this.drawing = null;
  }
}
