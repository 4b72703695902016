// The Settings page: theme, startup and hardware, tools; what is stored is in stored.tsx. A choice is stored when it is
// made.

import { useEffect } from "preact/hooks";
import * as ui from "../../shared/components";
import { several } from "../../shared/format";
import { status as feed } from "../../shared/frame/status";
import { theme } from "../../shared/frame/theme";
import { useWatched } from "../../shared/store";
import { Diagnostics, Folders, History } from "./stored";
import { Tools } from "./tools";

// What SettingsBackend.computing answers.
interface ComputingView {
  start: { value: string; choices: { id: keyof typeof STARTS; pair: string | null }[] };
  device: { value: string; choices: { id: keyof typeof DEVICES; why: string | null }[] }; // `why` not
  threads: { value: number | null; default: number; most: number };
  native: { value: boolean };
  idle_unload: { value: number | null; choices: (number | null)[] }; // minutes; null: never
  titles: { value: boolean };
  fixed: Record<string, string[] | undefined>; // the command line's options that fix a setting
  loaded: string | null;
  reload: boolean; // the loaded model still uses other settings
}

const DEVICES = { auto: "Automatic", cpu: "CPU", cuda: "NVIDIA GPU" };
const STARTS = {
  pip: () => "Pip (included)",
  last: (pair: string) => (pair ? `The last model used (${pair})` : "The last model used"),
  chosen: (pair: string) => pair,
  now: (pair: string) => `${pair} (loaded now)`,
};

function idleAfter(minutes: number | null) {
  if (minutes === null) return "Never";
  return `After ${minutes < 60 ? several(minutes, "minute") : several(minutes / 60, "hour")}`;
}

function SettingsPage() {
  const shown = ui.usePage() === "settings";
  const choice = useWatched(theme, () => theme.choice);
  return (
    <ui.PageFrame title="Settings" intro="Changes are saved when you make them.">
      <ui.Panel data-part="theme">
        <ui.Choices
          label="Theme"
          name="theme"
          value={choice}
          onChange={(name) => theme.choose(name)}
          options={["System", "Light", "Dark"].map((label) => ({ id: label.toLowerCase(), label }))}
        />
      </ui.Panel>
      <Computing shown={shown} />
      <ui.Panel title="Chats">
        <p>
          Temperature, system prompt and drafting method are beside each chat, under Settings.{" "}
          <ui.PageLink page="chat">Open the chat</ui.PageLink>
        </p>
        <TitlesByModel shown={shown} />
      </ui.Panel>
      <Tools shown={shown} />
      <Folders shown={shown} />
      <History shown={shown} />
      <Diagnostics />
    </ui.PageFrame>
  );
}

function Computing({ shown }: { shown: boolean }) {
  const { act, ask, answer: view, error, refresh } = ui.useAnswer<ComputingView>("computing", shown);
  const status = ui.useStatus();
  // The model that was loaded meanwhile may use the current settings.
  useEffect(() => void (shown && refresh()), [status?.loaded?.detail, status?.loads]);
  if (!view) return <ui.ErrorNote text={error} />;
  const { start, device, threads, idle_unload: idle } = view;
  const field = (name: string, hint = "") => {
    const fixed = view.fixed[name];
    return {
      name,
      hint: fixed ? `Set by ${fixed.join(" and ")} on the command line.` : hint,
      disabled: Boolean(fixed),
      onChange: (value: string | boolean) => void act("keep_computing", { name, value: value || null }),
    };
  };
  const missing = device.choices.flatMap(({ why }) => why ?? []).join(" ");
  const counts = Array.from({ length: threads.most }, (_, i) => String(i + 1));
  const minutes = idle.choices.includes(idle.value) ? idle.choices : [...idle.choices, idle.value]; // of the command line
  return (
    <ui.Panel title="Startup and hardware" data-part="computing">
      <p class="ft-hint">Applies to the next model you load. Command-line options take precedence.</p>
      <div class="ft-fields">
        <ui.Select
          label="On startup, load"
          {...field("start")}
          value={start.value}
          options={start.choices.map(({ id, pair }) => ({ id, label: STARTS[id](pair ?? "") }))}
        />
        <ui.Select
          label="Device"
          {...field("device", missing)}
          value={device.value}
          options={device.choices.map(({ id, why }) => ({
            id,
            label: why ? `${DEVICES[id]} (not available)` : DEVICES[id],
            disabled: Boolean(why) && id !== device.value,
          }))}
        />
        <ui.Select
          label="CPU threads"
          {...field("threads", "Using more threads than cores is slower.")}
          value={String(threads.value ?? "")}
          options={[{ id: "", label: `Automatic (${threads.default})` }, ...counts]}
        />
        <ui.Select
          label="Unload the model when idle"
          {...field("idle_unload", "Frees its memory. The next message loads it again.")}
          value={String(idle.value ?? "")}
          options={minutes.map((each) => ({ id: String(each ?? ""), label: idleAfter(each) }))}
        />
      </div>
      <ui.Toggle
        {...field("native", "Without them PyTorch computes, which is much slower. The text is the same.")}
        onChange={(value) => act("keep_computing", { name: "native", value })}
        label="Compiled CPU kernels (recommended)"
        value={view.native.value}
      />
      <ui.ErrorNote text={error} />
      {view.reload && (
        <div class="reload ft-row ft-box" role="status">
          <span>Reload {view.loaded} to apply.</span>
          <ui.Button
            small
            text="Reload now"
            data-act="reload"
            disabled={Boolean(status?.opening)}
            onClick={() => ask("reload").then(() => feed.refresh())}
          />
        </div>
      )}
    </ui.Panel>
  );
}

// Whether the model names chats.
function TitlesByModel({ shown }: { shown: boolean }) {
  const { act, answer: view, error } = ui.useAnswer<ComputingView>("computing", shown);
  return (
    <>
      {view && (
        <ui.Toggle
          name="titles"
          label="Name new chats automatically"
          hint="The model writes a short title while nothing else runs, if it has a billion parameters or more."
          value={view.titles.value}
          onChange={(value) => act("keep_computing", { name: "titles", value })}
        />
      )}
      <ui.ErrorNote text={error} />
    </>
  );
}

ui.register("settings", SettingsPage);
