// Every word that the tune page's script says.

const times = (x) => `${x.toFixed(x < 10 ? 2 : 1)}×`;
const about = (s) => (s < 90 ? `about ${Math.max(1, Math.round(s))} s` : `about ${Math.round(s / 60)} min`);

export const say = {
  intro: "Finds the fastest drafting method and depth for this model on this machine, then races the winner against plain decoding.",
  none: "Load a model first.",
  on: "Prompts",
  sets: {
    chats: (n) => [n ? `My last ${n === 1 ? "prompt" : `${n} prompts`}` : "My last prompts", n ? "From your chats, with their context" : "Your chats have none yet"],
    set: () => ["The app's own set", "Questions, tales, JSON, rewriting"],
  },
  methods: "Methods", depths: "Depths", depthsHint: "Drafted tokens per round. auto is always included.",
  effort: "Effort",
  efforts: { quick: ["Quick", "1 run each, short replies"], thorough: ["Thorough", "3 runs each, longer replies. More reliable."] },
  choose: "Choose prompts, methods and depths",
  start: (s) => (s === null ? "Find the fastest" : `Find the fastest (${about(s)})`),
  startHint: "Close other programs first: they slow some runs and not others.",
  stop: "Stop",
  progress: (e) => `${e.done} of ${e.total} replies, ${about(e.left_s)} left`,
  begins: "Warming up",
  stopped: "Stopped. The figures cover the prompts that every setting answered; the winner was not confirmed.",
  stoppedEarly: "Stopped before the first prompt was answered by every setting, so there is no result.",
  map: "Speed-up", mapHint: "Compared with plain decoding; above 1 is faster.", outlined: "The fastest of each column is outlined.",
  method: "method", depth: "depth", all: "all",
  cell: (row) => `${row.method} ${row.depth}, ${row.kind}: ${times(row.speedup)}, ${row.tokens_per_s.toFixed(1)} tokens/s, slowest prompt ${times(row.slowest)}, ${row.prompts} prompts`,
  // `confirmed`: its speed-up in the race that followed, where that has a winner.
  use: (won, confirmed) => (won.method === "none" ? "Use plain decoding: nothing was faster" : `Use ${won.method}, ${won.depth === "auto" ? "auto" : `depth ${won.depth}`}${confirmed ? `: about ${confirmed.toFixed(1)}×` : ""}`),
  useHint: "Makes this the default for this model.",
  used: (text) => `Kept: ${text}`,
  kept: (text) => `The default of this pair is ${text}.`,
  forget: "Forget it", forgotten: "This pair has no measured default any more.",
  export: "Export as JSON",
  divergences: (n) => `${n} ${n === 1 ? "reply has" : "replies have"} other words than plain decoding: a bug. Race them to see where they part.`,
  leftOut: (n) => `${n} ${n === 1 ? "prompt was" : "prompts were"} longer than the model's context, and left out.`,
  times,
};
