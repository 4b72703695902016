// Markdown to DOM, block by block: marked parses, DOMPurify sanitises, highlight.js and KaTeX finish.

import DOMPurify from "../../../../assets/ui/vendor/dompurify/purify.es.js";
import { Lexer, Marked, Renderer } from "../../../../assets/ui/vendor/marked/marked.esm.js";
import { dressCode } from "./code.js";
import { h } from "../dom.js";
import { markBlock } from "./marks.js";

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (text) => text.replace(/[&<>"']/g, (c) => escapes[c]);

const mathHtml = (token) =>
  `<span class="math" data-tex="${escape(token.text)}" data-raw="${escape(token.raw)}"` +
  `${token.display ? ' data-display="1"' : ""}></span>`;

const blockMath = {
  name: "blockMath",
  level: "block",
  start: (src) => src.match(/(^|\n)(\$\$|\\\[)/)?.index,
  tokenizer(src) {
    const found = /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/.exec(src);
    if (found) return { type: "blockMath", raw: found[0], text: (found[1] ?? found[2]).trim(), display: true };
  },
  renderer: (token) => `<p>${mathHtml(token)}</p>`,
};

const inlineMath = {
  name: "inlineMath",
  level: "inline",
  start: (src) => src.match(/\$|\\\(|\\\[/)?.index,
  tokenizer(src) {
    const found =
      /^\$\$([^$]+?)\$\$/.exec(src) ?? /^\\\[([\s\S]+?)\\\]/.exec(src) ??
      /^\$(?![\s$])((?:\\.|[^$\\\n])*?[^\s\\$])\$(?!\d)/.exec(src) ?? /^\\\(([\s\S]+?)\\\)/.exec(src);
    if (!found) return undefined;
    return { type: "inlineMath", raw: found[0], text: found[1].trim(), display: /^(\$\$|\\\[)/.test(found[0]) };
  },
  renderer: mathHtml,
};

// JSON without a fence; in a paragraph its lines would lose their indentation.
const bareJson = {
  name: "bareJson",
  level: "block",
  start: (src) => src.match(/(^|\n)[{[]/)?.index,
  tokenizer(src) {
    if (!/^(?:\{\s*["}]|\[\s*[{[]|\[\n)/.test(src)) return undefined;
    const end = endOfJson(src);
    const after = /^[ \t]*(?:\n|$)/.exec(src.slice(end));
    if (!after) return undefined;
    return { type: "code", raw: src.slice(0, end + after[0].length), lang: "json", text: src.slice(0, end) };
  },
};

// Returns where the bracket that opens `src` is closed; its length if it is not closed yet.
function endOfJson(src) {
  let depth = 0;
  for (const { 0: part, index } of src.matchAll(/"(?:\\.|[^"\\])*"|[{}[\]]/gs)) {
    if ("{[".includes(part)) depth += 1;
    else if ("}]".includes(part)) depth -= 1;
    if (depth === 0) return index + 1;
  }
  return src.length;
}

// Offsets of the characters of each leaf of the block being drawn; an element's `data-leaf` is an index in it.
let leaves = [];
const entity = /(&(?:#x[\da-f]{1,6}|#\d{1,7}|[a-z][a-z\d]*);)/i;

const leafOf = (tag, at, html) => `<${tag} data-leaf="${leaves.push(at) - 1}">${html}</${tag}>`;

// Draws a token whose place is known in an element that says so, and others as marked does.
function leafText(token) {
  if (!token.at || token.escaped) return false;
  if (token.type === "escape") return leafOf("span", token.at, escape(token.text));
  let from = 0;
  return token.raw.split(entity).map((part, i) => {
    const at = token.at.slice(from, from + part.length);
    from += part.length;
    // An entity becomes one character, of one or two units.
    return part && leafOf("span", i % 2 ? [at[0], at[0]] : at, i % 2 ? part : escape(part));
  }).join("");
}

function leaf(kind) {
  return function draw(token) {
    if (!token.at) return false;
    return leafOf(kind === "code" ? "div" : "span", token.at, Renderer.prototype[kind].call(this, token));
  };
}

const marked = new Marked({
  gfm: true,
  breaks: true, // models mean their line breaks
  extensions: [],
  renderer: { checkbox: ({ checked }) => (checked ? "☑ " : "☐ "), text: leafText, codespan: leaf("codespan"), code: leaf("code"), link: leaf("link") },
});
marked.use({ extensions: [blockMath, inlineMath, bareJson] });

// Parses a text into tokens, one for each block. `links` are link definitions before it; the tokens' `links` has these
// and the text's own.
export function parse(text, links = {}) {
  const lexer = new Lexer(marked.defaults);
  Object.assign(lexer.tokens.links, links);
  return lexer.lex(text);
}

// A reply must not load anything or draw controls.
const policy = {
  USE_PROFILES: { html: true },
  FORBID_TAGS: ["img", "picture", "source", "video", "audio", "style", "form", "input", "button", "textarea", "select", "iframe", "object", "dialog"],
  FORBID_ATTR: ["style", "id", "name", "srcset", "background", "ping"],
  ADD_ATTR: ["target"],
  ALLOW_DATA_ATTR: true,
  RETURN_DOM_FRAGMENT: true,
};
const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
});

let katex = null;
let katexLoading = null;
function withKatex(f) {
  if (katex) return f(katex);
  katexLoading ??= import("../../../../assets/ui/vendor/katex/katex.js").then((module) => (katex = module.default));
  return katexLoading.then(f);
}

function drawMath(node) {
  node.textContent = node.dataset.tex;
  withKatex((library) =>
    library.render(node.dataset.tex, node, { displayMode: "display" in node.dataset, throwOnError: false, trust: false, strict: "ignore" }));
}

// Draws a token of `parse`. `marks` null: without marks; otherwise the token's places must be known (`place`).
export function renderBlock(token, marks) {
  leaves = [];
  const node = h("div", { class: "block", dir: token.type === "code" ? "ltr" : "auto" });
  node.append(purify.sanitize(marked.parser([token]), policy));
  node.querySelectorAll(".math").forEach(drawMath);
  node.querySelectorAll("pre").forEach(dressCode);
  node.querySelectorAll("table").forEach((table) => {
    const frame = h("div", { class: "table" });
    table.replaceWith(frame);
    frame.append(table);
  });
  if (marks) markBlock(node, leaves, marks);
  return node;
}
