// The state of a reply after each of its rounds, as running sums, so that any round is looked up in constant time.
// Rounds are those of app/ui/rounds/view.py. No DOM.

import { firstIndex } from "../dom.js";
import { say } from "./words.js";

const SUMS = ["seconds", "draft", "verify", "tokens", "drafted", "accepted", "marks"];

// Returns the index behind all values that are not above `value`.
const after = (sorted, value) => firstIndex(sorted.length, (i) => sorted[i] > value);

const countOf = (round, fates) => round.d.reduce((sum, [, fate]) => sum + fates.includes(fate), 0);
// Returns how many drafted tokens the target agreed with, and how many of those are in the reply: some may be behind its end.
export const agreedOf = (round) => countOf(round, "ax");
export const acceptedOf = (round) => countOf(round, "a");

export class Timeline {
  // `lead`: seconds before the first round, such as the prefill.
  constructor(rounds = [], lead = 0) {
    this.rounds = [];
    this.lead = lead;
    this.decisions = []; // in force at each round: [why, depth] or null
    for (const name of SUMS) this[name] = [0]; // [n]: after n rounds
    this.seconds[0] = lead;
    this.add(rounds);
  }

  get length() {
    return this.rounds.length;
  }

  get duration() {
    return this.seconds.at(-1);
  }

  add(rounds) {
    for (const round of rounds) {
      const [draft, verify, total] = round.c;
      const more = { seconds: total, draft, verify, tokens: acceptedOf(round) + Number(round.n[3]), drafted: round.d.length, accepted: acceptedOf(round), marks: round.k ? round.k.split(" ").length : 0 };
      for (const name of SUMS) this[name].push(this[name].at(-1) + more[name]);
      this.decisions.push(round.w ?? this.decisions.at(-1) ?? null);
      this.rounds.push(round);
    }
  }

  // Returns how many rounds have ended by then.
  at(seconds) {
    return Math.max(0, after(this.seconds, seconds) - 1);
  }

  // Returns the round that emitted a token, by the token's number among those with text (as in marks.js); -1: none.
  ofToken(token) {
    return token >= 0 && token < this.marks.at(-1) ? after(this.marks, token) - 1 : -1;
  }

  // Returns the tokens of a round, counted as in marks.js: [first, behind the last].
  tokensOf(round) {
    return [this.marks[round], this.marks[round + 1]];
  }

  // Returns the figures after n rounds, as defined in engine/stats.py; null if unknown yet.
  after(n) {
    const found = Object.fromEntries(SUMS.map((name) => [name, this[name][n]]));
    const decode = found.seconds - this.lead;
    return {
      ...found,
      rounds: n,
      speed: decode > 0 ? found.tokens / decode : null,
      rate: found.drafted ? found.accepted / found.drafted : null,
      length: n ? 1 + found.accepted / n : null,
      rest: decode - found.draft - found.verify,
      depth: n ? this.rounds[n - 1].g : null,
      why: n ? this.why(n - 1) : null,
    };
  }

  // Returns the controller's reason for a round; null if the last reported decision was for another depth.
  why(index) {
    const { d, g } = this.rounds[index];
    const [why, depth] = this.decisions[index] ?? [null, null];
    if (d.length) return depth === g ? why : null;
    if (g > 0) return say.nothing;
    return depth === 0 ? why : say.unasked;
  }

  // Returns how many of the first n rounds accepted 0, 1, ... drafted tokens.
  lengths(n) {
    const from = this.counted && this.counted.n <= n ? this.counted : { n: 0, counts: [] };
    for (let i = from.n; i < n; i += 1) {
      const accepted = this.accepted[i + 1] - this.accepted[i];
      while (from.counts.length <= accepted) from.counts.push(0);
      from.counts[accepted] += 1;
    }
    this.counted = { n, counts: from.counts };
    return [...from.counts];
  }

  // Returns the share of the first n rounds that accepted the first, second, ... drafted token.
  positions(n) {
    const lengths = this.lengths(n);
    return lengths.slice(1).map((_, position) => lengths.slice(position + 1).reduce((a, b) => a + b, 0) / n);
  }

  // Returns the text of the first n rounds, at most its last `limit` characters.
  text(n, limit = Infinity) {
    const parts = [];
    for (let i = n - 1, length = 0; i >= 0 && length < limit; i -= 1) {
      parts.push(this.rounds[i].s);
      length += this.rounds[i].s.length;
    }
    const text = parts.reverse().join("");
    return text.length > limit ? text.slice(-limit) : text;
  }
}
