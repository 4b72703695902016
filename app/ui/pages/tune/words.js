// Every word that the tune page's script says.

const times = (x) => `${x.toFixed(x < 10 ? 2 : 1)}×`;
const left = (s) => (s < 90 ? `about ${Math.max(1, Math.round(s))} s left` : `about ${Math.round(s / 60)} min left`);

export const say = {
  intro: "Which method, and how far ahead, is fastest here? Every one answers your prompts beside plain decoding, on this machine, with the loaded pair.",
  none: "Load a model first: then its methods can be measured.",
  on: "On which prompts",
  sets: {
    chats: (n) => [n ? `My last ${n === 1 ? "prompt" : `${n} prompts`}` : "My last prompts", n ? "From the chats, each with what was said before it" : "There are none in the chats yet"],
    set: () => ["The app's own set", "Questions, tales, JSON, rewriting"],
  },
  methods: "Methods", depths: "Depths", depthsHint: "Tokens drafted a round. auto, which finds the depth by measuring, is always tried too.",
  effort: "How thorough",
  efforts: { quick: ["Quick", "Each once, short replies"], thorough: ["Thorough", "Three times each, longer replies: believe this one"] },
  start: "Start measuring", stop: "Stop",
  progress: (e) => `${e.done} of ${e.total} replies, ${left(e.left_s)}`,
  begins: "Warming up",
  stopped: "Stopped: the figures are of the prompts that every setting has answered.",
  stoppedEarly: "Stopped before the first prompt was answered by every setting, so there are no figures.",
  map: "Speed beside plain decoding", mapHint: "A number above 1 is faster than plain. The fastest of each column has a frame.",
  method: "method", depth: "depth", all: "all", plain: "plain",
  auto: "auto",
  cell: (row) => `${row.method} ${row.depth}, ${row.kind}: ${times(row.speedup)}, ${row.tokens_per_s.toFixed(1)} tokens/s, slowest prompt ${times(row.slowest)}, ${row.prompts} prompts`,
  use: (won) => (won.method === "none" ? "Use plain decoding: nothing was faster" : `Use ${won.method}, ${won.depth === "auto" ? "auto" : `depth ${won.depth}`}: ${times(won.speedup)}`),
  useHint: "It becomes the default of this pair on this machine, in chats where nothing else was chosen, in the API and on the command line.",
  used: (text) => `Kept: ${text}`,
  kept: (text) => `The default of this pair is ${text}.`,
  forget: "Forget it", forgotten: "This pair has no measured default any more.",
  export: "Export as JSON",
  divergences: (n) => `${n} ${n === 1 ? "reply has" : "replies have"} other words than plain decoding: a bug. Race them to see where they part.`,
  leftOut: (n) => `${n} ${n === 1 ? "prompt was" : "prompts were"} longer than the model's context, and left out.`,
  times,
};
