// Markdown to DOM, block by block: marked parses, DOMPurify sanitises, highlight.js and KaTeX finish.

import DOMPurify from "dompurify";
import { Lexer, Marked, Renderer, type TokenizerAndRendererExtension } from "marked";
import { dressCode } from "./code";
import { markBlock, type Marks } from "./marks";
import type { Token } from "./places";

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (text: string) => text.replace(/[&<>"']/g, (c) => escapes[c]);

const mathHtml = (token: Token) =>
  `<span class="math" data-tex="${escape(token.text)}" data-raw="${escape(token.raw)}"` +
  `${token.display ? ' data-display="1"' : ""}></span>`;

const blockMath: TokenizerAndRendererExtension = {
  name: "blockMath",
  level: "block",
  start: (src) => src.match(/(^|\n)(\$\$|\\\[)/)?.index,
  tokenizer(src) {
    const found = /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/.exec(src);
    if (found) return { type: "blockMath", raw: found[0], text: (found[1] ?? found[2]).trim(), display: true };
  },
  renderer: (token) => `<p>${mathHtml(token)}</p>`,
};

const inlineMath: TokenizerAndRendererExtension = {
  name: "inlineMath",
  level: "inline",
  start: (src) => src.match(/\$|\\\(|\\\[/)?.index,
  tokenizer(src) {
    const found =
      /^\$\$([^$]+?)\$\$/.exec(src) ??
      /^\\\[([\s\S]+?)\\\]/.exec(src) ??
      /^\$(?![\s$])((?:\\.|[^$\\\n])*?[^\s\\$])\$(?!\d)/.exec(src) ??
      /^\\\(([\s\S]+?)\\\)/.exec(src);
    if (!found) return undefined;
    return { type: "inlineMath", raw: found[0], text: found[1].trim(), display: /^(\$\$|\\\[)/.test(found[0]) };
  },
  renderer: mathHtml,
};

// JSON without a fence; in a paragraph its lines would lose their indentation.
const bareJson: TokenizerAndRendererExtension = {
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
function endOfJson(src: string) {
  let depth = 0;
  for (const { 0: part, index } of src.matchAll(/"(?:\\.|[^"\\])*"|[{}[\]]/gs)) {
    if ("{[".includes(part)) depth += 1;
    else if ("}]".includes(part)) depth -= 1;
    if (depth === 0) return index + 1;
  }
  return src.length;
}

// Offsets of the characters of each leaf of the block being drawn; `data-leaf` is an index in it.
let leaves: number[][] = [];
const entity = /(&(?:#x[\da-f]{1,6}|#\d{1,7}|[a-z][a-z\d]*);)/i;

const leafOf = (tag: string, at: number[], html: string) =>
  `<${tag} data-leaf="${leaves.push(at) - 1}">${html}</${tag}>`;

// Draws a token whose place is known in an element that says so, and others as marked does.
function leafText(token: Token) {
  if (!token.at || token.escaped) return false;
  if (token.type === "escape") return leafOf("span", token.at, escape(token.text));
  let from = 0;
  return token.raw
    .split(entity)
    .map((part: string, i: number) => {
      const at = token.at.slice(from, from + part.length);
      from += part.length;
      // An entity becomes one character, of one or two units.
      return part && leafOf("span", i % 2 ? [at[0], at[0]] : at, i % 2 ? part : escape(part));
    })
    .join("");
}

function leaf(kind: "codespan" | "code" | "link") {
  return function draw(this: any, token: Token) {
    if (!token.at) return false;
    return leafOf(kind === "code" ? "div" : "span", token.at, Renderer.prototype[kind].call(this, token));
  };
}

// Tags that a reply may draw with. Others would vanish: `<url>`, or a page without a fence; they are shown as written.
const drawn = new Set(
  (
    "a abbr b blockquote br caption center code dd del details div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i img " +
    "ins kbd li mark ol p pre q s small span strong sub summary sup table tbody td tfoot th thead tr u ul var"
  ).split(" "),
);

function htmlText({ text, block }: Token) {
  const tags = [...text.matchAll(/<[/]?([a-z][^\s/>]*)|<!/gi)];
  if (tags.every(([, name]) => name && drawn.has(name.toLowerCase()))) return text;
  const shown = escape(text.trimEnd()).replaceAll("\n", "<br>");
  return block ? `<p>${shown}</p>` : shown;
}

const marked = new Marked({
  gfm: true,
  breaks: true, // models mean their line breaks
  extensions: [],
  renderer: {
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    text: leafText,
    html: htmlText,
    codespan: leaf("codespan"),
    code: leaf("code"),
    link: leaf("link"),
  },
});
marked.use({ extensions: [blockMath, inlineMath, bareJson] });

// Parses a text into tokens, one for each block. `links` are link definitions before it; the tokens' `links` has these
// and the text's own.
export function parse(text: string, links = {}) {
  const lexer = new Lexer(marked.defaults);
  Object.assign(lexer.tokens.links, links);
  return lexer.lex(text);
}

// A reply must not load anything or draw controls.
const policy = {
  USE_PROFILES: { html: true },
  FORBID_TAGS: [
    "img",
    "picture",
    "source",
    "video",
    "audio",
    "style",
    "form",
    "input",
    "button",
    "textarea",
    "select",
    "iframe",
    "object",
    "dialog",
  ],
  FORBID_ATTR: ["style", "id", "name", "srcset", "background", "ping"],
  ADD_ATTR: ["target"],
  ALLOW_DATA_ATTR: true,
  RETURN_DOM_FRAGMENT: true,
};
const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") leadAway(node);
  keepOwnClasses(node);
});
// An image becomes a link to it.
purify.addHook("beforeSanitizeElements", (node) => {
  if (node.nodeName === "IMG") (node as Element).before(imageLink(node as Element));
});

// A reply must not look like a part of the app, whose styles go by class.
function keepOwnClasses(node: Element) {
  const own = [...node.classList].filter((name) => name === "math" || name.startsWith("language-"));
  if (own.length) node.setAttribute("class", own.join(" "));
  else node.removeAttribute("class");
}

function leadAway(link: Element) {
  link.setAttribute("target", "_blank");
  link.setAttribute("rel", "noopener noreferrer nofollow");
}

function imageLink(image: Element) {
  const address = image.getAttribute("src") ?? "";
  const safe = /^https?:/i.test(address); // the sanitiser does not see what is put before its place
  const node = document.createElement(safe ? "a" : "span");
  node.textContent = image.getAttribute("alt") ? `Image: ${image.getAttribute("alt")}` : "Image";
  node.title = "Foretoken loads no images from the web. Open the link to see it.";
  if (safe) {
    node.setAttribute("href", address);
    leadAway(node);
  }
  return node;
}

let katex: typeof import("katex").default | null = null;

async function drawMath(node: HTMLElement) {
  node.textContent = node.dataset.tex ?? "";
  katex ??= (await import("katex")).default;
  katex.render(node.dataset.tex ?? "", node, {
    displayMode: "display" in node.dataset,
    throwOnError: false,
    trust: false,
    strict: "ignore",
  });
}

// Draws a token of `parse`.
// With `marks`, the token's places must be known (`place`).
export function renderBlock(token: Token, marks: Marks | null) {
  leaves = [];
  const node = document.createElement("div");
  node.className = "block";
  node.dir = token.type === "code" ? "ltr" : "auto";
  node.append(purify.sanitize(marked.parser([token]), policy));
  const all = (selector: string) => node.querySelectorAll(selector) as NodeListOf<HTMLElement>;
  all(".math").forEach(drawMath);
  all("pre").forEach(dressCode);
  all("table").forEach((table) => {
    const frame = document.createElement("div");
    frame.className = "table";
    table.replaceWith(frame);
    frame.append(table);
  });
  if (marks) markBlock(node, leaves, marks);
  return node;
}
