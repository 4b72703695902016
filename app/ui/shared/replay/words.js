// What replays, rounds and the dial say.

import { fixed, percent, seconds, speed } from "../dom.js";

const share = (part, whole) => (whole > 0 ? ` (${percent(part / whole)})` : "");

export const say = {
  accepted: "accepted",
  rejected: "rejected",
  unseen: "not judged",
  cut: "accepted, behind the end of the reply",
  correction: "correction",
  bonus: "bonus",
  // Each is a row of texts and tokens; tokens are functions of the page, which draws them.
  guessed: (token, q) => ["The draft guessed ", token, q === null ? ". " : ` (${percent(q)}). `],
  kept: (p) => [p === null ? "The target keeps it." : `The target gives it ${percent(p)} and keeps it.`],
  keptBehindEnd: ["The target keeps it, but the reply ended before it."],
  refused: (p, token, theirs) => {
    const verb = p !== null && theirs !== null && theirs < p ? "chose" : "prefers";
    const mine = p === null ? "The target " : `The target gives it ${percent(p)}, and `;
    return [mine, `${verb} `, token, theirs === null ? "." : ` (${percent(theirs)}).`];
  },
  notJudged: ["It was not judged: the token before it was rejected."],
  corrected: (token, p, instead) => ["The target's own ", token, p === null ? "" : ` (${percent(p)})`, ", in place of ", instead, "."],
  added: (token, p, drafted) => ["The target's own ", token, p === null ? "" : ` (${percent(p)})`, drafted ? `, after all ${drafted} drafted tokens were kept.` : ". Nothing was drafted."],
  addedAlong: (token, p) => ["The target's own ", token, p === null ? "" : ` (${percent(p)})`, ", behind the branch that was kept."],
  ended: " The reply ended before it.",
  behind: (token) => ["It stands behind ", token, ". "],
  topTokens: "Likeliest here:",
  nothing: "no guess was found, or none was sure enough",
  unasked: "no draft was asked for",
  ofRun: (n, why) => `${n === 1 ? "1 round" : `${n} rounds`} without a draft: ${why}`,
  row: (n, accepted, drafted, token) => `Round ${n}: ${accepted} of ${drafted} accepted${token === null ? "" : `, broke at ${JSON.stringify(token)}`}`,
  replay: "Replay",
  play: "Play",
  pause: "Pause",
  first: "To the beginning",
  before: "One round back",
  next: "One round on",
  speed: "Speed",
  times: (x) => `${x}×`,
  place: "Place in the reply",
  now: (n, of, time) => `round ${n} of ${of}, ${seconds(time)}`,
  time: (time, duration) => `${fixed(time, 2)} of ${fixed(duration, 2)} s`,
  figures: { speed: "tokens/s", rate: "accepted", length: "tokens per round", tokens: "tokens", depth: "depth" },
  figure: { speed, rate: percent, length: fixed, tokens: String, depth: (x) => (x === null ? "–" : String(x)) },
  parts: { draft: "draft", verify: "verification", rest: "rest" },
  part: (name, time, whole) => `${name} ${seconds(time)}${share(time, whole)}`,
  times_: "Where the time went",
  positions: "Accepted by position",
  positionsHint: "Share of all rounds that accepted the first, second, ... drafted token",
  lengths: "Accepted tokens a round",
  lengthsHint: "How many rounds accepted so many drafted tokens",
  noCharts: "Nothing was drafted.",
};
