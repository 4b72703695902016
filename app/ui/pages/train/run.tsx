// A training: its steps, figures and buttons.

import { Button, CopyButton, ErrorNote, PageLink, Status, SureButton, useStatus } from "../../shared/components";
import { count, fixed, percent, several } from "../../shared/format";
import { propose } from "../../shared/measurement";
import { status } from "../../shared/frame/status";
import { Chart } from "./chart";

// What `show` of the backend returns; times in minutes of training.
export interface TrainingRun {
  name: string;
  target: string;
  kind: string;
  prompts: string; // general, pip, chats, or a file's name
  minutes: number;
  state: "running" | "stopping" | "stopped" | "failed" | "done";
  phase: string;
  done: number; // recorded replies; while it measures, measured ones
  of: number; // replies to record; while it measures, those to measure
  share: number; // of the training
  recorded: number; // share of the recording
  left: string | null; // the time left, as text
  loss: [number, number][];
  length: [number, number][]; // tokens per round
  positions: number[];
  error: string | null;
  drafter: string | null; // its folder
  pair: string | null;
  race: { rival: string; base: string; place: string | null } | null;
}

type Act = (name: string, data?: object) => Promise<boolean>;

const LOOKS = { running: "good", done: "good", failed: "bad", stopped: "rests", stopping: "rests" };

export const RUNS_ON = "Runs in the background while Foretoken is open. Progress is saved.";
const STEPS = ["Load", "Record replies", "Train", "Measure"];
const SOURCES: Record<string, string> = { general: "general prompts", pip: "Pip's prompts", chats: "your chats" };
const WEAK = 1.2; // tokens per round; less does not pay for the drafter's own time

const titleOf = ({ kind, target }: TrainingRun) => `${kind} for ${target}`;
const replies = (n: number) => `${count(n)} ${n === 1 ? "reply" : "replies"}`;
const learned = ({ share }: TrainingRun) => `${Math.floor(100 * share)} %`;

// Returns what a run does, and how long that takes.
function captionOf(run: TrainingRun) {
  const left = run.left ? `, ${run.left} left` : "";
  if (run.phase === "recording") return `${replies(run.done)} recorded${left}`;
  if (run.phase === "learning") return `${learned(run)}${left}`;
  if (run.phase !== "measuring") return "Loading the model";
  return run.of ? `Measuring acceptance: ${run.done} of ${replies(run.of)}${left}` : "Measuring acceptance";
}

function stoppedAt(run: TrainingRun) {
  if (run.share >= 1) return "Stopped while its acceptance was measured. The training is saved; Resume measures again.";
  const place = run.share > 0 ? `at ${learned(run)} of the training` : `after ${replies(run.done)}`;
  return `Stopped ${place}. Progress is saved.`;
}

export function Run({ run, act }: { run: TrainingRun; act: Act }) {
  return (
    <>
      <header class="ft-row ft-spread">
        <div>
          <h2>{titleOf(run)}</h2>
          <p class="ft-hint">
            From {SOURCES[run.prompts] ?? run.prompts}, {several(run.minutes, "minute")}
          </p>
        </div>
        <span class={`run-state ${run.state} tag ${LOOKS[run.state]}`}>{run.state}</span>
      </header>
      <ErrorNote text={run.error} />
      <Progress run={run} />
      {run.state === "stopped" && <p>{stoppedAt(run)}</p>}
      {run.state === "done" && <Result run={run} />}
      <Figures run={run} />
      <Buttons run={run} act={act} />
    </>
  );
}

// Returns the number of the step that a run is at.
function stepOf(run: TrainingRun) {
  if (run.phase === "recording") return 1;
  if (run.phase === "learning") return 2;
  if (run.share >= 1) return 3; // it measures while it learns, too
  return run.share > 0 || run.phase === "measuring" ? 2 : run.done > 0 ? 1 : 0;
}

const going = ({ state }: TrainingRun) => state === "running" || state === "stopping";

function Progress({ run }: { run: TrainingRun }) {
  const at = stepOf(run);
  const measured = at === 3 ? run.done / Math.max(1, run.of) : run.share;
  const value = { recording: run.recorded, learning: run.share, measuring: measured }[run.phase];
  return (
    <>
      <ol class="steps ft-list ft-row">
        {STEPS.map((step, number) => {
          const current = number === at && going(run);
          const look = run.state === "done" || number < at ? "past" : number === at ? "current" : "";
          return (
            <li key={step} class={`ft-row ${look}`} aria-current={current ? "step" : undefined}>
              {step}
            </li>
          );
        })}
      </ol>
      {going(run) && value !== undefined && <progress max={1} value={value} aria-label={titleOf(run)} />}
      {going(run) && (
        <p class="ft-hint caption" role="status">
          {captionOf(run)}
        </p>
      )}
    </>
  );
}

