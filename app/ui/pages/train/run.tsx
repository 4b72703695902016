// A training: its steps, figures and buttons.

import { useState } from "preact/hooks";
import { Button, CopyButton, ErrorNote, PageLink, Status, useStatus } from "../../shared/components";
import { fixed, percent } from "../../shared/format";
import { propose } from "../../shared/measurement";
import { status } from "../../shared/frame/status";
import { Chart } from "./chart";
import { words } from "./words";

type TrainingRun = import("./words").TrainingRun;
type Act = (name: string, data?: object) => Promise<void>;

const LOOKS = { running: "good", done: "good", failed: "bad", stopped: "rests", stopping: "rests" };

export function Run({ run, act }: { run: TrainingRun; act: Act }) {
  return (
    <>
      <header class="ft-row ft-spread">
        <div>
          <h2>{words.runTitle(run)}</h2>
          <p class="ft-hint">{words.source(run)}</p>
        </div>
        <span class={`run-state ${run.state} tag ${LOOKS[run.state]}`}>{words.states[run.state]}</span>
      </header>
      <ErrorNote text={run.error} />
      <Progress run={run} />
      {run.state === "stopped" && <p>{words.stopped(run)}</p>}
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
  const caption = { recording: words.recording, learning: words.learning, measuring: words.measuring }[run.phase];
  return (
    <>
      <ol class="steps ft-list ft-row">
        {words.steps.map((step, number) => {
          const current = number === at && going(run);
          const look = run.state === "done" || number < at ? "past" : number === at ? "current" : "";
          return (
            <li key={step} class={`ft-row ${look}`} aria-current={current ? "step" : undefined}>
              {step}
            </li>
          );
        })}
      </ol>
      {going(run) && value !== undefined && <progress max={1} value={value} aria-label={words.runTitle(run)} />}
      {going(run) && (
        <p class="ft-hint caption" role="status">
          {caption?.(run) ?? words.loading}
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
          <b>{words.result(length)}</b> {words.weak(length)}
        </p>
      )}
      <p class="ft-hint">
        {words.inCatalog(run.pair ?? "")} {words.where} <code>{run.drafter}</code>{" "}
        <CopyButton text={run.drafter ?? ""} />
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
        <Figure title={words.loss} unit={words.lossUnit} points={loss} empty={words.lossEmpty} />
      )}
      {(length.length > 0 || learning) && (
        <Figure title={words.length} unit={words.lengthUnit} points={length} empty={words.lengthEmpty} from={1} />
      )}
      {run.positions.length > 0 && (
        <dl class="positions ft-pairs" aria-label={words.positions}>
          {run.positions.map((share, number) => (
            <div key={number}>
              <dt>{words.position(number + 1)}</dt>
              <dd>{percent(share)}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

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
        <Chart points={points} label={title} at={words.at} from={from} />
      ) : (
        <p class="ft-hint nothing">{empty}</p>
      )}
    </figure>
  );
}

function Buttons({ run, act }: { run: TrainingRun; act: Act }) {
  const [sure, setSure] = useState(false); // asked whether to delete
  if (run.state === "stopping") return <p class="ft-hint">{words.stopping}</p>;
  if (run.state === "done") return <DoneButtons run={run} act={act} />;
  if (run.state === "running")
    return (
      <div class="ft-row">
        <Button text={words.stop} data-act="stop" onClick={() => act("stop_training")} />
        <span class="ft-hint">{words.runsHint}</span>
      </div>
    );
  return (
    <div class="ft-row">
      <Button kind="primary" data-act="resume" onClick={() => act("resume_training")}>
        {run.state === "failed" ? words.again : words.resume}
      </Button>
      <Button
        kind={sure ? "danger" : undefined}
        data-act="discard"
        onBlur={() => setSure(false)}
        onClick={() => (sure ? act("discard_training") : setSure(true))}>
        {sure ? words.discardSure : words.discard}
      </Button>
    </div>
  );
}

function DoneButtons({ run, act }: { run: TrainingRun; act: Act }) {
  const { loaded, opening, failed } = useStatus() ?? {};
  const here = loaded?.name === run.pair;
  const load = () => act("open_trained").then(() => status.refresh());
  return (
    <div class="ft-row">
      <Button kind="primary" text={words.load} data-act="load" disabled={here || Boolean(opening)} onClick={load} />
      <Button text={words.another} data-act="another" onClick={() => act("put_training_away")} />
      <Status text={opening ?? (here ? words.loaded : (failed ?? words.anotherHint))} />
      {here && !opening && (
        <span class="loaded-next">
          <PageLink page="chat">{words.chatWith}</PageLink> ·{" "}
          <span onClick={() => run.race && propose(run.race)}>
            <PageLink page="race">{words.race}</PageLink>
          </span>
        </span>
      )}
    </div>
  );
}
