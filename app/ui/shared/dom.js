// Small helpers over the DOM, and how numbers and tokens are written.

// Creates an element. `attributes` may hold `class`, `dataset`, `on` (listeners) and properties.
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (name === "on") for (const [event, f] of Object.entries(value)) node.addEventListener(event, f);
    else if (name in node && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Returns a token as nodes; leading, trailing and lone whitespace is made visible.
export function showToken(text) {
  const nodes = [];
  if (text === "") return [h("span", { class: "ws" }, "∅")];
  for (const part of text.split(/(\n|\t|^ +| +$)/)) {
    if (part === "") continue;
    if (part === "\n") nodes.push(h("span", { class: "ws" }, "⏎"));
    else if (part === "\t") nodes.push(h("span", { class: "ws" }, "⇥"));
    else if (/^ +$/.test(part)) nodes.push(h("span", { class: "ws" }, "·".repeat(part.length)));
    else nodes.push(part);
  }
  return nodes;
}

export const percent = (x) => (x === null || x === undefined ? "–" : `${(100 * x).toFixed(x > 0 && x < 0.1 ? 1 : 0)}%`);
export const fixed = (x, digits = 2) => (x === null || x === undefined ? "–" : x.toFixed(digits));
// Formats a speedup.
export const times = (x, digits = 1) => `${fixed(x, digits)}×`;
// True if much of a reply was copied from an earlier one: its speed says nothing about others.
export const repeats = (stats) => (stats.predicted?.accepted ?? 0) > stats.completion_tokens / 10;
const SHORTEST = 1; // seconds; the speed of a shorter reply is noise
const brief = (stats) => !stats.tokens_per_s || stats.completion_tokens / stats.tokens_per_s < SHORTEST;
// Returns the speedup over plain decoding; null if unknown, or if the reply is too short or mostly copied.
export const timesPlain = (stats) => (repeats(stats) || brief(stats) ? null : stats.speedup || null);
export const speed = (x) => (x === null || x === undefined ? "–" : x.toFixed(x < 100 ? 1 : 0));

export function seconds(x) {
  if (x === null || x === undefined) return "–";
  return x < 1 ? `${Math.round(1000 * x)} ms` : `${x.toFixed(1)} s`;
}

// Hands a text to the browser as a file to save.
export function saveFile(name, text, type = "text/plain") {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Returns the first of the indices 0 to `count` for which `reached` is true, by binary search; `count` if there is none.
export function firstIndex(count, reached) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reached(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Copies text and lets the button say so for a moment.
export async function copy(text, button, done) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "sr-only" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const label = button.dataset.label ?? (button.dataset.label = button.textContent);
  button.textContent = done;
  setTimeout(() => (button.textContent = label), 1400);
}

// Keeps a scrolling element at its newest line unless the reader scrolled up.
export class Follow {
  constructor(element, pill) {
    this.element = element;
    this.pill = pill;
    this.stuck = true;
    element.addEventListener("scroll", () => {
      this.stuck = element.scrollHeight - element.scrollTop - element.clientHeight < 48;
      if (pill) pill.hidden = this.stuck;
    }, { passive: true });
    pill?.addEventListener("click", () => this.toEnd());
    const sizes = new ResizeObserver(() => this.grown());
    for (const each of [element, element.firstElementChild]) if (each) sizes.observe(each);
  }

  toEnd() {
    this.stuck = true;
    if (this.pill) this.pill.hidden = true;
    this.element.scrollTop = this.element.scrollHeight;
  }

  grown() {
    if (this.stuck) this.element.scrollTop = this.element.scrollHeight;
  }
}
