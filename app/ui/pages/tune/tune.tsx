// The Tune page: one button, the rest folded; then the winner in a sentence, and a map of speed-ups.

import { useState } from "preact/hooks";
import * as ui from "../../shared/components";
import { saveFile } from "../../shared/browser";
import { status } from "../../shared/frame/status";
import { UnderWay, useChoices, useMeasurement } from "../../shared/measurement";
import { count, percent, several, speed, times } from "../../shared/format";

type Winner = { method: string; title: string; depth: string; speedup: number };

type Row = Winner & {
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

const EFFORTS = { quick: "Quick: 1 run each, short replies", thorough: "Thorough: 3 runs each, longer replies" };
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

// "about 3 minutes"
const about = (s: number) =>
  s < 90 ? `about ${Math.max(1, Math.round(s))} s` : `about ${several(Math.round(s / 60), "minute")}`;
const setting = ({ title, depth }: Winner) => `${title}, ${depth === "auto" ? depth : `depth ${depth}`}`;

// Without figures: those of single runs are partly luck.
function leads(won: Winner, running: boolean) {
  const so = running ? " so far" : "";
  return won.method === "none" ? `Nothing was faster than no drafting${so}.` : `Leading${so}: ${setting(won)}`;
}

function progressOf({ done, total, left_s: left }: NonNullable<Sweep["progress"]>) {
  return `${done} of ${count(total)} ${total === 1 ? "reply" : "replies"}, ${about(left)} left`;
}

function TunePage() {
  const { offer, state, running, error, ask, refresh, start, stop } = useMeasurement("tune", FRESH, take);
  const [choices, choose] = useChoices(offer, proposed);
  const [told, setTold] = useState(""); // of the stored default
  const changeDefault = async (act: "use" | "forget") => {
    const answer = await ask(act);
    if (!answer) return;
    setTold(act === "use" ? "Saved as the default." : "This model has no measured default.");
    await refresh();
    status.refresh(); // the chat shows it too
  };
  const begin = () => {
    setTold("");
    choose({}); // it shows what runs
    start("start", choices ?? {});
  };
  return (
    <ui.PageFrame title="Tune" intro="Find the fastest method and depth for this model on this machine.">
      <ui.Form class="ft-panel ft-stack ft-gap-3" aria-label="Tune" onSubmit={begin}>
        {offer && !choices && (
          <p class="ft-hint">
            <ui.Linked text="No model is loaded. Load one on the Models page." />
          </p>
        )}
        {choices && (
          <>
            <StartButton choices={choices} disabled={running} />
            <ui.Disclosure summary="Prompts, methods, depths">
              <ChoicesForm offer={offer} choices={choices} choose={choose} />
            </ui.Disclosure>
            {offer.kept && (
              <p class="ft-hint">
                Default for this model: {offer.kept}{" "}
                <ui.Button kind="link" text="Forget" data-act="forget" onClick={() => changeDefault("forget")} />
              </p>
            )}
          </>
        )}
        <p class="tune-told" role="status">
          {told}
        </p>
      </ui.Form>
      <ui.ErrorNote text={error || (state?.stopped && !state.result ? "Stopped before any result." : "")} />
      {running && (
        <UnderWay
          name="Find the fastest"
          text={state?.progress ? progressOf(state.progress) : "Warming up"}
          share={state?.progress ? state.progress.done / state.progress.total : null}
          stop="Stop"
          onStop={stop}
        />
      )}
      {state?.result && <Result sweep={state} running={running} onUse={() => changeDefault("use")} ask={ask} />}
    </ui.PageFrame>
  );
}

// Says how long it takes, by the speed of earlier replies.
function StartButton({ choices, disabled }: { choices: Choices; disabled: boolean }) {
  const { ask } = ui.useServer(); // its refusals are shown at the start
  const found = ui.useFound<{ seconds: number | null }>(ask, "forecast", choices, [JSON.stringify(choices), disabled]);
  const seconds = found?.seconds ?? null;
  const text = seconds === null ? "Find the fastest" : `Find the fastest · ${about(seconds)}`;
  return (
    <div class="ft-row">
      <ui.Button kind="primary" type="submit" text={text} data-act="start" disabled={disabled} />
      <span class="ft-hint">
        {seconds === null
          ? "Takes several minutes. Close other programs first."
          : "Longer while other programs run: close them first."}
      </span>
    </div>
  );
}

type ChoicesFormProps = { offer: Offer; choices: Choices; choose: (changes: Partial<Choices>) => void };
function ChoicesForm({ offer, choices, choose }: ChoicesFormProps) {
  // Several of a few.
  function ticks<Name extends "sources" | "methods" | "depths">(
    name: Name,
    legend: string,
    options: { id: Choices[Name][number]; label: string; disabled?: boolean }[],
    hint?: string,
  ) {
    const chosen = choices[name] as Choices[Name][number][];
    const turn = (turned: unknown, on: boolean) =>
      choose({ [name]: options.map(({ id }) => id).filter((id) => (id === turned ? on : chosen.includes(id))) });
    return (
      <fieldset class="tune-ticks ft-row">
        <legend>{legend}</legend>
        {options.map(({ id, label, disabled }) => (
          <label key={id} class="ft-row">
            <input
              type="checkbox"
              {...{ value: id, disabled }}
              checked={chosen.includes(id)}
              onChange={(event) => turn(id, event.currentTarget.checked)}
            />
            {label}
          </label>
        ))}
        {hint && <span class="ft-hint">{hint}</span>}
      </fieldset>
    );
  }
  const own = (n: number) => (n ? `My last ${n === 1 ? "prompt" : `${n} prompts`}` : "My last prompts (none yet)");
  return (
    <div class="tune-choices ft-stack ft-gap-4">
      {ticks(
        "sources",
        "Prompts",
        offer.sets.map(({ id, count: n }) => ({
          id,
          label: id === "chats" ? own(n) : "The included set: questions, stories, JSON, rewriting",
          disabled: !n,
        })),
      )}
      {ticks(
        "methods",
        "Methods",
        offer.methods.map(({ name, title }) => ({ id: name, label: title })),
      )}
      {ticks(
        "depths",
        "Depths",
        offer.depths.map((id) => ({ id, label: String(id) })),
        "Drafted tokens per round, at most. Auto is always included.",
      )}
      <ui.Select label="Effort" {...ui.bound(choices, choose)("effort")} options={EFFORTS} />
    </div>
  );
}

type ResultProps = { sweep: Sweep; running: boolean; onUse: () => void; ask: (name: string) => Promise<any> };
function Result({ sweep, running, onUse, ask }: ResultProps) {
  const { result, confirmed, stopped, decided } = sweep;
  if (!result) return null;
  const won = result.winners.all;
  const better = Boolean(confirmed?.better);
  const n = result.divergences ?? 0;
  const differ = n && (n === 1 ? "1 reply differs" : `${n} replies differ`);
  const save = async () => {
    const value = await ask("export");
    if (value) saveFile("foretoken-tune.json", `${JSON.stringify(value, null, 1)}\n`, "application/json");
  };
  return (
    <>
      <ui.Panel class="tune-result">
        <p class="verdict">{confirmed?.verdict ?? leads(won, running)}</p>
        {confirmed && confirmed.favours < 1 && <p>{leads(won, false)}</p>}
        {(confirmed || running) && (
          <p class="ft-hint">
            {confirmed?.certainty ??
              "At the end the leader is compared with no drafting once more. Only that gives a verdict."}
          </p>
        )}
        {!running && (
          <div class="ft-row">
            {decided && (
              <ui.Button kind={better ? "primary" : undefined} data-act="use" onClick={onUse}>
                {won.method === "none" ? "Use no drafting" : "Use it"}
              </ui.Button>
            )}
            <ui.Button kind="quiet" text="Export as JSON" data-act="export" onClick={save} />
          </div>
        )}
        {stopped && (
          <p class="ft-hint">
            Stopped. Results cover the prompts that every setting finished; the winner was not confirmed.
          </p>
        )}
        <ui.ErrorNote
          text={differ ? `${differ} from the text without drafting. This is a bug; use Race to find where.` : ""}
        />
      </ui.Panel>
      <ui.Panel title="Speed-up">
        <p class="ft-hint">
          Compared with no drafting; above 1 is faster. Below each: its slowest and fastest prompt.{" "}
          {better && "The fastest are outlined."}
        </p>
        <Heatmap rows={result.rows} kinds={result.kinds} outlined={better} />
        {result.left_out > 0 && (
          <p class="ft-hint">{several(result.left_out, "prompt")} skipped: longer than the context.</p>
        )}
      </ui.Panel>
    </>
  );
}

// Speed-ups as a table of colours: settings down, kinds of prompts across.

const MOST = Math.log(2.5); // the speed-up with the deepest colour

// `rows`: one for every setting and kind, the fastest over all first. Plain decoding is the baseline and has no line.
// `outlined`: the fastest are.
function Heatmap({ rows, kinds: all, outlined }: { rows: Row[]; kinds: string[]; outlined: boolean }) {
  const kinds = all.length === 2 ? all.slice(0, 1) : all; // of one kind, "all" would be the same again
  const place = (row: Row) => (row.kind === "all" ? -row.speedup : 0);
  const drafted = rows.filter((row) => row.method !== "none").sort((one, other) => place(one) - place(other));
  const keyOf = (row: Row) => `${row.method} ${row.depth}`;
  const settings = [...new Map(drafted.map((row) => [keyOf(row), row])).entries()];
  const cells = new Map(drafted.map((row) => [`${keyOf(row)} ${row.kind}`, row]));
  const best = (kind: string) => Math.max(1, ...drafted.filter((row) => row.kind === kind).map((row) => row.speedup));
  return (
    <div class="tune-map ft-scroll" tabIndex={0} role="group" aria-label="Speed-up">
      <ui.Table class={outlined ? "heatmap outlined" : "heatmap"} columns={["method", "depth", ...kinds]}>
        <tbody>
          {settings.map(([key, { title, depth }]) => (
            <tr key={key} data-setting={key}>
              <th scope="row">{title}</th>
              <td>{depth}</td>
              {kinds.map((kind) => (
                <Cell key={kind} row={cells.get(`${key} ${kind}`)} best={best(kind)} />
              ))}
            </tr>
          ))}
        </tbody>
      </ui.Table>
    </div>
  );
}

function Cell({ row, best }: { row: Row | undefined; best: number }) {
  if (!row) return <td>–</td>;
  const faster = row.speedup >= 1;
  const look = ["heat", faster ? "faster" : "slower", faster && row.speedup === best && "best"];
  const heat = Math.round(Math.min(Math.abs(Math.log(row.speedup)) / MOST, 1) * 42);
  const figures = `${speed(row.tokens_per_s)} tokens/s, ${percent(row.acceptance_rate)} accepted`;
  const told = `${setting(row)}, ${row.kind}: ${figures}, ${several(row.prompts, "prompt")}`;
  return (
    <td class={look.filter(Boolean).join(" ")} title={told} data-kind={row.kind} style={{ "--heat": `${heat}%` }}>
      {times(row.speedup)}
      {row.prompts > 1 && (
        <small>
          {times(row.slowest)} – {times(row.fastest)}
        </small>
      )}
    </td>
  );
}

ui.register("tune", TunePage);
