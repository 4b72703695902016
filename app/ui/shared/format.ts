// How numbers are written, on every page. An unknown number is a dash.

export type Figure = number | null | undefined;

const UNKNOWN = "–";

const known = (x: Figure, write: (x: number) => string) => (x === null || x === undefined ? UNKNOWN : write(x));

// 12,345
export const count = (x: Figure) => known(x, (n) => n.toLocaleString("en"));
// The text, or as much of it as `most` characters hold
export const cut = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
// 1 token, 12 tokens
export const several = (n: number, one: string) => `${count(n)} ${one}${n === 1 ? "" : "s"}`;
// 2.50
export const fixed = (x: Figure, digits = 2) => known(x, (n) => n.toFixed(digits));
// A share from 0 to 1: 83 %, with a space at which no line breaks
export const percent = (x: Figure) => known(x, (n) => `${(100 * n).toFixed(n > 0 && n < 0.1 ? 1 : 0)}\u00a0%`);
// A speed-up: 1.6x
export const times = (x: Figure) => known(x, (n) => `${n.toFixed(n >= 10 ? 0 : n < 0.1 ? 2 : 1)}x`);
// Tokens per second: 19.5
export const speed = (x: Figure) => known(x, (n) => (n < 100 ? n.toFixed(1) : count(Math.round(n))));
// 80 ms, 1.2 s
export const seconds = (x: Figure) => known(x, (n) => (n < 1 ? `${Math.round(1000 * n)} ms` : `${n.toFixed(1)} s`));
