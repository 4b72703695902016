// What can be done with a message: a row of icons, shown when the message is pointed at or has the focus.

import { useState } from "preact/hooks";
import { Check, Copy, GitFork, Pencil, RotateCcw, Rows3, Trash2, type IconNode } from "lucide";
import { toClipboard } from "../../../shared/browser";
import { Button, useTimer } from "../../../shared/components";
import type { ChatPage, Message } from "../types";

interface Action {
  icon: IconNode;
  label: string;
  hint?: string;
  changes?: boolean; // it changes the chat, so it waits for the end of a reply
  run: (page: ChatPage, message: Message) => void;
}

const textOf = ({ role, text, reply }: Message) => (role === "user" ? text : reply.answer);

const copy: Action = { icon: Copy, label: "Copy", run: (_, message) => toClipboard(textOf(message)) };
const edit: Action = { icon: Pencil, label: "Edit", changes: true, run: (page, { id }) => page.set({ editing: id }) };
const fork: Action = {
  icon: GitFork,
  label: "Fork",
  hint: "Start a new chat with everything up to here",
  run: (page, { id }) => page.fork(id),
};
const rounds: Action = { icon: Rows3, label: "Rounds", run: (page, message) => page.openRounds(message) };
const remove: Action = {
  icon: Trash2,
  label: "Delete",
  changes: true,
  run: (page, message) => page.deletions.deleteMessage(message),
};
export const retry: Action = {
  icon: RotateCcw,
  label: "Retry",
  hint: "Write this reply again. With temperature 0 or a fixed seed the text will be the same.",
  changes: true,
  run: (page, { id }) => page.sending.act({ action: "retry", message: id }),
};

const ACTIONS: Record<Message["role"], Record<string, Action>> = {
  user: { edit, copy, fork, delete: remove },
  assistant: { retry, copy, edit: { ...edit, label: "Edit reply" }, fork, rounds, delete: remove },
};

export function Actions({ page, message, idle }: { page: ChatPage; message: Message; idle: boolean }) {
  const [done, setDone] = useState("");
  useTimer(done && 1400, () => setDone(""), [done]);
  const press = (name: string, action: Action) => {
    action.run(page, message);
    if (name === "copy") setDone(name);
  };
  return (
    <div class="actions">
      {Object.entries(ACTIONS[message.role])
        .filter(([, { changes }]) => idle || !changes)
        .map(([name, action]) => (
          <Button
            key={name}
            kind="quiet"
            small
            icon={done === name ? Check : action.icon}
            label={done === name ? "Copied" : action.label}
            title={action.hint ?? action.label}
            data-action={name}
            onClick={() => press(name, action)}
          />
        ))}
    </div>
  );
}
