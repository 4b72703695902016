// The system prompt of one chat: a named one, or the one in the settings of all chats.

import { useState } from "preact/hooks";
import { Button, Form, Select, TextInput, Toggle } from "../../../shared/components";
import { showMarks } from "../../../shared/reply";
import { words } from "../words";
import type { ChatPage, PageState } from "../types";

const focus = (node: HTMLElement | null) => node?.focus();

// Settings of this page and of the open chat, which are not sent with a message.
export function ChatSettings({ page, state }: { page: ChatPage; state: PageState }) {
  const [marks, setMarks] = useState(false);
  const mark = (on: boolean) => {
    setMarks(on);
    showMarks(on);
  };
  return (
    <>
      <SystemChoice page={page} state={state} />
      <Toggle label={words.mark} hint={words.markInfo} value={marks} onChange={mark} />
    </>
  );
}

function SystemChoice({ page, state }: { page: ChatPage; state: PageState }) {
  const { chat, preset, prompts, system } = state;
  const [name, setName] = useState<string | null>(null); // of a prompt that is saved
  const own = chat === null ? prompts.find((each) => each.name === preset) : system;
  const names = prompts.map((each) => each.name);
  if (own && !names.includes(own.name)) names.push(own.name);
  const choose = async (chosen: string) => {
    page.set({ preset: chosen, system: prompts.find((each) => each.name === chosen) ?? null });
    if (chat !== null) await page.ask("use_system", { chat, name: chosen });
  };
  const save = async () => {
    const answer = await page.ask("keep_prompt", { name: name?.trim(), text: page.settings.values?.system ?? "" });
    if (!answer) return;
    page.set({ prompts: answer, ...(chat === null ? {} : { system: { name: name?.trim() ?? "", text: "" } }) });
    setName(null);
    choose(name?.trim() ?? "");
  };
  const remove = async () => {
    const answer = await page.ask("delete_prompt", { name: own?.name });
    if (answer) page.set({ prompts: answer, ...(chat === null ? { preset: "" } : {}) });
  };
  return (
    <div class="chat-system">
      <Select
        label={words.chatSystem}
        name="chat-system"
        value={own?.name ?? ""}
        options={[{ value: "", label: words.systemOfAll }, ...names]}
        onChange={choose}
      />
      {own && <p class="ft-hint system-text">{own.text}</p>}
      {name === null ? (
        <div class="ft-row">
          <Button kind="link" text={words.namePrompt} data-act="name-prompt" onClick={() => setName("")} />
          {own && prompts.some((each) => each.own && each.name === own.name) && (
            <Button kind="link" text={words.deletePrompt} data-act="delete-prompt" onClick={remove} />
          )}
        </div>
      ) : (
        <Form class="ft-row" onSubmit={save}>
          <TextInput
            value={name}
            aria-label={words.promptName}
            placeholder={words.promptName}
            ref={focus}
            onChange={setName}
          />
          <Button small type="submit" text={words.savePrompt} />
        </Form>
      )}
    </div>
  );
}
