// Every word of rounds, replays and the speed of a reply.

import { count, fixed, percent, seconds, speed, times, type Figure, several } from "../format";
import type { Stats } from "../figures/figures";

// A sentence: texts, and tokens, which are drawn as such.
export type Sentence = (string | { token: string })[];

const token = (text: string) => ({ token: text });
const share = (part: number, whole: number) => (whole > 0 ? ` (${percent(part / whole)})` : "");
const likely = (p: Figure) => (p === null || p === undefined ? "" : ` (${percent(p)})`);

export const words = {
  // ---- the signs of tokens
  fates: {
    a: "accepted",
    r: "rejected",
    u: "not checked",
    x: "accepted, but the reply had ended",
    c: "correction",
    b: "bonus",
  },
  legendName: "Legend",
  legend: {
    accepted: "accepted",
    rejected: "rejected",
    unseen: "not checked",
    correction: "correction",
    bonus: "bonus",
  },
  legendHints: {
    accepted: "Drafted, and accepted by the target",
    rejected: "Drafted, and rejected by the target",
    unseen: "Drafted after a rejected token",
    correction: "The target's own token in place of a rejected one",
    bonus: "The target's own token after all drafted ones were accepted",
  },

  // ---- what became of a token
  guessed: (text: string, q: Figure) => ["The draft guessed ", token(text), `${likely(q)}. `] as Sentence,
  follows: (text: string) => ["It follows ", token(text), ". "] as Sentence,
  accepted: (p: Figure) =>
    p === null || p === undefined ? "The target accepts it." : `The target gives it ${percent(p)} and accepts it.`,
  afterEnd: "The target accepts it, but the reply ended before it.",
  notChecked: "Not checked: an earlier token was rejected.",
  refused: (p: Figure, text: string, theirs: Figure) => {
    const verb = typeof p === "number" && typeof theirs === "number" && theirs < p ? "chose" : "prefers";
    const mine = typeof p === "number" ? `The target gives it ${percent(p)}, and ` : "The target ";
    return [mine, `${verb} `, token(text), `${likely(theirs)}.`] as Sentence;
  },
  corrected: (text: string, p: Figure, instead: string) =>
    ["The target's own ", token(text), `${likely(p)}, instead of `, token(instead), "."] as Sentence,
  added: (text: string, p: Figure, drafted: number) => {
    const after = drafted ? `, after all ${drafted} drafted tokens were accepted.` : ". Nothing was drafted.";
    return ["The target's own ", token(text), `${likely(p)}${after}`] as Sentence;
  },
  addedAlong: (text: string, p: Figure) =>
    ["The target's own ", token(text), `${likely(p)}, after the accepted branch.`] as Sentence,
  ended: " The reply ended before it.",
  topTokens: "Most likely here:",

  // ---- rounds
  rounds: "Rounds",
  empty:
    "The rounds of the next reply appear here: drafted tokens, which were accepted, and what the model chose instead.",
  none: "No round data for this reply. It was imported, edited, stopped before the first round, or came from a server that does not report rounds.",
  totalsName: "Totals",
  totals: (s: Stats) => [
    { name: "rounds", label: s.rounds === 1 ? "round" : "rounds", value: count(s.rounds) },
    { name: "drafted", label: "drafted", value: count(s.drafted) },
    { name: "accepted", label: "accepted", value: `${count(s.accepted)}${s.drafted ? likely(s.acceptance_rate) : ""}` },
    { name: "length", label: "tokens per round", value: fixed(s.mean_acceptance_length) },
    { name: "tokens", label: s.completion_tokens === 1 ? "token" : "tokens", value: count(s.completion_tokens) },
  ],
  text: "Text",
  textHint: "Show the text of each round",
  latest: "Latest round",
  newest: "Newest",
  drafter: "Drafting method from this round on",
  nothing: "no confident guess",
  unasked: "last token",
  ofRun: (n: number) => `${several(n, "round")} not drafted`,
  because: (what: string, why: string | null) => (why ? `${what}: ${why}` : what),
  row: (n: number, accepted: number, drafted: number, rejected: string | null) =>
    `Round ${n}: ${accepted} of ${drafted} accepted${rejected === null ? "" : `, rejected at ${JSON.stringify(rejected)}`}`,
  saveHtml: "Save as HTML",
  saveHtmlHint: "A replay in one HTML file; opens offline",
  saveTrace: "Save as JSONL",
  saveTraceHint: "All events, one JSON object per line",

  // ---- the replay
  replay: "Replay",
  play: "Play",
  pause: "Pause",
  first: "To the start",
  before: "Previous round",
  next: "Next round",
  speed: "Speed",
  times: (x: number) => `${x}x`,
  place: "Position",
  now: (n: number, of: number, time: number) => `round ${count(n)} of ${count(of)}, ${seconds(time)}`,
  time: (time: number, duration: number) => `${fixed(time)} of ${fixed(duration)} s`,
  figures: { speed: "tokens/s", rate: "accepted", length: "tokens per round", tokens: "tokens", depth: "depth" },
  figure: { speed, rate: percent, length: fixed, tokens: count, depth: count },
  parts: { draft: "draft", verify: "verify", rest: "other" },
  part: (name: string, time: number, whole: number) => `${name} ${seconds(time)}${share(time, whole)}`,
  timeSpent: "Time spent",
  positions: "Accepted by position",
  positionsCaption: "Accepted by position, %",
  positionsHint: "Share of rounds that accepted the 1st, 2nd, … drafted token",
  lengths: "Accepted tokens per round",
  lengthsCaption: "Rounds by accepted tokens",
  lengthsHint: "How many rounds accepted 0, 1, 2, … drafted tokens",
  noCharts: "Nothing was drafted.",

  // ---- the speed of a reply while it is written
  gauge: {
    name: "Speed",
    speed: (now: Figure) => `${speed(now)} tokens/s`,
    times: (x: Figure, plain: Figure) => `${times(x)} (without drafting: ${speed(plain)} tokens/s)`,
    plainSpeed: (plain: Figure) => `without drafting: ${speed(plain)} tokens/s`,
    repeats: "reuses its earlier version",
    nothing: "nothing drafted",
    unknown: "speed without drafting not measured yet",
    expected: (rate: Figure) => `expected acceptance ${percent(rate)}`,
    expectedHint: "Forecast for each token of the next drafts. Rounds shows how many were accepted.",
    breakEven: (needed: Figure) => `break-even ${percent(needed)}`,
    breakEvenHint: "With less acceptance, drafting is slower than not drafting.",
  },

  // ---- the figures of a finished reply
  figuresName: "More figures",
  stats: {
    speed: (x: Figure) => `${speed(x)} tokens/s`,
    speedHint: "Average over the whole reply",
    times,
    timesHint: (plain: Figure) => `Estimated: about ${speed(plain)} tokens/s without drafting. Use Race to measure.`,
    rate: "of drafted tokens accepted",
    length: "tokens per round",
    plain: "tokens/s without drafting, estimated",
    first: "time to first token",
    notDrafted: "not drafted",
    shared: "The server does not count per reply. These figures include other requests.",
  },
};
