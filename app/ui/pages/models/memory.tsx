// The memory of a pair as a bar of its parts, and the options of its load.

import { useEffect, useRef, useState } from "preact/hooks";
import { Button, Disclosure, Status, useServer } from "../../shared/components";
import { count } from "../../shared/format";
import { LoadOptionFields, valuesOf, withValue, type LoadOptions } from "../../shared/load_options";
import { useModels, type Row } from "./state";

type Part = { kind: string; role: string; name: string; size: string; share: number };

// What ModelsBackend.fit answers.
interface Fit {
  parts: Part[];
  needed: string;
  free: string;
  context: number;
  longest: number;
  held: string;
  fits: "yes" | "part" | "no";
  sentence: string;
}

const STEP = 256; // tokens of context
const PAUSE_MS = 60; // while the slider is moved

// `context`: what is chosen, null if the app decides.
type MemoryProps = { row: Row; pair: object; context: number | null; onContext: (context: number | null) => void };
export function Memory({ row, pair, context, onContext }: MemoryProps) {
  const { table } = useModels();
  const { ask, error } = useServer();
  const [fit, setFit] = useState<Fit | null>(null);
  const [options, keep] = useLoadOptions(row, onContext);
  useEffect(() => {
    let latest = true;
    const look = async () => {
      const answer = await ask("fit", { ...pair, context });
      if (latest) setFit(answer);
    };
    const soon = setTimeout(look, PAUSE_MS);
    return () => {
      latest = false;
      clearTimeout(soon);
    };
  }, [pair, context, table]);
  if (!fit && !error) return <section class="memory ft-stack" aria-label="Memory" />;
  const shown = context ?? fit?.context ?? 0;
  const held = fit?.held && `, weights ${fit.held === "stored" ? "as stored" : `in ${fit.held}`}`;
  return (
    <section class="memory ft-stack" aria-label="Memory">
      <div class="ft-row">
        <h3>Memory</h3>
        {fit && <Status text={`${fit.needed} needed, ${fit.free} free${held}`} />}
      </div>
      {fit && (
        <>
          <Bar parts={fit.parts} />
          <label class="fit-context">
            <span>Context</span>
            <input
              type="range"
              min={STEP}
              step={STEP}
              max={Math.max(STEP, fit.longest)}
              value={shown}
              disabled={Boolean(options?.fixed.context)}
              aria-valuetext={`${count(shown)} tokens`}
              onInput={(event) => onContext(event.currentTarget.valueAsNumber)}
              onChange={(event) => keep("context", event.currentTarget.valueAsNumber, true)}
            />
            <output>{count(shown)} tokens</output>
          </label>
        </>
      )}
      <p class={`fit ft-hint ${fit?.fits ?? ""}`}>{error || fit?.sentence}</p>
      {options && <Options options={options} keep={keep} />}
    </section>
  );
}

const PARTS: Record<string, string> = { work: "overhead", kv: "KV cache", saved: "checkpoints", lacking: "short by" };

function Bar({ parts }: { parts: Part[] }) {
  const label = (part: Part) => [part.role, PARTS[part.kind] ?? part.kind, part.size].filter(Boolean).join(" ");
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
            title={part.name && part.name !== part.role ? `${label(part)} (${part.name})` : label(part)}
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
// With `done` it is remembered; before, it is shown alone.
function useLoadOptions(row: Row, onContext: MemoryProps["onContext"]): [LoadOptions | null, Keep] {
  const { ask, status } = useModels();
  const [options, setOptions] = useState<LoadOptions | null>(null);
  const kept = useRef<LoadOptions | null>(null); // what is remembered
  useEffect(() => {
    if (!row.here) return;
    ask("load_options", { target: row.id }, true).then((answer: LoadOptions | null) => {
      setOptions((kept.current = answer));
      if (answer?.context.value) onContext(answer.context.value);
    });
  }, [row.id, row.here, JSON.stringify(status?.loaded)]);
  const keep: Keep = async (name, value, done) => {
    if (!options) return;
    const changed = withValue(options, name, value);
    setOptions(changed);
    if (!done) return;
    const answer = await ask("keep_load_options", { target: row.id, ...valuesOf(changed) });
    if (answer) kept.current = answer;
    setOptions((now) => (answer && now ? { ...now, reload: answer.reload } : kept.current));
  };
  return [options, keep];
}

type Keep = (name: keyof ReturnType<typeof valuesOf>, value: unknown, done: boolean) => void;

function Options({ options, keep }: { options: LoadOptions; keep: Keep }) {
  const { change, busy } = useModels();
  return (
    <Disclosure summary="Load options" remember="load-options">
      <div class="ft-fields">
        <LoadOptionFields options={options} onChange={keep} />
      </div>
      {options.reload && (
        <p class="ft-hint">
          The loaded model uses other options.{" "}
          <Button kind="link" text="Reload now" disabled={busy} onClick={() => change("load_again")} />
        </p>
      )}
    </Disclosure>
  );
}
