// The Tune page: one button, the rest folded; then the winner in a sentence, and a map of speed-ups.

import { useState } from "preact/hooks";
import {
  bound,
  Button,
  Disclosure,
  ErrorNote,
  Form,
  Linked,
  PageFrame,
  Panel,
  register,
  Select,
  useFound,
  useServer,
} from "../../shared/components";
import { saveFile } from "../../shared/browser";
import { status } from "../../shared/frame/status";
import { UnderWay, useChoices, useMeasurement } from "../../shared/measurement";
import { Heatmap } from "./heatmap";
import { words } from "./words";

export type Winner = { method: string; title: string; depth: string; speedup: number };

export type Row = Winner & {
  kind: string;
  slowest: number;
  fastest: number;
  tokens_per_s: number;
  acceptance_rate: number | null;
  prompts: number;
};

// What TuneBackend.offer answers.
interface Offer {
  loaded: string | null;
  methods: { name: string; title: string }[];
  depths: number[];
  chosen: number[]; // depths
  sets: { id: "chats" | "set"; count: number }[];
  kept: string | null; // the measured default
}

type Choices = { sources: string[]; methods: string[]; depths: number[]; effort: string };

// What the feed told so far; see app/ui/pages/tune/backend.py.
interface Sweep {
  progress: { done: number; total: number; left_s: number } | null;
  result: {
    rows: Row[];
    kinds: string[];
    winners: Record<string, Winner>;
    divergences: number | null;
    left_out: number;
  } | null;
  confirmed: { verdict: string; certainty: string; favours: number; better: boolean } | null;
  stopped: boolean;
  decided: boolean; // whether there is a winner
}

const FRESH: Sweep = { progress: null, result: null, confirmed: null, stopped: false, decided: false };

function take(sweep: Sweep, event: any): Sweep {
  if (event.t === "progress") return { ...sweep, progress: event };
  if (event.t === "result") return { ...sweep, result: event.rows.length ? event : null };
  if (event.t === "confirmed") return { ...sweep, confirmed: event };
  return event.t === "rest" ? { ...sweep, stopped: event.stopped, decided: event.decided } : sweep;
}

function proposed(offer: Offer): Choices {
  const own = offer.sets.some(({ id, count }) => id === "chats" && count > 0);
  return {
    sources: [own ? "chats" : "set"],
    methods: offer.methods.map(({ name }) => name),
    depths: offer.chosen,
    effort: "quick",
  };
}

function TunePage() {
  const { offer, state, running, error, ask, refresh, start, stop } = useMeasurement("tune", FRESH, take);
  const [choices, choose] = useChoices(offer, proposed);
  const [told, setTold] = useState(""); // of the stored default
  const changeDefault = async (act: "use" | "forget") => {
    const answer = await ask(act);
    if (!answer) return;
    setTold(act === "use" ? words.used : words.forgotten);
    await refresh();
    status.refresh(); // the chat shows it too
  };
  const begin = () => {
    setTold("");
    choose({}); // it shows what runs
    start("start", choices ?? {});
  };
  return (
    <PageFrame title={words.title} intro={words.intro}>
      <Form class="ft-panel ft-stack ft-gap-3" aria-label={words.form} onSubmit={begin}>
        {offer && !choices && (
          <p class="ft-hint">
            <Linked text={words.noModel} />
          </p>
        )}
        {choices && (
          <>
            <StartButton choices={choices} disabled={running} />
            <Disclosure summary={words.choose}>
              <ChoicesForm offer={offer} choices={choices} choose={choose} />
            </Disclosure>
            {offer.kept && (
              <p class="ft-hint">
                {words.kept(offer.kept)}{" "}
                <Button kind="link" text={words.forget} data-act="forget" onClick={() => changeDefault("forget")} />
              </p>
            )}
          </>
        )}
        <p class="tune-told" role="status">
          {told}
        </p>
      </Form>
      <ErrorNote text={error || (state?.stopped && !state.result ? words.stoppedEarly : "")} />
      {running && (
        <UnderWay
          name={words.start(null)}
          text={state?.progress ? words.progress(state.progress) : words.begins}
          share={state?.progress ? state.progress.done / state.progress.total : null}
          stop={words.stop}
          onStop={stop}
        />
      )}
      {state?.result && <Result sweep={state} running={running} onUse={() => changeDefault("use")} ask={ask} />}
    </PageFrame>
  );
}

