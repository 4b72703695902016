// Every word of the Race page.

import { several, times } from "../../shared/format";

const CUT = 100; // letters of a prompt that a line has room for
const cut = (text: string) => (text.length > CUT ? `${text.slice(0, CUT).trimEnd()} …` : text);

export const words = {
  title: "Race",
  intro: "Compares two setups on the same prompts, alternating the order. A winner is named only when the runs agree.",
  form: "Race",
  noModel: "No model is loaded. Load one on the Models page.",
  oneMethod:
    "The server decides how it drafts. Choose another server or a local model for the other side; otherwise only sampling differs.",

  sides: { base: "Baseline", rival: "Challenger" },
  none: "No drafting",
  usual: "Its default",
  prompts: "Prompts",
  one: "This prompt",
  chats: (n: number) => (n ? `My last ${n === 1 ? "prompt" : `${n} prompts`}` : "My last prompts (none yet)"),
  set: (n: number) => `Included set (${n} prompts)`,
  prompt: "Prompt",
  example: "Tell me a short story about a fox and a lantern.",
  start: "Start",
  startHint: "Each side warms up once, then both run five times, one at a time, each with an empty cache.",
  stop: "Stop",

  more: "More options",
  runsOn: "Runs on",
  onLoaded: (name: string) => `Loaded model: ${name}`,
  elsewhere: "Other server or model …",
  address: "Address or model",
  addressHint: "http://HOST:PORT#MODEL, or MODEL::DRAFT",
  asking: "Connecting …",
  method: "Method",
  depth: "Depth",
  rule: "Acceptance",
  temperature: "Temperature",
  max: "Max tokens",
  seed: "Seed",
  seedHint: "Empty = random",

  opening: (said: string) => `Loading the baseline: ${said}`,
  warming: (name: string) => `Warming up: ${name}`,
  running: (pair: number, of: number, name: string) => `Run ${pair} of ${of}: ${name}`,
  lane: { waiting: "waiting", warm: "warming up", writes: "writing", done: "done", cut: "stopped" },
  speed: "tokens/s",

  replay: "Replay side by side",
  about: ({ prompts, max_tokens: most, seed }: { prompts: string[]; max_tokens: number | null; seed: number }) =>
    `${prompts.length === 1 ? `“${cut(prompts[0])}”` : `${prompts.length} prompts`}, ${most ? `up to ${several(most, "token")} per reply, ` : ""}seed ${seed}`,
  five: "5 more runs",
  stopped: "Stopped; the finished runs are kept.",
  stoppedEarly: "Stopped before the first run was finished.",
  notes: "About this race",

  statistics: "All runs",
  ratio: "Speed ratio, one dot per run",
  columns: { run: "run", ratio: "ratio", accepted: "accepted", text: "text" },
  same: "equal",
  differ: "differs",
  chart: (ratios: number[], found: { median: number; low: number; high: number }) =>
    `${ratios.length} runs: ${ratios.map(times).join(", ")}. Median ${times(found.median)}, range ${times(found.low)} to ${times(found.high)}.`,
  slower: "slower",
  faster: "faster",
  tick: (x: number) => `${x}x`,

  parting: "First difference",
  partingAt: (n: number) => `Token ${n} is the first that differs.`,
  end: "the end",
  likeliest: "The target's top two tokens there",
  causes: { "numerical tie": "Numerical tie", bug: "Bug" },
  causeHints: {
    "numerical tie": "Both are equally likely within rounding error.",
    bug: "The target clearly prefers one of them. Please report it.",
  },
};
