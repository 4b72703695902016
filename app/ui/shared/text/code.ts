// Code blocks: frame, highlighting, and blocks that are still being written.

import hljs from "highlight.js/lib/common";
import { toClipboard } from "../browser";
import { markText, type Marks } from "./marks";

const PIECE = 1200; // characters after which the next line of a growing block begins a piece of its own
const SHOWN_MS = 1400; // how long a button says that it has copied

function colour(node: HTMLElement, text: string, language?: string) {
  if (language && hljs.getLanguage(language))
    node.innerHTML = hljs.highlight(text, { language, ignoreIllegals: true }).value;
  else node.textContent = text;
}

const made = (tag: string, look = "", text = "") =>
  Object.assign(document.createElement(tag), { className: look, textContent: text });

// Makes the frame around `pre`, which holds `code`.
function framed(pre: HTMLElement, code: HTMLElement, language?: string) {
  pre.tabIndex = 0; // long lines can be scrolled by keyboard
  const button = made("button", "ft-link", "Copy");
  button.setAttribute("type", "button");
  button.onclick = async () => {
    await toClipboard(code.textContent ?? "");
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), SHOWN_MS);
  };
  const bar = made("div", "code-bar");
  bar.dataset.chrome = "1";
  bar.append(made("span", "", language ?? "text"), button);
  const frame = made("div", "code");
  frame.append(bar, pre);
  return frame;
}

// Frames and highlights code in the page.
export function dressCode(pre: HTMLElement) {
  const code = pre.querySelector("code");
  if (!code) return;
  const language = /language-(\S+)/.exec(code.className)?.[1];
  colour(code, code.textContent ?? "", language);
  const place = document.createComment("");
  pre.replaceWith(place);
  place.replaceWith(framed(pre, code, language));
}

// A code block that grows. Only its last lines are highlighted again; those before them stay in pieces that were
// highlighted separately. The complete block is drawn as one.
export class GrowingCode {
  from = 0; // where the last piece begins
  text = "";
  last: HTMLElement | null = null;
  code = document.createElement("code");

  node: HTMLElement;
  language: string | undefined;

  // `info`: the text after the fence.
  constructor(readonly info?: string) {
    this.language = /^\S+/.exec(info ?? "")?.[0];
    const pre = document.createElement("pre");
    pre.append(this.code);
    this.node = framed(pre, this.code, this.language);
  }

  // Returns whether `text` continues this block.
  becomes(info: string | undefined, text: string) {
    return info === this.info && text.startsWith(this.text);
  }

  // `at`: the offsets of its characters, where `marks` are to be drawn.
  grow(text: string, at: number[] | undefined, marks: Marks | null) {
    this.text = text;
    this.last?.remove();
    const end = text.lastIndexOf("\n") + 1;
    if (end - this.from > PIECE) {
      this.piece(this.from, end, at, marks);
      this.from = end;
    }
    this.last = this.piece(this.from, text.length, at, marks);
  }

  piece(from: number, to: number, at: number[] | undefined, marks: Marks | null) {
    const node = made("span", "piece");
    colour(node, this.text.slice(from, to), this.language);
    if (marks && at) markText(node, at.slice(from, to), marks);
    this.code.append(node);
    return node;
  }
}
