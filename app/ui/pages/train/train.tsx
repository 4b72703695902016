// The Train page: a form, or a run with its progress.

import { useEffect, useState } from "preact/hooks";
import { ErrorNote, PageFrame, Panel, register, useBack, usePage, useServer, useTimer } from "../../shared/components";
import { TrainForm } from "./form";
import { Learning } from "./learning";
import { Run } from "./run";
import { words } from "./words";

type TrainingRun = import("./words").TrainingRun;

const EVERY_MS = 1000; // while a training runs

function TrainPage() {
  const shown = usePage() === "train";
  const { ask, error, setError } = useServer();
  const [run, setRun] = useState<TrainingRun | null | undefined>(undefined); // null: none; undefined: unknown
  const take = (answer: { run: TrainingRun | null; error: string | null } | null) => {
    if (!answer) return;
    setRun(answer.run);
    if (answer.error) setError(answer.error);
  };
  const act = async (name: string, data = {}) => take(await ask(name, data));
  useEffect(() => void (shown && act("training")), [shown]);
  useBack(() => void (shown && act("training")));
  const going = run?.state === "running" || run?.state === "stopping";
  useTimer(shown && going && EVERY_MS, () => void act("training"), [shown, run]);
  return (
    <PageFrame title={words.title} intro={words.intro}>
      <ErrorNote text={error} />
      {run === null && <TrainForm shown={shown} onStart={(form) => act("train", form)} />}
      {run && (
        <Panel data-run={run.name} class="training">
          <Run run={run} act={act} />
        </Panel>
      )}
      <Learning shown={shown} />
    </PageFrame>
  );
}

register("train", TrainPage);
