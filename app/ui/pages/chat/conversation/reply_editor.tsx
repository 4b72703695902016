// A reply that is edited in its place: the edited text stays, or the model continues it.

import { useRef, useState } from "preact/hooks";
import { Button, Form, onEscape } from "../../../shared/components";
import { drafts } from "../../../shared/form/drafts";
import { words } from "../words";
import { useEditing } from "./editor";
import type { ChatPage, Message } from "../types";

const [SHORTEST, TALLEST, WIDTH] = [3, 20, 70]; // rows, and letters in one

export function ReplyEditor({ page, message }: { page: ChatPage; message: Message }) {
  const place = `edit-${message.id}`;
  const [text, setText] = useState(() => drafts.of(place).text || message.reply.answer);
  const rows = text.split("\n").reduce((sum, line) => sum + 1 + Math.floor(line.length / WIDTH), 0);
  const area = useRef<HTMLTextAreaElement>(null);
  useEditing(page, area);
  const close = () => {
    drafts.forget(place);
    page.set({ editing: null });
  };
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
        aria-label={words.editReply}
        ref={area}
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value);
          drafts.keep(place, { text: currentTarget.value, files: [] });
        }}
      />
      <p class="ft-hint">{words.editReplyHint}</p>
      <div class="editing-buttons ft-row">
        <Button onClick={close}>{words.cancel}</Button>
        <Button text={words.saveReply} data-act="save-reply" type="submit" />
        <Button text={words.saveAndContinue} data-act="continue-reply" kind="primary" onClick={() => save(true)} />
      </div>
    </Form>
  );
}