// Says how long it takes, by the speed of earlier replies.
function StartButton({ choices, disabled }: { choices: Choices; disabled: boolean }) {
  const { ask } = useServer(); // its refusals are shown at the start
  const found = useFound<{ seconds: number | null }>(ask, "forecast", choices, [JSON.stringify(choices), disabled]);
  const seconds = found?.seconds ?? null;
  return (
    <div class="ft-row">
      <Button kind="primary" type="submit" text={words.start(seconds)} data-act="start" disabled={disabled} />
      <span class="ft-hint">{words.startHint(seconds)}</span>
    </div>
  );
}

type ChoicesFormProps = { offer: Offer; choices: Choices; choose: (changes: Partial<Choices>) => void };
function ChoicesForm({ offer, choices, choose }: ChoicesFormProps) {
  return (
    <div class="tune-choices ft-stack ft-gap-4">
      <Ticks
        label={words.prompts}
        options={offer.sets.map(({ id, count }) => ({ value: id, label: words.sets[id](count), disabled: !count }))}
        values={choices.sources}
        onChange={(sources) => choose({ sources })}
      />
      <Ticks
        label={words.methods}
        options={offer.methods.map(({ name, title }) => ({ value: name, label: title }))}
        values={choices.methods}
        onChange={(methods) => choose({ methods })}
      />
      <Ticks
        label={words.depths}
        hint={words.depthsHint}
        options={offer.depths.map((depth) => ({ value: depth, label: String(depth) }))}
        values={choices.depths}
        onChange={(depths) => choose({ depths })}
      />
      <Select
        label={words.effort}
        {...bound(choices, choose)("effort")}
        options={Object.entries(words.efforts).map(([value, label]) => ({ value, label }))}
      />
    </div>
  );
}

// Several of a few.
type TicksProps<Value extends string | number> = {
  label: string;
  hint?: string;
  options: { value: Value; label: string; disabled?: boolean }[];
  values: Value[];
  onChange: (values: Value[]) => void;
};
function Ticks<Value extends string | number>({ label, hint, options, values, onChange }: TicksProps<Value>) {
  const turn = (value: Value, on: boolean) =>
    onChange(options.map((each) => each.value).filter((each) => (each === value ? on : values.includes(each))));
  return (
    <fieldset class="tune-ticks ft-row">
      <legend>{label}</legend>
      {options.map(({ value, label, disabled }) => (
        <label key={value} class="ft-row">
          <input
            type="checkbox"
            value={value}
            checked={values.includes(value)}
            disabled={disabled}
            onChange={(event) => turn(value, event.currentTarget.checked)}
          />
          {label}
        </label>
      ))}
      {hint && <span class="ft-hint">{hint}</span>}
    </fieldset>
  );
}

type ResultProps = { sweep: Sweep; running: boolean; onUse: () => void; ask: (name: string) => Promise<any> };
function Result({ sweep, running, onUse, ask }: ResultProps) {
  const { result, confirmed, stopped, decided } = sweep;
  if (!result) return null;
  const won = result.winners.all;
  const better = Boolean(confirmed?.better);
  const save = async () => {
    const value = await ask("export");
    if (value) saveFile("foretoken-tune.json", `${JSON.stringify(value, null, 1)}\n`, "application/json");
  };
  return (
    <>
      <Panel class="tune-result">
        <p class="verdict">{confirmed?.verdict ?? words.leads(won, running)}</p>
        {confirmed && confirmed.favours < 1 && <p>{words.leads(won, false)}</p>}
        {(confirmed || running) && <p class="ft-hint">{confirmed?.certainty ?? words.verdictLater}</p>}
        {!running && (
          <div class="ft-row">
            {decided && (
              <Button kind={better ? "primary" : undefined} data-act="use" onClick={onUse}>
                {won.method === "none" ? words.useNone : words.use}
              </Button>
            )}
            <Button kind="quiet" text={words.export} data-act="export" onClick={save} />
          </div>
        )}
        {stopped && <p class="ft-hint">{words.stopped}</p>}
        <ErrorNote text={result.divergences ? words.divergences(result.divergences) : ""} />
      </Panel>
      <Panel title={words.map}>
        <p class="ft-hint">
          {words.mapHint} {better && words.outlined}
        </p>
        <Heatmap rows={result.rows} kinds={result.kinds} outlined={better} />
        {result.left_out > 0 && <p class="ft-hint">{words.leftOut(result.left_out)}</p>}
      </Panel>
    </>
  );
}

register("tune", TunePage);
