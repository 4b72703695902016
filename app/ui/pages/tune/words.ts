// Every word of the Tune page.

import { percent, several, speed, times } from "../../shared/format";
import type { Row, Winner } from "./tune";

const duration = (s: number) => {
  const minutes = Math.round(s / 60);
  return s < 90 ? `about ${Math.max(1, Math.round(s))} s` : `about ${several(minutes, "minute")}`;
};
const depth = (of: string) => (of === "auto" ? "auto" : `depth ${of}`);
const setting = (one: Winner | Row) => `${one.title}, ${depth(one.depth)}`;

export const words = {
  title: "Tune",
  intro: "Find the fastest method and depth for this model on this machine.",
  form: "Tune",
  noModel: "No model is loaded. Load one on the Models page.",
  start: (s: number | null) => `Find the fastest${s === null ? "" : ` · ${duration(s)}`}`,
  startHint: (s: number | null) =>
    s === null
      ? "Takes several minutes. Close other programs first."
      : "Longer while other programs run: close them first.",
  choose: "Prompts, methods, depths",
  prompts: "Prompts",
  sets: {
    chats: (n: number) => (n ? `My last ${n === 1 ? "prompt" : `${n} prompts`}` : "My last prompts (none yet)"),
    set: () => "The included set: questions, stories, JSON, rewriting",
  },
  methods: "Methods",
  depths: "Depths",
  depthsHint: "Drafted tokens per round, at most. Auto is always included.",
  effort: "Effort",
  efforts: { quick: "Quick: 1 run each, short replies", thorough: "Thorough: 3 runs each, longer replies" },

  kept: (text: string) => `Default for this model: ${text}`,
  forget: "Forget",
  used: "Saved as the default.",
  forgotten: "This model has no measured default.",

  begins: "Warming up",
  progress: (e: { done: number; total: number; left_s: number }) =>
    `${e.done} of ${several(e.total, "reply").replace("replys", "replies")}, ${duration(e.left_s)} left`,
  stop: "Stop",
  stopped: "Stopped. Results cover the prompts that every setting finished; the winner was not confirmed.",
  stoppedEarly: "Stopped before any result.",

  // Without figures: those of single runs are partly luck.
  leads: (won: Winner, running: boolean) => {
    const so = running ? " so far" : "";
    return won.method === "none" ? `Nothing was faster than no drafting${so}.` : `Leading${so}: ${setting(won)}`;
  },
  verdictLater: "At the end the leader is compared with no drafting once more. Only that gives a verdict.",
  use: "Use it",
  useNone: "Keep drafting off",
  export: "Export as JSON",
  map: "Speed-up",
  mapHint: "Compared with no drafting; above 1 is faster. Below each: its slowest and fastest prompt.",
  outlined: "The fastest are outlined.",
  method: "method",
  depth: "depth",
  all: "all",
  times,
  spread: (row: Row) => `${times(row.slowest)} – ${times(row.fastest)}`,
  cell: (row: Row) =>
    `${setting(row)}, ${row.kind}: ${speed(row.tokens_per_s)} tokens/s, ${percent(row.acceptance_rate)} accepted, ${several(row.prompts, "prompt")}`,
  divergences: (n: number) =>
    `${n === 1 ? "1 reply differs" : `${n} replies differ`} from the text without drafting. This is a bug; use Race to find where.`,
  leftOut: (n: number) => `${several(n, "prompt")} skipped: longer than the context.`,
};
