// What to train: the model, the kind of drafter, the prompts, the time.

import { useState } from "preact/hooks";
import {
  bound,
  Button,
  Choices,
  ErrorNote,
  Form,
  NumberInput,
  Panel,
  Select,
  Status,
  TextInput,
  useFound,
  useServer,
} from "../../shared/components";
import { words } from "./words";

// What TrainBackend.training_choices answers.
interface Offer {
  targets: { id: string; name: string }[];
  target: string; // the loaded one
  speed: number | null; // its tokens/s, if measured
  kinds: { id: string; name: string; sentence: string }[];
  questions: number; // in the chats
}

type Form = { target: string; kind: string; minutes: string; prompts: string };

const PIP = "pip"; // the model that comes with the app
const LEAST_QUESTIONS = 2;

export function TrainForm({ shown, onStart }: { shown: boolean; onStart: (form: Form) => void }) {
  const { ask, error } = useServer();
  const [touched, setTouched] = useState(false);
  // Another model may have been loaded meanwhile; what the user chose stays.
  const offer = useFound<Offer>(ask, "training_choices", {}, [shown], shown && !touched);
  if (!offer) return <ErrorNote text={error} />;
  if (!offer.targets.length) return <Panel>{words.noTargets}</Panel>;
  return <Filled key={offer.target} offer={offer} onTouch={() => setTouched(true)} onStart={onStart} />;
}

function Filled({ offer, onTouch, onStart }: { offer: Offer; onTouch: () => void; onStart: (form: Form) => void }) {
  const own = offer.target === PIP;
  const [values, setValues] = useState({
    target: offer.target,
    kind: offer.kinds[0].id,
    minutes: (own ? 10 : 60) as number | null,
    prompts: own ? "pip" : "general",
    file: "",
  });
  const field = bound(values, (changed) => setValues((before) => ({ ...before, ...changed })));
  const { target, kind, minutes, prompts, file } = values;
  const submit = () =>
    onStart({ target, kind, minutes: String(minutes ?? ""), prompts: prompts === "file" ? file : prompts });
  const few = offer.questions < LEAST_QUESTIONS;
  return (
    <Form class="ft-panel ft-stack ft-gap-3" onSubmit={submit} onInput={onTouch} onChange={onTouch}>
      <div class="ft-fields">
        <Select
          label={words.model}
          class="wide"
          {...field("target")}
          options={offer.targets.map(({ id, name }) => ({ value: id, label: name }))}
        />
        <NumberInput label={words.minutes} {...field("minutes")} min={0.1} step="any" required />
      </div>
      <Status text={words.estimate(minutes, target === offer.target ? offer.speed : null)} />
      <Choices
        label={words.kind}
        {...field("kind")}
        options={offer.kinds.map(({ id, name, sentence }) => ({ value: id, label: name, hint: sentence }))}
      />
      <Choices
        label={words.prompts}
        {...field("prompts")}
        options={[
          { value: "general", label: words.general, hint: words.generalHint },
          { value: "pip", label: words.pip, hint: words.pipHint },
          { value: "chats", label: words.chats, hint: words.chatsHint(offer.questions), disabled: few },
          { value: "file", label: words.file, hint: words.fileHint },
        ]}
      />
      {prompts === "file" && <TextInput {...field("file")} placeholder={words.filePath} aria-label={words.fileLabel} />}
      <div class="ft-row">
        <Button kind="primary" type="submit" text={words.start} data-act="start" />
        <span class="ft-hint">{words.runsHint}</span>
      </div>
    </Form>
  );
}
