// Every word that the train page's script says.

export const say = {
  intro: "A drafter learns what a model says, to guess it better. The model itself does not change.",
  model: "Draft for", kind: "Kind of drafter", from: "Learn from", minutes: "Minutes of learning",
  estimate: (minutes, speed) => {
    if (!(minutes > 0)) return "Give the minutes as a number.";
    const lessons = speed ? `: some ${Math.max(1, Math.round((60 * minutes * speed) / 150)).toLocaleString("en")} replies at the ${speed.toFixed(1)} tokens/s that it writes here` : "";
    return `Before it learns, the model answers the questions below, which are its lessons. That takes as long again at most${lessons}. So it is ready in ${2 * minutes} minutes or a little later, longer where the machine is busy.`;
  },
  start: "Start training", noTargets: "No model is on disk. Load one from Models first.",
  idleHint: "It runs beside the app, at low priority, and ends with it. What was learned is kept.",
  general: "General prompts", generalHint: "Code to explain, write, rewrite and test, everyday questions, JSON: 7,000 made from Python's own library on this machine.",
  pip: "Pip's prompts", pipHint: "Tales, questions, JSON and rewriting of the kinds that Pip knows: 12,000 that come with the app.",
  chats: "My chats",
  chatsHint: (n) => (n < 2
    ? `You have asked ${n === 1 ? "one question" : "nothing"} so far; two are the least, and several hundred make a good drafter.`
    : `${n.toLocaleString("en")} different questions so far${n < 200 ? "; several hundred make a good drafter" : ""}. They are read on this machine and nothing leaves it.`),
  file: "A file", fileHint: 'JSON lines, each {"prompt": "..."} or {"messages": [...]}', filePath: "/path/to/prompts.jsonl", fileLabel: "Path of the file",
  title: (kind, target) => `${kind} for ${target}`,
  sources: { general: "from general prompts", pip: "from Pip's prompts", chats: "from your chats" }, source: (name) => `from ${name}`, budget: (n) => `${n} min of learning`,
  states: { running: "running", stopping: "stopping", stopped: "stopped", failed: "failed", done: "done" },
  steps: ["Load the model", "Record its replies", "Learn", "Measure"],
  loading: "Loading the model", recording: (r) => `${r.done} of ${r.of} replies${r.left ? `, ${r.left} left` : ""}`,
  learning: (r) => `${Math.floor(100 * r.share)}%${r.left ? `, ${r.left} left` : ""}`, measuring: "Measuring how often its guesses are accepted",
  stop: "Stop", stopping: "Stopping: what was learned is being kept",
  stopped: (r) => `Stopped${r.share > 0 ? ` at ${Math.floor(100 * r.share)}% of its learning` : r.done ? ` after ${r.done} of ${r.of} replies` : ""}. What it recorded and learned is kept.`, goOn: "Go on", again: "Try again",
  discard: "Discard", discardSure: "Delete what it learned?",
  doneText: (length) => `It is ready: ${length.toFixed(2)} tokens for each pass of the model, on questions it did not learn from.`,
  weak: (length) => (length < 1.2 ? "That is too little to pay. Let one learn longer, or from more questions. " : ""),
  where: "The drafter is in", inCatalog: (pair) => `In your catalog as ${pair}.`,
  load: "Load it", loaded: "Loaded.", chatWith: "Chat with it", race: "Race it against what there was", another: "Train another", anotherHint: "The drafter stays; the replies it learned from are deleted.",
  loss: "Loss", lossUnit: "nats per token", lossEmpty: "The first figure comes after 20 steps.",
  length: "Tokens per pass", lengthUnit: "on questions kept aside", lengthEmpty: "Measured every few minutes, and at the end.",
  at: (x) => `${x > 0 && x < 10 ? x.toFixed(1) : Math.round(x)} min`,
  position: (n) => `guess ${n} accepted`, positions: "Accepted, by position",
};
