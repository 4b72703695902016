// Every word of the Plan page.

import { count, several, speed, times } from "../../shared/format";

// What PlanBackend.make answers.
export interface LaunchPlan {
  target: { id: string; loads: string; format: string };
  gpus: string; // as "2xH100"
  method: string;
  draft: string | null;
  layout: { replicas: number; tensor: number; pipeline: number; nodes_of_a_copy: number };
  memory_of_a_gpu: Record<string, number>; // in bytes
  estimate: {
    has_ground: boolean;
    stops_at: number | null;
    by_users: { users: number; plain: number; drafted: number }[];
    cost_of_a_million?: number | null;
  };
  service: Service | null;
  assumptions: { acceptance: number; acceptance_from: string; ground: string };
  notes: string[];
  files: Record<string, string>; // texts by name
  command: string;
}

// What is reached of the targets; times in milliseconds.
interface Service {
  layout: { replicas: number; tensor: number };
  users: number;
  ttft: number;
  itl: number;
  rps: number;
}

export const words = {
  title: "Plan",
  intro: "Plan a GPU deployment: commands, memory and expected speed.",
  form: "Deployment",
  make: "Make plan",

  target: "Model",
  targetHint: "Catalog name, Hugging Face repository, or folder",
  gpuCount: "GPUs",
  gpuKind: "GPU type",
  engine: "Engine",
  backend: "Backend",
  method: "Method",
  draft: "Draft model",
  depth: "Depth",
  users: "Concurrent users",
  context: "Context length",
  automatic: "automatic",
  optional: "optional",
  more: "Precision and acceptance",
  task: "Kind of replies",
  server: "Running server",
  serverHint: "Plan with its acceptance and step time",
  service: "Service targets and cost",
  targets: {
    rps: "Requests per second",
    ttft: "Time to first token, ms",
    itl: "Time between tokens, ms",
    isl: "Prompt tokens",
    osl: "Reply tokens",
    price: "Price per GPU hour",
  },
  reached: ({ users, ttft, itl, rps }: Service) =>
    `Reaches ${rps.toFixed(1)} requests/s with ${count(users)} at once: ${Math.round(ttft)} ms to the first token, ` +
    `${itl.toFixed(1)} ms between tokens.`,
  cost: (value: number) => `${value.toFixed(2)} per million reply tokens.`,
  quantization: "Weights",
  kv: "KV cache",
  acceptance: "Acceptance rate",
  acceptanceHint: "0 to 1",

  planTitle: ({ target, gpus }: LaunchPlan) => `${target.id} on ${gpus}`,
  layout: ({ layout, target, draft }: LaunchPlan) => {
    const { replicas, tensor, pipeline, nodes_of_a_copy: nodes } = layout;
    const each = pipeline > 1 ? "each stage " : replicas > 1 ? "each " : "";
    const split = tensor > 1 ? `tensor parallel over ${tensor} GPUs` : `${each}on one GPU`;
    const stages = pipeline > 1 ? `, ${pipeline} pipeline stages` : "";
    const over = nodes > 1 ? `, over ${nodes} nodes` : "";
    const drafts = draft ? ` with draft ${draft}` : "";
    return `${several(replicas, "replica")}, ${split}${stages}${over}. Loads ${target.loads} in ${target.format}${drafts}.`;
  },
  memory: "Memory on the fullest GPU",
  parts: {
    weights: "weights",
    drafter: "draft",
    cache: "KV cache",
    work: "CUDA graphs, activations, logits",
    needed: "total",
    available: "available",
  },
  gigabytes: (bytes: number) => `${(bytes / 1e9).toFixed(1)} GB`,
  speed: "Estimated tokens/s",
  columns: { users: "users", plain: "without drafting", drafted: "with drafting", times: "speed-up" },
  count,
  tokens: speed,
  times,
  assumes: ({ assumptions }: LaunchPlan) =>
    `Assumes an acceptance rate of ${Math.round(100 * assumptions.acceptance)} % (${assumptions.acceptance_from}).`,
  stops: (users: number) =>
    users === 1
      ? "Drafting is not expected to help here."
      : `Drafting stops helping at ${count(users)} users per replica.`,
  notes: "Before you start",
  command: "Same plan on the command line",
};
