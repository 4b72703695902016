// Code blocks: frame, highlighting, and blocks that are still being written.

import hljs from "../../../../assets/ui/vendor/highlight/highlight.min.js";
import { copy, h } from "../dom.js";
import { markText } from "./marks.js";
import { words } from "../words.js";

const PIECE = 1200; // characters after which the next line of a growing block begins a piece of its own

function colour(node, text, language) {
  if (hljs.getLanguage(language ?? "")) node.innerHTML = hljs.highlight(text, { language, ignoreIllegals: true }).value;
  else node.textContent = text;
}

// Makes the frame around `pre`, which holds `code`.
function framed(pre, code, language) {
  pre.tabIndex = 0; // long lines can be scrolled by keyboard
  const button = h("button", { class: "ft-link", type: "button", on: { click: () => copy(code.textContent, button, words.copied) } }, words.copy);
  return h("div", { class: "code" }, h("div", { class: "code-bar", dataset: { chrome: "1" } }, h("span", {}, language ?? words.plainCode), button), pre);
}

// Frames and highlights code in the page.
export function dressCode(pre) {
  const code = pre.querySelector("code");
  if (!code) return;
  const language = /language-(\S+)/.exec(code.className)?.[1];
  colour(code, code.textContent, language);
  const place = document.createComment("");
  pre.replaceWith(place);
  place.replaceWith(framed(pre, code, language));
}

// A code block that grows. Only its last lines are highlighted again; those before them stay in pieces that were
// highlighted separately. The complete block is drawn as one.
export class GrowingCode {
  constructor(info) {
    this.info = info; // the text behind the fence
    this.language = /^\S+/.exec(info ?? "")?.[0];
    this.code = h("code", {});
    this.node = framed(h("pre", {}, this.code), this.code, this.language);
    this.from = 0; // where the last piece begins
    this.text = "";
  }

  // Returns whether `text` continues this block.
  becomes(info, text) {
    return info === this.info && text.startsWith(this.text);
  }

  // `at`: the offsets of its characters, where `marks` are to be drawn.
  grow(text, at, marks) {
    this.text = text;
    this.last?.remove();
    for (let end = text.lastIndexOf("\n") + 1; end - this.from > PIECE; this.from = end) this.piece(this.from, end, at, marks);
    this.last = this.piece(this.from, text.length, at, marks);
  }

  piece(from, to, at, marks) {
    const node = h("span", { class: "piece" });
    colour(node, this.text.slice(from, to), this.language);
    if (marks && at) markText(node, at.slice(from, to), marks);
    this.code.append(node);
    return node;
  }
}
