// What the app starts with and computes with. A choice is stored when it is made.

import { useEffect } from "preact/hooks";
import { Button, ErrorNote, Panel, Select, Toggle, useAnswer, useStatus } from "../../shared/components";
import { status as feed } from "../../shared/frame/status";
import { words } from "./words";

// What SettingsBackend.computing answers.
interface ComputingView {
  start: { value: keyof typeof words.starts; choices: { id: keyof typeof words.starts; pair: string | null }[] };
  device: { value: string; choices: { id: keyof typeof words.devices; why: string | null }[] }; // `why` not
  threads: { value: number | null; default: number; most: number };
  native: { value: boolean };
  idle_unload: { value: number | null; choices: (number | null)[] }; // minutes; null: never
  titles: { value: boolean };
  fixed: Record<string, string[] | undefined>; // the command line's options that fix a setting
  loaded: string | null;
  reload: boolean; // the loaded model still uses other settings
}

// The minutes that are offered, with the present value, which may come from the command line.
const idleChoices = ({ value, choices }: ComputingView["idle_unload"]) =>
  choices.includes(value) ? choices : [...choices, value];

// Whether the model names chats.
export function TitlesByModel({ shown }: { shown: boolean }) {
  const { ask, answer: view, setAnswer: setView, error } = useAnswer("computing", shown);
  if (!view) return <ErrorNote text={error} />;
  return (
    <>
      <Toggle
        name="titles"
        label={words.titles}
        hint={words.titlesHint}
        value={view.titles.value}
        onChange={async (value) => setView((await ask("keep_computing", { name: "titles", value })) ?? { ...view })}
      />
      <ErrorNote text={error} />
    </>
  );
}

export function Computing({ shown }: { shown: boolean }) {
  const { ask, answer, setAnswer: setView, error, refresh } = useAnswer("computing", shown);
  const view: ComputingView | null = answer;
  const status = useStatus();
  // The model that was loaded meanwhile may use the current settings.
  useEffect(() => void (shown && refresh()), [status?.loaded?.detail, status?.loads]);
  if (!view) return <ErrorNote text={error} />;
  const keep = async (name: string, value: string | number | boolean | null) =>
    setView((await ask("keep_computing", { name, value })) ?? { ...view }); // refused: show what is stored
  const field = (name: string, hint = "") => {
    const fixed = view.fixed[name] && words.fixed(view.fixed[name]);
    return { name, hint: fixed || hint, disabled: Boolean(fixed) };
  };
  const missing = view.device.choices.flatMap(({ why }) => why ?? []).join(" ");
  const counts = Array.from({ length: view.threads.most }, (_, i) => String(i + 1));
  return (
    <Panel title={words.computing} data-part="computing">
      <p class="ft-hint">{words.computingHint}</p>
      <div class="ft-fields">
        <Select
          label={words.start}
          {...field("start")}
          value={view.start.value}
          options={view.start.choices.map(({ id, pair }) => ({ value: id, label: words.starts[id](pair ?? "") }))}
          onChange={(value) => keep("start", value)}
        />
        <Select
          label={words.device}
          {...field("device", missing)}
          value={view.device.value}
          options={view.device.choices.map(({ id, why }) => ({
            value: id,
            label: why ? words.missing(words.devices[id]) : words.devices[id],
            disabled: Boolean(why) && id !== view.device.value,
          }))}
          onChange={(value) => keep("device", value)}
        />
        <Select
          label={words.threads}
          {...field("threads", words.threadsHint)}
          value={String(view.threads.value ?? "")}
          options={[{ value: "", label: words.threadsDefault(view.threads.default) }, ...counts]}
          onChange={(value) => keep("threads", Number(value) || null)}
        />
        <Select
          label={words.idle}
          {...field("idle_unload", words.idleHint)}
          value={String(view.idle_unload.value ?? "")}
          options={idleChoices(view.idle_unload).map((minutes) => ({
            value: String(minutes ?? ""),
            label: words.idleAfter(minutes),
          }))}
          onChange={(value) => keep("idle_unload", Number(value) || null)}
        />
      </div>
      <Toggle
        {...field("native", words.nativeHint)}
        label={words.native}
        value={view.native.value}
        onChange={(value) => keep("native", value)}
      />
      <ErrorNote text={error} />
      {view.reload && (
        <div class="reload ft-row ft-box" role="status">
          <span>{words.reload(view.loaded ?? "")}</span>
          <Button
            small
            data-act="reload"
            disabled={Boolean(status?.opening)}
            onClick={() => ask("reload").then(() => feed.refresh())}>
            {words.reloadNow}
          </Button>
        </div>
      )}
    </Panel>
  );
}
