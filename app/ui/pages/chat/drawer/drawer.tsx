// The drawer on the right with two tabs, Rounds and Settings. On a phone it covers the chat.

import { X } from "lucide";
import { Button, IconButton, Form, Select, Tabs, TextInput, Toggle } from "../../../shared/components";
import { SettingsForm } from "../../../shared/form/settings_form";
import { memo } from "../../../shared/store";
import { Rounds } from "./rounds";
import type { ChatPage, PageState } from "../types";
import { useState } from "preact/hooks";
import { showMarks } from "../../../shared/reply";

export function Drawer({ page, state }: { page: ChatPage; state: PageState }) {
  const close = () => {
    page.setDrawer(false);
    requestAnimationFrame(() => (document.querySelector("[data-toggle=drawer]") as any)?.focus());
  };
  const { chat, preset, prompts, system } = state;
  return (
    <aside class="drawer ft-stack" aria-label="Rounds and settings">
      <Tabs
        name="drawer"
        label="Rounds and settings"
        shown={state.tab}
        onShow={(tab) => page.set({ tab: tab as PageState["tab"] })}
        keep
        tabs={[
          { id: "rounds", title: "Rounds", pane: <RoundsPane page={page} shown={state.shown} token={state.token} /> },
          { id: "settings", title: "Settings", pane: <SettingsPane {...{ page, chat, preset, prompts, system }} /> },
        ]}
      />
      <IconButton class="drawer-close" icon={X} label="Close" onClick={close} />
    </aside>
  );
}

const RoundsPane = memo((props: Pick<PageState, "shown" | "token"> & { page: ChatPage }) => (
  <div class="rounds">
    <Rounds
      reply={props.shown}
      token={props.token}
      onLight={(from, to) => props.page.stream.message?.reply.light(from, to)}
      onSave={(form) => props.page.stream.save(form)}
    />
  </div>
));

type ChatSettings = Pick<PageState, "chat" | "preset" | "prompts" | "system"> & { page: ChatPage };

// The settings, and those of this page and of the open chat, which are not sent with a message.
const SettingsPane = memo((props: ChatSettings) => {
  const [marks, setMarks] = useState(false);
  const mark = (on: boolean) => {
    setMarks(on);
    showMarks(on);
  };
  return (
    <SettingsForm store={props.page.settings}>
      <SystemChoice {...props} />
      <Toggle
        label="Highlight drafted text"
        hint="Solid line: drafted. Box: correction, in place of a rejected token. Dots: bonus, after an accepted draft."
        value={marks}
        onChange={mark}
      />
    </SettingsForm>
  );
});

// ---- the system prompt of one chat: a named one, or the one in the settings of all chats

const focus = (node: HTMLElement | null) => node?.focus();

function SystemChoice({ page, chat, preset, prompts, system }: ChatSettings) {
  const [name, setName] = useState<string | null>(null); // of a prompt that is saved
  const own = chat === null ? prompts.find((each) => each.name === preset) : system;
  const names = prompts.map((each) => each.name);
  if (own && !names.includes(own.name)) names.push(own.name);
  const choose = (chosen: string, all = prompts) => {
    page.choose({ prompts: all, preset: chosen, system: all.find((each) => each.name === chosen) ?? null });
    if (chat !== null) page.choosing = page.ask("use_system", { chat, name: chosen });
  };
  const save = async () => {
    const chosen = (name ?? "").trim();
    const answer = await page.ask("keep_prompt", { name: chosen, text: page.settings.values?.system ?? "" });
    if (!answer) return;
    setName(null);
    choose(chosen, answer);
  };
  const remove = async () => {
    const answer = await page.ask("delete_prompt", { name: own?.name });
    if (answer) page.choose({ prompts: answer, ...(chat === null ? { preset: "" } : {}) });
  };
  return (
    <div class="chat-system">
      <Select
        label="This chat uses"
        name="chat-system"
        value={own?.name ?? ""}
        options={[{ id: "", label: "Default (above)" }, ...names]}
        onChange={choose}
      />
      {own && <p class="ft-hint system-text">{own.text}</p>}
      {name === null ? (
        <div class="ft-row">
          <Button kind="link" text="Save as preset" data-act="name-prompt" onClick={() => setName("")} />
          {own && prompts.some((each) => each.own && each.name === own.name) && (
            <Button kind="link" text="Delete preset" data-act="delete-prompt" onClick={remove} />
          )}
        </div>
      ) : (
        <Form class="ft-row" onSubmit={save}>
          <TextInput
            value={name}
            maxLength={80}
            aria-label="Preset name"
            placeholder="Preset name"
            ref={focus}
            onChange={setName}
          />
          <Button small type="submit" text="Save" />
        </Form>
      )}
    </div>
  );
}
