// What can be done with a message: a row of icons, shown when the message is pointed at or has the focus.

import { useState } from "preact/hooks";
import { Check, Copy, GitFork, Pencil, RotateCcw, Rows3, Trash2, type IconNode } from "lucide";
import { toClipboard } from "../../../shared/browser";
import { Button, useTimer } from "../../../shared/components";
import type { ChatPage, Message } from "../types";

interface Action {
  name: string;
  icon: IconNode;
  label: string;
  hint?: string;
  changes?: boolean; // it changes the chat, so it waits for the end of a reply
  run: (page: ChatPage, message: Message) => void;
}

const textOf = ({ role, text, reply }: Message) => (role === "user" ? text : reply.answer);

const copy: Action = { name: "copy", icon: Copy, label: "Copy", run: (_, message) => toClipboard(textOf(message)) };
const edit: Action = {
  name: "edit",
  icon: Pencil,
  label: "Edit",
  changes: true,
  run: (page, { id }) => page.set({ editing: id }),
};
const fork: Action = {
  name: "fork",
  icon: GitFork,
  label: "Fork",
  hint: "Start a new chat with everything up to here",
  run: (page, { id }) => page.fork(id),
};
const rounds: Action = {
  name: "rounds",
  icon: Rows3,
  label: "Rounds",
  run: (page, message) => page.openRounds(message),
};
const remove: Action = {
  name: "delete",
  icon: Trash2,
  label: "Delete",
  changes: true,
  run: (page, message) => page.deletions.deleteMessage(message),
};
export const retry: Action = {
  name: "retry",
  icon: RotateCcw,
  label: "Retry",
  hint: "Write this reply again. With temperature 0 or a fixed seed the text will be the same.",
  changes: true,
  run: (page, { id }) => page.sending.act({ action: "retry", message: id }),
};

const ACTIONS: Record<Message["role"], Action[]> = {
  user: [edit, copy, fork, remove],
  assistant: [retry, copy, { ...edit, label: "Edit reply" }, fork, rounds, remove],
};

export function Actions({ page, message, idle }: { page: ChatPage; message: Message; idle: boolean }) {
  const [done, setDone] = useState("");
  useTimer(done && 1400, () => setDone(""), [done]);
  const press = (action: Action) => {
    action.run(page, message);
    if (action.name === "copy") setDone(action.name);
  };
  return (
    <div class="actions">
      {ACTIONS[message.role]
        .filter(({ changes }) => idle || !changes)
        .map((action) => (
          <Button
            key={action.name}
            kind="quiet"
            small
            icon={done === action.name ? Check : action.icon}
            label={done === action.name ? "Copied" : action.label}
            title={action.hint ?? action.label}
            data-action={action.name}
            onClick={() => press(action)}
          />
        ))}
    </div>
  );
}
