// The state of a reply after each of its rounds, as running sums, so that any round is looked up in constant time. No DOM.

import { firstIndex } from "../search";

// Accepted, accepted after the end of the reply, rejected, not checked.
type Fate = "a" | "x" | "r" | "u";
type Drafted = [text: string, fate: Fate, p: number | null, q: number | null];

// The target's most likely tokens.
export type TopTokens = [text: string, p: number | null][];

// A round as app/ui/rounds/view.py tells it.
export interface Round {
  i: number; // its index
  d: Drafted[];
  n: [text: string, origin: "c" | "b", p: number | null, emitted: boolean]; // the target's own token
  k: string; // marks
  s: string; // text
  g: number; // how far it might draft
  c: [draft: number, verify: number, total: number]; // seconds
  l?: TopTokens; // in the place of n
  o?: string; // the title of the method that drafted
  w?: [why: string, depth: number]; // what the controller decided, if it changed its mind
  b?: number[]; // the parent of each of d, if they are a tree; -1 is the text
}

// Returns the index after all values that are not above `value`.
const after = (sorted: number[], value: number) => firstIndex(sorted.length, (i) => sorted[i] > value);

const countOf = (round: Round, fates: string) =>
  round.d.reduce((sum, [, fate]) => sum + Number(fates.includes(fate)), 0);
// Returns how many drafted tokens the target agreed with, and how many of those are in the reply: some may be after its end.
export const agreedOf = (round: Round) => countOf(round, "ax");
export const acceptedOf = (round: Round) => countOf(round, "a");

export class Timeline {
  rounds: Round[] = [];
  // Sums after n rounds.
  seconds = [0];
  draft = [0];
  verify = [0];
  tokens = [0];
  drafted = [0];
  accepted = [0];
  marks = [0];
  decisions: ([why: string, depth: number] | null)[] = []; // in force at each round
  counted = { n: 0, counts: [] as number[] };

  constructor(rounds: Round[] = []) {
    this.add(rounds);
  }

  get length() {
    return this.rounds.length;
  }

  get duration() {
    return this.seconds[this.length];
  }

  add(rounds: Round[]) {
    const sum = (sums: number[], more: number) => sums.push(sums[sums.length - 1] + more);
    for (const round of rounds) {
      const [draft, verify, total] = round.c;
      const accepted = acceptedOf(round);
      sum(this.seconds, total);
      sum(this.draft, draft);
      sum(this.verify, verify);
      sum(this.tokens, accepted + Number(round.n[3]));
      sum(this.drafted, round.d.length);
      sum(this.accepted, accepted);
      sum(this.marks, round.k ? round.k.split(" ").length : 0);
      this.decisions.push(round.w ?? this.decisions.at(-1) ?? null);
      this.rounds.push(round);
    }
  }

  // Returns how many rounds have ended by then.
  at(seconds: number) {
    return Math.max(0, after(this.seconds, seconds) - 1);
  }

  // Returns the round that emitted a token, by the token's number among those with text (as in marks.ts); -1: none.
  ofToken(token: number) {
    return token >= 0 && token < this.marks[this.length] ? after(this.marks, token) - 1 : -1;
  }

  // Returns the tokens of a round, counted as in marks.ts: [first, after the last].
  tokensOf(round: number) {
    return [this.marks[round], this.marks[round + 1]];
  }

  // Returns the figures after n rounds, as defined in engine/stats.py; null if unknown yet.
  after(n: number) {
    const [seconds, draft, verify] = [this.seconds[n], this.draft[n], this.verify[n]];
    const [tokens, drafted, accepted] = [this.tokens[n], this.drafted[n], this.accepted[n]];
    return {
      seconds,
      parts: { draft, verify, rest: Math.max(0, seconds - draft - verify) },
      tokens,
      speed: seconds > 0 ? tokens / seconds : null,
      rate: drafted ? accepted / drafted : null,
      length: n ? 1 + accepted / n : null,
      depth: n ? this.rounds[n - 1].g : null,
      why: n ? this.why(n - 1) : null,
    };
  }

  // Returns the controller's reason for a round; null if the last reported decision was for another depth.
  why(index: number) {
    const { d, g } = this.rounds[index];
    const decision = this.decisions[index];
    if (!d.length && g > 0) return "no confident guess";
    if (!decision) return null; // without a controller, as without drafting
    const [why, depth] = decision;
    if (depth === g) return why;
    return d.length ? null : "last token";
  }

  // Returns how many of the first n rounds accepted 0, 1, ... drafted tokens.
  lengths(n: number) {
    const from = this.counted.n <= n ? this.counted : { n: 0, counts: [] };
    for (let i = from.n; i < n; i += 1) {
      const accepted = this.accepted[i + 1] - this.accepted[i];
      while (from.counts.length <= accepted) from.counts.push(0);
      from.counts[accepted] += 1;
    }
    this.counted = { n, counts: from.counts };
    return [...from.counts];
  }

  // Returns the share of the first n rounds that accepted the first, second, ... drafted token.
  positions(n: number) {
    const lengths = this.lengths(n);
    return lengths.slice(1).map((_, position) => lengths.slice(position + 1).reduce((a, b) => a + b, 0) / n);
  }

  // Returns the text of the first n rounds, at most its last `limit` characters.
  text(n: number, limit = Infinity) {
    const parts = [];
    for (let i = n - 1, length = 0; i >= 0 && length < limit; i -= 1) {
      parts.push(this.rounds[i].s);
      length += this.rounds[i].s.length;
    }
    const text = parts.reverse().join("");
    return text.length > limit ? text.slice(-limit) : text;
  }
}

// ---- the rows in which a reply's rounds are listed: consecutive rounds that drafted nothing, for one reason, share a row. No DOM

// Its rounds, without `to`.
type Row = { from: number; to: number; folded: boolean };

export class Rows {
  timeline = new Timeline();
  rows: Row[] = [];
  rowOf: number[] = []; // the row of each round
  changes = new Set<number>(); // rounds from which another method drafts
  drafter: string | null = null;

  // Adds the rounds of `all` that are not here yet.
  take(all: Round[]) {
    for (const round of all.slice(this.timeline.length)) this.add(round);
  }

  add(round: Round) {
    const { timeline, rows } = this;
    const index = timeline.length;
    timeline.add([round]);
    if (round.o && this.drafter && round.o !== this.drafter) this.changes.add(index);
    this.drafter = round.o ?? this.drafter;
    const last = rows.at(-1);
    const folded = round.d.length === 0;
    if (folded && last?.folded && timeline.why(last.from) === timeline.why(index)) last.to += 1;
    else rows.push({ from: index, to: index + 1, folded });
    this.rowOf.push(rows.length - 1);
  }

  // Returns whether anything was drafted.
  get drafted() {
    return this.timeline.drafted[this.timeline.length] > 0;
  }
}
