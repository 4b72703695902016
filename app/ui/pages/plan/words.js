// Every word that the plan page's script says.

const count = (x) => x.toLocaleString("en");
const many = (n, one, more) => (n === 1 ? `One ${one}` : `${count(n)} ${more}`);
const speed = (x) => (x < 100 ? x.toFixed(1) : count(Math.round(x)));
const gb = (x) => (x / 1e9).toFixed(1);

export const say = {
  intro: "A model too large for this machine runs on another engine. What to start there, on how many GPUs, and what drafts would bring.",
  form: "Launch plan", make: "Make the plan",
  target: "Model", targetHint: "A published model, its repository, or a folder",
  engine: "Engine", backend: "Computes for Dynamo", gpuCount: "GPUs", gpuKind: "Kind",
  method: "Drafts by", draft: "Draft", draftHint: "published one", depth: "Depth", depthHint: "usual",
  users: "Users at once", context: "Context", contextHint: "8192",
  more: "Formats and acceptance",
  quantization: "Weights", kv: "KV cache", acceptance: "Acceptance", acceptanceHint: "of the method",
  title: (p) => `${p.target.id} on ${p.gpus}`,
  layout: (p) => {
    const { replicas, tensor, pipeline, nodes_of_a_copy: nodes } = p.layout;
    const spread = tensor > 1 ? `layers split over ${tensor} GPUs` : "on one GPU";
    const stages = pipeline > 1 ? `, ${pipeline} stages` : "";
    return `${many(replicas, "copy", "copies")}, ${spread}${stages}${nodes > 1 ? `, over ${nodes} nodes` : ""}. Loads ${p.target.loads} in ${p.target.format}${p.draft ? `, drafts with ${p.draft}` : ""}.`;
  },
  memory: "Memory of the fullest GPU, GB",
  parts: { weights: "weights", drafter: "drafter", cache: "everybody's tokens", work: "graphs, activations, logits", needed: "together", available: "may be used" },
  speed: "Expected tokens/s: an estimate",
  speedHead: ["users at once", "plain", "drafted", "times"], plainHead: ["users at once", "plain"],
  row: (r, drafts) => [count(r.users), speed(r.plain), ...(drafts ? [speed(r.drafted), `${(r.drafted / r.plain).toFixed(2)}×`] : [])],
  rests: (p) => `By an acceptance of ${p.assumptions.acceptance}: ${p.assumptions.acceptance_from}.`,
  stops: (n) => (n === 1 ? "Drafts never pay here, by the estimate." : `Drafts stop paying at ${count(n)} users of one copy, by the estimate.`),
  notes: "Before you start it", files: "Files", command: "The same on the command line", save: "Save",
  gb,
};
