// The message box: its attachments, its text, a row of buttons, and the buttons that send and stop.

import { ArrowUp, Square } from "lucide";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button, Dialog, Form, Select, Status, usePage } from "../../../shared/components";
import { ToolsMenu } from "../tools/menu";
import { adding, AttachButton, AttachmentRow, readFiles, takesFiles } from "./attachments";
import type { ChatPage, PageState, Written } from "../types";
import { count, cut } from "../../../shared/format";

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
    const question = page.last("user");
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      page.sending.send();
    } else if (event.key === "ArrowUp" && !page.state.draft.text && running === null && question) {
      event.preventDefault();
      page.set({ editing: question.id });
    }
  };
  return (
    <Form class="composer" onSubmit={() => page.sending.send()}>
      <AttachmentRow
        page={page}
        files={draft.files}
        onChange={(change) => write({ files: change(page.state.draft.files) })}
      />
      {state.reading.length > 0 && <Status text={`Reading ${state.reading.map(({ name }) => name).join(", ")} …`} />}
      <textarea
        class="ft-input"
        ref={box}
        rows={1}
        dir="auto"
        placeholder="Write a message"
        aria-label="Write a message"
        title="Enter sends, Shift+Enter starts a new line, Esc stops"
        value={draft.text}
        onInput={({ currentTarget }) => write({ text: currentTarget.value })}
        onKeyDown={key}
        {...takesFiles((files) => attach(page, files))}
      />
      <div class="composer-row ft-row ft-gap-1">
        <AttachButton page={page} onFiles={(files) => attach(page, files)} onAdded={adding(page)} />
        <ToolsMenu
          ask={page.ask}
          chat={state.chat}
          off={state.toolsOff}
          onOff={(toolsOff) => page.choose({ toolsOff })}
          model={state.status?.loaded?.id ?? ""}
          running={running !== null}
        />
        <Thinking page={page} view={state.view} />
        <span class="grow" />
        {running !== null && (
          <Button class="stop" kind="danger" icon={Square} text="Stop" onClick={() => page.stream.stop()} />
        )}
        {(running === null || draft.text.trim() || draft.files.length > 0) && (
          <Button class="send" kind="primary" type="submit" icon={ArrowUp} text="Send" />
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
      title="Thinking"
      aria-label="Thinking"
      value={settings.thinking}
      options={thinking}
      onChange={(now) => page.settings.change({ thinking: now }, true)}
    />
  );
}

// ---- the share of the context that the conversation takes; shown once it matters

const SHOWN = 0.6;
const NEARLY = 0.85;

export function ContextMeter({ page, state }: { page: ChatPage; state: PageState }) {
  const stats = state.live ?? page.last("assistant")?.stats;
  const limit = state.status?.loaded?.context;
  const used = stats?.prompt_tokens ? stats.prompt_tokens + stats.completion_tokens : 0; // the prompt is the whole chat
  const share = Math.min(used / limit, 1);
  if (!used || !limit || share < SHOWN) return null;
  const nearly = share >= NEARLY;
  const warning = `${share === 1 ? "Full" : "Nearly full"}. Exclude early turns or start a new chat.`;
  return (
    <div class="context-meter ft-row ft-fine" data-state={nearly ? "nearly" : ""}>
      <span
        class="ft-track"
        role="meter"
        aria-label="Context used"
        aria-valuemin={0}
        aria-valuemax={limit}
        aria-valuenow={Math.min(used, limit)}>
        <i class="fill" style={{ width: `${100 * share}%` }} />
      </span>
      <span class="meter-words">
        {count(used)} of {count(limit)} tokens of context
      </span>
      <span role="status">{nearly && warning}</span>
      {nearly && state.running === null && (
        <Button
          kind="link"
          data-act="choose-dropped"
          onClick={() => page.set({ overflow: { why: warning, turns: page.leavingOut.turns, data: null } })}>
          Choose turns to exclude
        </Button>
      )}
    </div>
  );
}

// ---- for a chat that is longer than the context: asks which turns to exclude, then sends what was waiting

export function Overflow({ page, overflow }: { page: ChatPage; overflow: PageState["overflow"] }) {
  const [ticked, setTicked] = useState<number[]>([]);
  useEffect(() => setTicked([]), [overflow]);
  const { data = null, turns = [], why = "" } = overflow ?? {};
  const close = () => page.state.overflow && page.set({ overflow: null });
  const excludeOldest = () => {
    close();
    if (data) page.leavingOut.again({ ...data, drop: "oldest" });
  };
  const excludeTicked = () => {
    close();
    page.leavingOut.leaveOut(
      ticked.flatMap((index) => turns[index].map(({ id }) => id)),
      true,
      data,
    );
  };
  const tick = (index: number) =>
    setTicked(ticked.includes(index) ? ticked.filter((each) => each !== index) : [...ticked, index]);
  const actions = (
    <>
      {data && <Button kind="primary" text="Exclude oldest and send" data-act="oldest" onClick={excludeOldest} />}
      <Button data-act="chosen" disabled={!ticked.length} onClick={excludeTicked}>
        {data ? "Exclude selected and send" : "Exclude selected"}
      </Button>
      <Button onClick={close}>Cancel</Button>
    </>
  );
  return (
    <Dialog
      class="fitting"
      title={data ? "Too long to send" : "Free up context"}
      open={Boolean(overflow)}
      onClose={close}
      actions={actions}>
      <p>{why}</p>
      <p class="ft-hint">Excluded turns stay in the chat and can be included again. The system prompt is kept.</p>
      <ul class="turns ft-list ft-box">
        {turns.map((turn, index) => (
          <li key={turn[0].id}>
            <label>
              <input type="checkbox" checked={ticked.includes(index)} onChange={() => tick(index)} />
              <span dir="auto">{cut(turn[0].text, 90)}</span>
            </label>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
