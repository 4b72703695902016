// Every word that the race page's script says.

export const say = {
  plain: "Plain", speculative: "Speculative", waiting: "waits for its turn", warming: "warming up", running: "running", done: "done",
  faster: (x) => `${x.toFixed(2)}× faster`, slower: (x) => `${x.toFixed(2)}×: slower than plain`,
  same: "Same words, token for token", differ: (n, a, b) => ["The words differ from token ", n, ": plain ", a, ", speculative ", b],
  differUntold: "The words differ",
  notExpected: (rule) => `Under the rule ${rule} the distribution is the same, not the words: a difference is expected.`,
  stopped: "The race was stopped.",
  acceptance: "acceptance", first: "to first token", tokens: "tokens", empty: "Each run starts from an empty cache, after a short warm-up that is not timed.",
};
