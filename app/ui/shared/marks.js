// Origin marks: which stretch of a message came from the draft, and which from the target.
//
// The engine tells each token's length and origin. Rendered Markdown has lost its source offsets, so
// each text node is found again in its own block's source, in order; syntax characters fall between.

const classes = { a: "accepted", c: "correction", b: "bonus" };

export class Marks {
  constructor(compact = "") {
    this.ends = []; // end offset of each token in the message
    this.origins = [];
    if (compact) for (const item of compact.split(" ")) this.push(Number(item.slice(1)), item[0]);
  }

  push(length, origin) {
    if (length === 0) return;
    this.ends.push((this.ends.at(-1) ?? 0) + length);
    this.origins.push(origin);
  }

  covered(offset) {
    return (this.ends.at(-1) ?? 0) >= offset;
  }

  // The token that holds the character at `offset`, or -1.
  at(offset) {
    let low = 0;
    let high = this.ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ends[middle] <= offset) low = middle + 1;
      else high = middle;
    }
    return low < this.ends.length ? low : -1;
  }
}

// Source offset of each character of a text node; `from` is where to look first.
function locate(text, raw, from) {
  const whole = raw.indexOf(text, from);
  if (whole >= 0) return { offsets: Array.from({ length: text.length }, (_, i) => whole + i), end: whole + text.length };
  const offsets = [];
  let end = from;
  for (const character of text.split("")) {
    const found = raw.indexOf(character, end);
    if (found >= 0 && found - end < 200) end = found + 1;
    offsets.push(Math.max(from, end - 1));
  }
  return { offsets, end };
}

function wrap(textNode, offsets, start, marks) {
  const fragment = document.createDocumentFragment();
  const text = textNode.data;
  let begin = 0;
  while (begin < text.length) {
    const token = marks.at(start + offsets[begin]);
    let end = begin + 1;
    while (end < text.length && marks.at(start + offsets[end]) === token) end += 1;
    const part = text.slice(begin, end);
    if (token < 0) {
      fragment.append(part);
    } else {
      const span = document.createElement("span");
      span.className = `mark ${classes[marks.origins[token]]}`;
      span.dataset.token = token;
      span.textContent = part;
      fragment.append(span);
    }
    begin = end;
  }
  textNode.replaceWith(fragment);
}

// Wraps the texts of a rendered block; `token` is marked's, `start` its offset in the message.
export function markBlock(node, token, start, marks) {
  let from = token.type === "code" ? Math.max(0, token.raw.indexOf(token.text)) : 0;
  const found = [];
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, {
    acceptNode(item) {
      if (item.nodeType === Node.TEXT_NODE) return NodeFilter.FILTER_ACCEPT;
      if (item.classList.contains("math") || "chrome" in item.dataset) return NodeFilter.FILTER_REJECT;
      return NodeFilter.FILTER_SKIP;
    },
  });
  while (walker.nextNode()) {
    const text = walker.currentNode.data;
    if (text.trim() === "" && !walker.currentNode.parentElement.closest("pre")) continue;
    const { offsets, end } = locate(text, token.raw, from);
    from = end;
    found.push([walker.currentNode, offsets]);
  }
  for (const [textNode, offsets] of found) wrap(textNode, offsets, start, marks);
}
