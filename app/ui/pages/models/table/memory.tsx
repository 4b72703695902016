// The memory of a pair as a bar of its parts, and the options of its load.

import { useEffect, useState } from "preact/hooks";
import { Button, Disclosure, Select, Status } from "../../../shared/components";
import { useModels, type Row } from "../state";
import { words } from "../words";

type Part = { kind: string; role: string; name: string; size: string; share: number };

// What ModelsBackend.fit answers.
interface Fit {
  error: string | null;
  parts: Part[];
  needed: string;
  free: string;
  context: number;
  longest: number;
  held: string;
  fits: "yes" | "part" | "no";
  sentence: string;
}

// What LoadBackend.load_options answers.
interface LoadOptions {
  context: { value: number | null };
  threads: { value: number | null; default: number; most: number };
  kv_cache: { value: string; choices: { id: string; label: string }[] };
  fixed: Record<string, string | undefined>;
  reload: boolean;
}

const STEP = 256; // tokens of context
const PAUSE_MS = 60; // while the slider is moved

// `context`: what is chosen, null if the app decides.
type MemoryProps = { row: Row; pair: object; context: number | null; onContext: (context: number | null) => void };
export function Memory({ row, pair, context, onContext }: MemoryProps) {
  const { ask, table } = useModels();
  const [fit, setFit] = useState<Fit | null>(null);
  const [options, keep] = useLoadOptions(row, onContext);
  useEffect(() => {
    let latest = true;
    const look = async () => {
      const answer = await ask("fit", { ...pair, context }, true);
      if (answer && latest) setFit(answer);
    };
    const soon = setTimeout(look, PAUSE_MS);
    return () => {
      latest = false;
      clearTimeout(soon);
    };
  }, [pair, context, table]);
  if (!fit) return <section class="memory ft-stack" aria-label={words.memory} />;
  const shown = context ?? fit.context;
  return (
    <section class="memory ft-stack" aria-label={words.memory}>
      <div class="ft-row">
        <h3>{words.memory}</h3>
        {!fit.error && (
          <Status
            text={[words.needs(fit.needed, fit.free), fit.held && words.held(fit.held)].filter(Boolean).join(", ")}
          />
        )}
      </div>
      {!fit.error && (
        <>
          <Bar parts={fit.parts} />
          <label class="fit-context">
            <span>{words.context}</span>
            <input
              type="range"
              min={STEP}
              step={STEP}
              max={Math.max(STEP, fit.longest)}
              value={shown}
              disabled={Boolean(options?.fixed.context)}
              aria-valuetext={words.tokens(shown)}
              onInput={(event) => onContext(event.currentTarget.valueAsNumber)}
              onChange={(event) => keep({ context: event.currentTarget.valueAsNumber })}
            />
            <output>{words.tokens(shown)}</output>
          </label>
        </>
      )}
      <p class={`fit ft-hint ${fit.fits ?? ""}`}>{fit.error ?? fit.sentence}</p>
      {options && <Options options={options} context={context} keep={keep} />}
    </section>
  );
}

function Bar({ parts }: { parts: Part[] }) {
  const label = (part: Part) => `${words.part(part.kind, part.role)} ${part.size}`;
  const look = (part: Part) =>
    `part ${part.kind} ${["target", "draft", ""].includes(part.role) ? part.role : "head"}`.trim();
  return (
    <>
      <div class="fitbar" role="img" aria-label={parts.map(label).join(", ")}>
        {parts.map((part) => (
          <span
            key={label(part)}
            class={look(part)}
            style={
              part.kind === "lacking"
                ? { width: `${100 * part.share}%` }
                : { flexGrow: String(Math.max(part.share, 0.002)) }
            }
            title={part.name ? `${label(part)} (${part.name})` : label(part)}
          />
        ))}
      </div>
      <ul class="fit-legend ft-legend">
        {parts.map((part) => (
          <li key={label(part)}>
            <i class={look(part)} />
            {label(part)}
          </li>
        ))}
      </ul>
    </>
  );
}

// Returns the options that are remembered for a model, and what changes some of them.
function useLoadOptions(
  row: Row,
  onContext: (context: number | null) => void,
): [LoadOptions | null, (changed: { context?: number | null; threads?: number | null; kv_cache?: string }) => void] {
  const { ask, status } = useModels();
  const [options, setOptions] = useState<LoadOptions | null>(null);
  useEffect(() => {
    if (!row.here) return;
    ask("load_options", { target: row.id }, true).then((answer: LoadOptions | null) => {
      setOptions(answer);
      if (answer?.context.value) onContext(answer.context.value);
    });
  }, [row.id, row.here, status?.loaded]);
  const keep = async (changed: object) => {
    if (!options) return;
    const { context, threads, kv_cache: kv } = options;
    const kept = { context: context.value, threads: threads.value, kv_cache: kv.value, ...changed };
    setOptions((await ask("keep_load_options", { target: row.id, ...kept })) ?? options);
  };
  return [options, keep];
}

type OptionsProps = {
  options: LoadOptions;
  context: number | null;
  keep: (changed: { context?: number | null; threads?: number | null; kv_cache?: string }) => void;
};
function Options({ options, keep }: OptionsProps) {
  const { change, busy } = useModels();
  const { threads, kv_cache: kv, fixed } = options;
  const counts = Array.from({ length: threads.most }, (_, i) => String(i + 1));
  return (
    <Disclosure summary={words.options} remember="load-options">
      <div class="ft-fields">
        <Select
          label={words.threads}
          hint={fixed.threads && words.fixed(fixed.threads)}
          name="threads"
          value={String(threads.value ?? "")}
          disabled={Boolean(fixed.threads)}
          options={[{ value: "", label: words.threadsDefault(threads.default) }, ...counts]}
          onChange={(value) => keep({ threads: Number(value) || null })}
        />
        {kv.choices.length > 1 && (
          <Select
            label={words.kvCache}
            hint={fixed.kv_cache && words.fixed(fixed.kv_cache)}
            name="kv-cache"
            value={kv.value}
            disabled={Boolean(fixed.kv_cache)}
            options={kv.choices.map(({ id, label }) => ({ value: id, label }))}
            onChange={(value) => keep({ kv_cache: value })}
          />
        )}
      </div>
      {options.reload && (
        <p class="ft-hint">
          {words.reload}{" "}
          <Button kind="link" text={words.reloadNow} disabled={busy} onClick={() => change("load_again")} />
        </p>
      )}
    </Disclosure>
  );
}
