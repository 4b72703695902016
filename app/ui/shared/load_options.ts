// The options of a load that are remembered for a model, as LoadBackend.load_options answers.

export interface LoadOptions {
  context: { value: number | null; longest: number; largest: number };
  threads: { value: number | null; default: number; most: number };
  kv_cache: Choice;
  draft_device: Choice;
  gpu_layers: { value: number | null; most: number }; // 0 without a GPU
  fixed: Record<string, string | undefined>; // the command line's options, which come first
  reload: boolean;
}
type Choice = { value: string; choices: { id: string; label: string }[] };

// The options with choices, and their labels.
const CHOICES = [
  ["kv_cache", "KV cache"],
  ["draft_device", "Draft runs on"],
] as const;

// Returns those where this machine has a choice.
export const choicesIn = (options: LoadOptions) =>
  CHOICES.filter(([name]) => options[name].choices.length > 1).map(([name, label]) => ({
    name,
    label,
    value: options[name].value,
    options: options[name].choices,
    disabled: Boolean(options.fixed[name]),
  }));

// Returns what is remembered, by name.
export const valuesOf = ({ context, threads, kv_cache, draft_device, gpu_layers }: LoadOptions) => ({
  context: context.value,
  threads: threads.value,
  kv_cache: kv_cache.value,
  draft_device: draft_device.value,
  gpu_layers: gpu_layers.value,
});

export const setBy = (option?: string) => option && `Set by ${option} on the command line.`;
