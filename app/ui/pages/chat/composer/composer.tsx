// The message box: its attachments, its text, a row of buttons, and the buttons that send and stop.

import { ArrowUp, Square } from "lucide";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Button, Form, Select, Status, usePage } from "../../../shared/components";
import { words } from "../words";
import { ToolsMenu } from "../tools/menu";
import { AttachButton, AttachmentRow, adding, readFiles, takesFiles } from "./attachments";
import type { ChatPage, PageState, Written } from "../types";

const TALLEST = 220; // px

export function Composer({ page, state }: { page: ChatPage; state: PageState }) {
  const { draft, running } = state;
  const box = useRef<HTMLTextAreaElement>(null);
  const shown = usePage();
  useLayoutEffect(() => {
    if (!box.current?.offsetParent) return; // another page is shown: it has no height there
    box.current.style.height = "auto";
    box.current.style.height = `${Math.min(box.current.scrollHeight + 2, TALLEST)}px`;
  }, [draft.text, shown]);
  const write = (change: Partial<Written>) => page.write({ ...page.state.draft, ...change });
  const key = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      page.sending.send();
    } else if (event.key === "ArrowUp" && !page.state.draft.text && running === null && page.questions.length) {
      event.preventDefault();
      page.set({ editing: (page.questions.at(-1) as any).id });
    }
  };
  return (
    <Form class="composer" onSubmit={() => page.sending.send()}>
      <AttachmentRow
        page={page}
        files={draft.files}
        onChange={(change) => write({ files: change(page.state.draft.files) })}
      />
      {state.reading.length > 0 && <Status text={words.readingFiles(state.reading)} />}
      <textarea
        class="ft-input"
        ref={box}
        rows={1}
        dir="auto"
        placeholder={words.placeholder}
        aria-label={words.placeholder}
        title={words.hint}
        value={draft.text}
        onInput={({ currentTarget }) => write({ text: currentTarget.value })}
        onKeyDown={key}
        {...takesFiles((files) => attach(page, files))}
      />
      <div class="composer-row ft-row">
        <AttachButton page={page} onFiles={(files) => attach(page, files)} onAdded={adding(page)} />
        <ToolsMenu
          ask={page.ask}
          chat={state.chat}
          off={state.toolsOff}
          onOff={(toolsOff) => page.set({ toolsOff })}
          model={state.status?.loaded?.id ?? ""}
          running={running !== null}
        />
        <Thinking page={page} view={state.view} />
        <span class="grow" />
        {running !== null && (
          <Button class="stop" kind="danger" icon={Square} text={words.stop} onClick={() => page.stream.stop()} />
        )}
        {(running === null || draft.text.trim() || draft.files.length > 0) && (
          <Button class="send" kind="primary" type="submit" icon={ArrowUp} text={words.send} />
        )}
      </div>
    </Form>
  );
}

// Adds files to the message box.
export const attach = (page: ChatPage, chosen: File[]) => readFiles(page, chosen, adding(page));

// How much the model thinks, if it has the choice.
function Thinking({ page, view }: { page: ChatPage; view: any }) {
  const { thinking, settings } = view ?? {};
  if (!thinking?.length) return null;
  return (
    <Select
      class="thinking"
      title={words.thinkingChoice}
      aria-label={words.thinkingChoice}
      value={settings.thinking}
      options={thinking.map(({ id, label }: { id: string; label: string }) => ({ value: id, label }))}
      onChange={(now) => page.settings.change({ thinking: now }, true)}
    />
  );
}
