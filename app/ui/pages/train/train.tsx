// The Train page: a form, or a run with its progress.

import { useState } from "preact/hooks";
import * as ui from "../../shared/components";
import { Learning } from "./learning";
import { count, several } from "../../shared/format";
import { RUNS_ON, Run, type TrainingRun } from "./run";

const EVERY_MS = 1000; // while a training runs

function TrainPage() {
  const shown = ui.usePage() === "train";
  const { act, answer, error, refresh } = ui.useAnswer<{ run: TrainingRun | null }>("training", shown);
  const run = answer?.run;
  const going = run?.state === "running" || run?.state === "stopping";
  ui.useTimer(shown && going && EVERY_MS, () => void refresh(), [shown, answer, error]);
  return (
    <ui.PageFrame
      title="Train"
      intro="Train a small drafter that imitates your model. The model itself does not change.">
      <ui.ErrorNote text={answer ? "" : error} />
      {answer && !run && <TrainForm shown={shown} error={error} onStart={(form) => act("train", form)} />}
      {run && (
        <ui.Panel data-run={run.name} class="training">
          <Run run={run} act={act} />
          <ui.ErrorNote text={error} />
        </ui.Panel>
      )}
      <Learning shown={shown} />
    </ui.PageFrame>
  );
}

// What TrainBackend.training_choices answers.
interface Offer {
  targets: { id: string; name: string }[];
  target: string; // the loaded one, which may be none of these
  speed: number | null; // its tokens/s, if measured
  kinds: { id: string; name: string; sentence: string }[];
  questions: number; // in the chats
}

type Asked = { target: string; kind: string; minutes: string; prompts: string };

const GENERAL = "7,000 prompts: code to explain, write and test, everyday questions, JSON.";
const PIP = "pip"; // the model that comes with the app
const LEAST_QUESTIONS = 2;
const TOKENS_AN_ANSWER = 150;

function estimate(minutes: number | null, speed: number | null) {
  if (!minutes || minutes <= 0) return "Enter a number of minutes.";
  const some = speed ? ` up to ${count(Math.max(1, Math.round((60 * minutes * speed) / TOKENS_AN_ANSWER)))}` : "";
  return (
    `About ${several(2 * minutes, "minute")}: ${minutes} to record${some} replies of the model, ${minutes} to train. ` +
    "Then its acceptance is measured, which takes longer while other programs run."
  );
}

function chatsHint(n: number) {
  if (n < LEAST_QUESTIONS) return "Needs at least two prompts; several hundred work well.";
  return `${count(n)} prompts. They stay on this machine.${n < 200 ? " Several hundred work well." : ""}`;
}

// `error`: why the training was not started.
type FormProps = { error: string; onStart: (form: Asked) => void };
function TrainForm({ shown, ...rest }: FormProps & { shown: boolean }) {
  const { ask, error } = ui.useServer();
  const [touched, setTouched] = useState(false);
  // Another model may have been loaded meanwhile; what the user chose stays.
  const offer = ui.useFound<Offer>(ask, "training_choices", {}, [shown], shown && !touched);
  if (!offer) return <ui.ErrorNote text={error} />;
  if (!offer.targets.length)
    return <ui.Panel>There is no model on this machine. Download one on the Models page first.</ui.Panel>;
  const ids = offer.targets.map(({ id }) => id);
  const target = ids.includes(offer.target) ? offer.target : ids[0];
  return <Filled key={target} {...rest} offer={{ ...offer, target }} onTouch={() => setTouched(true)} />;
}

function Filled({ offer, error, onTouch, onStart }: FormProps & { offer: Offer; onTouch: () => void }) {
  const own = offer.target === PIP;
  const [values, setValues] = useState({
    target: offer.target,
    kind: offer.kinds[0].id,
    minutes: (own ? 10 : 60) as number | null,
    prompts: own ? "pip" : "general",
    file: "",
  });
  const field = ui.bound(values, (changed) => setValues((before) => ({ ...before, ...changed })));
  const { target, kind, minutes, prompts, file } = values;
  const submit = () =>
    onStart({ target, kind, minutes: String(minutes ?? ""), prompts: prompts === "file" ? file : prompts });
  const few = offer.questions < LEAST_QUESTIONS;
  return (
    <ui.Form class="ft-panel ft-stack ft-gap-3" onSubmit={submit} onInput={onTouch} onChange={onTouch}>
      <div class="ft-fields">
        <ui.Select
          label="Model"
          class="wide"
          {...field("target")}
          options={offer.targets.map(({ id, name }) => ({ id, label: name }))}
        />
        <ui.NumberInput label="Training time, minutes" {...field("minutes")} min={0.1} step="any" required />
      </div>
      <ui.Status text={estimate(minutes, target === offer.target ? offer.speed : null)} />
      <ui.Choices
        label="Drafter type"
        {...field("kind")}
        options={offer.kinds.map(({ id, name, sentence }) => ({ id, label: name, hint: sentence }))}
      />
      <ui.Choices
        label="Training prompts"
        {...field("prompts")}
        options={[
          { id: "general", label: "General prompts", hint: GENERAL },
          { id: "pip", label: "Pip's prompts", hint: "12,000 prompts: stories, questions, JSON, rewriting." },
          { id: "chats", label: "My chats", hint: chatsHint(offer.questions), disabled: few },
          { id: "file", label: "File", hint: 'JSON lines: {"prompt": "..."} or {"messages": [...]}' },
        ]}
      />
      {prompts === "file" && (
        <ui.TextInput {...field("file")} placeholder="/path/to/prompts.jsonl" aria-label="File path" />
      )}
      <div class="ft-row">
        <ui.Button kind="primary" type="submit" text="Start training" data-act="start" />
        <span class="ft-hint">{RUNS_ON}</span>
      </div>
      <ui.ErrorNote text={error} />
    </ui.Form>
  );
}

ui.register("train", TrainPage);
