// The offsets in the message of the texts of parsed Markdown. marked gives each token's source (`raw`), in order and
// without gaps, so offsets follow by counting. What does not add up, such as a table cell with an escaped bar, gets no
// offsets, and then no marks.
//
export type Source = { text: string; at: number[] }; // `at`: the offset in the message of each UTF-16 unit of `text`.

// A token of marked, which has a different shape for each type.
export type Token = any;

const cut = ({ text, at }: Source, from: number, to = text.length) => ({
  text: text.slice(from, to),
  at: at.slice(from, to),
});

// Returns the text from `from` on as marked reads it, with "\n" for "\r\n" and "\r". `base`: its offset in the message.
export function source(message: string, from = 0, base = 0): Source {
  const at = [];
  for (let i = from; i < message.length; i += 1) if (message[i] !== "\n" || message[i - 1] !== "\r") at.push(base + i);
  return { text: message.slice(from).replace(/\r\n?/g, "\n"), at };
}

// Sets `at` of every leaf among `tokens` that is drawn as text. Returns where in `from` the tokens end.
export function place(tokens: Token[], from: Source) {
  let start = 0;
  for (const token of tokens) {
    if (token.type === "checkbox") continue; // not part of its item's text
    if (!from.text.startsWith(token.raw, start)) return start;
    const end = start + token.raw.length;
    inside(token, cut(from, start, end));
    start = end;
  }
  return start;
}

function inside(token: Token, raw: Source) {
  const half = (raw.text.length - (token.text?.length ?? 0)) / 2; // half of the markup around a text
  switch (token.type) {
    case "escape":
      token.at = raw.at.slice(1);
      break;
    case "codespan":
      if (Number.isInteger(half)) token.at = raw.at.slice(half, raw.at.length - half);
      break;
    case "code":
      token.at = code(token, raw)?.at;
      break;
    case "list":
      place(token.items, raw);
      break;
    case "list_item":
    case "blockquote": {
      const inner = lines(token.text, raw);
      if (inner) place(token.tokens, inner);
      break;
    }
    case "table":
      table(token, raw);
      break;
    case "heading":
      place(token.tokens, cut(raw, /^ {0,3}#{1,6}[ \t]*/.exec(raw.text)?.[0].length ?? 0));
      break;
    case "strong":
    case "em":
    case "del":
      place(token.tokens, cut(raw, half));
      break;
    case "link":
      if (token.autolink)
        token.at = raw.at.slice(raw.text[0] === "<" ? 1 : 0); // drawn without its tokens
      else place(token.tokens, cut(raw, 1));
      break;
    case "paragraph":
    case "text":
      if (token.tokens) place(token.tokens, raw);
      else token.at = raw.at;
  }
}

function code(token: Token, raw: Source) {
  if (raw.text.startsWith(token.text)) return cut(raw, 0, token.text.length);
  const fence = /^ {0,3}(?:`{3,}|~{3,}).*\n/.exec(raw.text)?.[0].length ?? 0;
  return lines(token.text, cut(raw, fence));
}

// Returns the text inside `raw`, each line of which lost a prefix: an indentation, a ">".
function lines(text: string, raw: Source): Source | null {
  const whole = raw.text.split("\n");
  const at: number[] = [];
  let start = 0;
  for (const [i, line] of text.split("\n").entries()) {
    if (!whole[i]?.endsWith(line)) return null;
    const end = start + whole[i].length;
    if (i > 0) at.push(raw.at[start - 1]); // the line break before
    at.push(...raw.at.slice(end - line.length, end));
    start = end + 1;
  }
  return { text, at };
}

function table(token: Token, raw: Source) {
  let start = 0;
  for (const [i, line] of raw.text.split("\n").entries()) {
    const row = i === 0 ? token.header : token.rows[i - 2];
    if (row && i !== 1)
      cells(line).forEach(([from, to], column) => {
        const cell = row[column];
        if (cell && line.slice(from, to) === cell.text) place(cell.tokens, cut(raw, start + from, start + to));
      });
    start += line.length + 1;
  }
}

// Returns the [start, end] of each cell in a table's line.
function cells(line: string) {
  const found: [start: number, end: number][] = [];
  let from = 0;
  for (let i = 0; i <= line.length; i += 1) {
    if (line[i] === "\\") i += 1;
    else if (i === line.length || line[i] === "|") {
      const text = line.slice(from, i);
      const start = from + text.length - text.trimStart().length;
      found.push([start, start + text.trim().length]);
      from = i + 1;
    }
  }
  const blank = (index: number) => found.length > 0 && found[index][0] >= found[index][1];
  if (blank(0)) found.shift();
  if (blank(found.length - 1)) found.pop();
  return found;
}
