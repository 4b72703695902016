// The options of a load that are remembered for a model, and their fields.

import { NumberInput, Select } from "./components";

// What LoadBackend.load_options answers.
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

// The options with choices, shown where this machine has some, and their labels.
const CHOICES = [
  ["kv_cache", "KV cache"],
  ["draft_device", "Draft runs on"],
] as const;

// Returns what is remembered, by name.
export const valuesOf = ({ context, threads, kv_cache, draft_device, gpu_layers }: LoadOptions) => ({
  context: context.value,
  threads: threads.value,
  kv_cache: kv_cache.value,
  draft_device: draft_device.value,
  gpu_layers: gpu_layers.value,
});

export const setBy = (option?: string) => option && `Set by ${option} on the command line.`;

// Returns the options with another value of one.
export const withValue = (options: LoadOptions, name: keyof LoadOptions, value: unknown): LoadOptions => ({
  ...options,
  [name]: { ...(options[name] as object), value },
});

// The fields of all but the context. `onChange(name, value, done)` is called for each key, and with `done` once the value is final.
type FieldsProps = {
  options: LoadOptions;
  onChange: (name: keyof ReturnType<typeof valuesOf>, value: number | string | null, done: boolean) => void;
};
export function LoadOptionFields({ options, onChange }: FieldsProps) {
  const { threads, gpu_layers, fixed } = options;
  const own = (name: keyof ReturnType<typeof valuesOf>) => ({
    hint: setBy(fixed[name]),
    disabled: Boolean(fixed[name]),
  });
  const number = (name: "threads" | "gpu_layers", label: string, placeholder: string) => (
    <NumberInput
      label={label}
      placeholder={placeholder}
      value={options[name].value}
      min={1}
      max={options[name].most}
      onChange={(value) => onChange(name, value, false)}
      onDone={(value) => onChange(name, value, true)}
      {...own(name)}
    />
  );
  return (
    <>
      {number("threads", "CPU threads", `Automatic (${threads.default})`)}
      {gpu_layers.most > 0 && number("gpu_layers", "Layers on the GPU", "As many as fit")}
      {CHOICES.filter(([name]) => options[name].choices.length > 1).map(([name, label]) => (
        <Select
          key={name}
          label={label}
          value={options[name].value}
          options={options[name].choices}
          onChange={(value) => onChange(name, value, true)}
          {...own(name)}
        />
      ))}
    </>
  );
}
