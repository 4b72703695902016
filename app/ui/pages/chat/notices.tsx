// What is said above the message box: what went wrong, what is queued, advice on the loaded model, deletions to undo.

import { X } from "lucide";
import { useState } from "preact/hooks";
import { Button, ErrorNote, IconButton, Linked, useTimer } from "../../shared/components";
import { status } from "../../shared/frame/status";
import type { ChatPage, PageState, Toast } from "./types";

const SHOWN_MS = 10_000; // longer while the pointer or the focus is on it
const SHOWN_MOST = 3;

export function Notices({ page, state }: { page: ChatPage; state: PageState }) {
  const { error, queued, running, told } = state;
  return (
    <>
      <Advice page={page} state={state} />
      <div class="notices" role="status">
        {told && (
          <div class="notice told ft-row ft-box">
            <span class="grow">
              <Linked text={told} />
            </span>
            <IconButton icon={X} label="Close" onClick={() => page.set({ told: "" })} />
          </div>
        )}
        {queued && state.ready && (running !== null || state.status?.waits) && (
          <div class="notice told queued ft-row ft-box">
            <span class="grow ft-cut">
              {running !== null ? "Sends after the current reply: " : "Queued until the model has loaded: "}
              {queued.text && <q dir="auto">{queued.text}</q>}
            </span>
            <Button kind="link" text="Cancel" onClick={() => page.sending.giveBack()} />
          </div>
        )}
      </div>
      <div class={error ? "notice" : undefined}>
        <ErrorNote text={error?.text} onDismiss={() => page.fail("")} />
      </div>
      <div class="toasts" role="status">
        {state.toasts
          .filter(({ hidden }) => !hidden)
          .slice(-SHOWN_MOST)
          .map((toast) => (
            <ToastRow key={toast.id} page={page} toast={toast} />
          ))}
      </div>
    </>
  );
}

function ToastRow({ page, toast }: { page: ChatPage; toast: Toast }) {
  const [held, setHeld] = useState(false);
  useTimer(!held && SHOWN_MS, () => page.deletions.hideToast(toast.id), [held]);
  const hold = () => setHeld(true);
  const free = () => setHeld(false);
  return (
    <div class="toast ft-row ft-box" onPointerEnter={hold} onPointerLeave={free} onFocusIn={hold} onFocusOut={free}>
      <span class="grow">{toast.text}</span>
      <Button small text="Undo" onClick={() => page.deletions.undo(toast.id)} />
      <IconButton icon={X} label="Close" onClick={() => page.deletions.hideToast(toast.id)} />
    </div>
  );
}

// Says that another model wrote this chat, or that the loaded one is a base model. Sending stays possible.
function Advice({ page, state }: { page: ChatPage; state: PageState }) {
  const pair = state.status?.loaded;
  const last = page.last("assistant");
  const writer = state.status && !state.status.opening && last?.model && (!pair || differs(last, pair)) ? last : null;
  if (state.running !== null || (!writer && !pair?.base)) return null;
  const load = async () => {
    await page.ask("load_written", { ...writer?.pair, model: writer?.model });
    status.refresh();
  };
  return (
    <div class="notice told advice ft-row ft-box" role="status">
      <span class="grow">
        {writer
          ? `This chat used ${writer.model}. ${pair ? `${pair.title} would answer next.` : "No model is loaded."}`
          : `${pair.greeting} is a base model: it continues text instead of answering. For chat, load a model with “instruct” or “chat” in its name.`}
      </span>
      {writer && !writer.absent && (
        <Button small text={`Load ${writer.model}`} data-act="load-written" onClick={load} />
      )}
    </div>
  );
}

const target = (title: string) => title.split(" + ")[0];

// Older replies have only the model's name.
export const differs = ({ pair, model }: any, loaded: any) =>
  pair ? pair.target !== loaded.target : target(model) !== target(loaded.title);