function Result({ run }: { run: TrainingRun }) {
  const length = run.length.at(-1)?.[1];
  return (
    <div class="run-end">
      {length !== undefined && (
        <p>
          <b>Done: {fixed(length)} tokens per round on held-out prompts.</b>{" "}
          {length < WEAK && "That is too little to help. Train longer, or with more prompts."}
        </p>
      )}
      <p class="ft-hint">
        Listed on Models as {run.pair}. Saved in <code>{run.drafter}</code> <CopyButton text={run.drafter ?? ""} />
      </p>
    </div>
  );
}

function Figures({ run }: { run: TrainingRun }) {
  const learning = going(run) && stepOf(run) === 2; // only then is an empty chart about to fill
  const { loss, length } = run;
  if (!loss.length && !length.length && !learning) return null;
  return (
    <div class="run-charts">
      {(loss.length > 0 || learning) && (
        <Figure title="Loss" unit="nats per token" points={loss} empty="First value after the first step" />
      )}
      {(length.length > 0 || learning) && (
        <Figure
          title="Tokens per round"
          unit="on held-out prompts"
          points={length}
          empty="Measured every few minutes, and at the end"
          from={1}
        />
      )}
      {run.positions.length > 0 && (
        <dl class="positions ft-pairs" aria-label="Accepted by position">
          {run.positions.map((share, number) => (
            <div key={number}>
              <dt>token {number + 1}</dt>
              <dd>{percent(share)}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

const minutesOf = (x: number) => `${x > 0 && x < 10 ? x.toFixed(1) : Math.round(x)} min`;

type FigureProps = { title: string; unit: string; points: [number, number][]; empty: string; from?: number };
function Figure({ title, unit, points, empty, from }: FigureProps) {
  return (
    <figure class="ft-box">
      <figcaption class="ft-row">
        <b>{title}</b>
        <span class="ft-hint">{unit}</span>
        {points.length > 0 && <span class="reading">{fixed(points[points.length - 1][1])}</span>}
      </figcaption>
      {points.length > 0 ? (
        <Chart points={points} label={title} at={minutesOf} from={from} />
      ) : (
        <p class="ft-hint nothing">{empty}</p>
      )}
    </figure>
  );
}

function Buttons({ run, act }: { run: TrainingRun; act: Act }) {
  if (run.state === "stopping") return <p class="ft-hint">Saving progress …</p>;
  if (run.state === "done") return <DoneButtons run={run} act={act} />;
  if (run.state === "running")
    return (
      <div class="ft-row">
        <Button text="Stop" data-act="stop" onClick={() => act("change_training", { act: "stop" })} />
        <span class="ft-hint">{RUNS_ON}</span>
      </div>
    );
  return (
    <div class="ft-row">
      <Button kind="primary" data-act="resume" onClick={() => act("change_training", { act: "resume" })}>
        {run.state === "failed" ? "Try again" : "Resume"}
      </Button>
      <SureButton
        text="Delete"
        sure="Delete this training run?"
        data-act="discard"
        onSure={() => act("change_training", { act: "discard" })}
      />
    </div>
  );
}

function DoneButtons({ run, act }: { run: TrainingRun; act: Act }) {
  const { loaded, opening, failed } = useStatus() ?? {};
  const here = loaded?.name === run.pair;
  const load = () => act("open_trained").then(() => status.refresh());
  return (
    <div class="ft-row">
      <Button kind="primary" text="Load" data-act="load" disabled={here || Boolean(opening)} onClick={load} />
      <Button text="Train another" data-act="another" onClick={() => act("change_training", { act: "put_away" })} />
      <Status
        text={opening ?? (here ? "Loaded." : (failed ?? "The drafter stays; the recorded replies are deleted."))}
      />
      {here && !opening && (
        <span class="loaded-next">
          <PageLink page="chat">Chat with it</PageLink> ·{" "}
          <span onClick={() => run.race && propose(run.race)}>
            <PageLink page="race">Compare with before</PageLink>
          </span>
        </span>
      )}
    </div>
  );
}
