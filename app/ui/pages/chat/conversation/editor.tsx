// A question that is edited in its place. It stays open until the edit is accepted, and is kept over a reload.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button, Form, onEscape } from "../../../shared/components";
import { drafts } from "../../../shared/form/drafts";
import { AttachButton, AttachmentRow, readFiles, takesFiles } from "../composer/attachments";
import type { Attached, ChatPage, Message, Written } from "../types";

// Returns where the draft of an edit is stored, its box, and what ends it. The box gets the focus when it opens, where
// the conversation stays: the end would go on being followed, past it.
function useEditing(page: ChatPage, { id }: Message) {
  const place = `edit-${id}`;
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    page.stay();
    area.current?.focus();
    area.current?.scrollIntoView({ block: "nearest" });
  }, []);
  const close = () => {
    drafts.forget(place);
    page.set({ editing: null });
  };
  return { place, area, close };
}

export function Editor({ page, message }: { page: ChatPage; message: Message }) {
  const { place, area, close } = useEditing(page, message);
  const [value, setValue] = useState(() => {
    const kept = drafts.of(place) as Written;
    return kept.text ? kept : { text: message.text, files: message.files };
  });
  const latest = useRef(value);
  latest.current = value;
  const change = (part: Partial<Written>) => {
    const next = { ...latest.current, ...part };
    latest.current = next;
    setValue(next);
    drafts.keep(place, next);
  };
  const added = (file: Attached) => change({ files: [...latest.current.files, file] });
  const add = (chosen: File[]) => readFiles(page, chosen, added);
  const submit = () => {
    if (!page.sending.unfinished(value)) page.sending.act({ action: "edit", message: message.id, ...value });
  };
  const key = (event: KeyboardEvent) => {
    onEscape(close)(event);
    if (event.target === area.current && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
  };
  return (
    <Form class="editing ft-stack" onSubmit={submit} onKeyDown={key}>
      <AttachmentRow
        page={page}
        message={message.id}
        files={value.files}
        onChange={(changed) => change({ files: changed(latest.current.files) })}
      />
      <textarea
        class="editor ft-input"
        rows={3}
        dir="auto"
        aria-label="Edit"
        ref={area}
        value={value.text}
        onInput={({ currentTarget }) => change({ text: currentTarget.value })}
        {...takesFiles(add)}
      />
      <div class="editing-buttons ft-row">
        <AttachButton page={page} onFiles={add} onAdded={added} />
        <Button onClick={close}>Cancel</Button>
        <Button kind="primary" type="submit" text="Save and send" />
      </div>
    </Form>
  );
}

// ---- a reply that is edited in its place: the edited text stays, or the model continues it

const [SHORTEST, TALLEST, WIDTH] = [3, 20, 70]; // rows, and letters in one

export function ReplyEditor({ page, message }: { page: ChatPage; message: Message }) {
  const { place, area, close } = useEditing(page, message);
  const [text, setText] = useState(() => drafts.of(place).text || message.reply.answer);
  const rows = text.split("\n").reduce((sum, line) => sum + 1 + Math.floor(line.length / WIDTH), 0);
  const save = async (goOn: boolean) => {
    const answer = await page.ask("edit_reply", { chat: page.state.chat, message: message.id, text });
    if (!answer) return;
    drafts.forget(place);
    page.redraw(answer.chat);
    if (goOn) page.sending.act({ action: "continue", message: answer.message });
  };
  return (
    <Form class="editing ft-stack" onSubmit={() => save(false)} onKeyDown={onEscape(close)}>
      <textarea
        class="editor ft-input"
        rows={Math.min(Math.max(SHORTEST, rows), TALLEST)}
        dir="auto"
        aria-label="Edit reply"
        ref={area}
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value);
          drafts.keep(place, { text: currentTarget.value, files: [] });
        }}
      />
      <p class="ft-hint">The previous version is kept, with its rounds.</p>
      <div class="editing-buttons ft-row">
        <Button onClick={close}>Cancel</Button>
        <Button text="Save" data-act="save-reply" type="submit" />
        <Button text="Save and continue" data-act="continue-reply" kind="primary" onClick={() => save(true)} />
      </div>
    </Form>
  );
}
