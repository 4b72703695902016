// A message of a conversation: its parts, its footer and its actions. Far from the view it is its text alone.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ChevronLeft, ChevronRight } from "lucide";
import { Button, IconButton, ErrorNote } from "../../../shared/components";
import { memo } from "../../../shared/store";
import { Actions, retry } from "./actions";
import { Editor, ReplyEditor } from "./editor";
import type { ChatPage, Message } from "../types";
import { ReplyBody } from "../../../shared/reply_body";
import { CallList } from "../tools/calls";
import { FileChip } from "../composer/attachments";
import type { ComponentChildren, RefObject } from "preact";
import { count, several, speed, times } from "../../../shared/format";
import { Figures, repeats, SpeedBar } from "../../../shared/figures/figures";

// `fresh`: it is near the end when it is first drawn; `live`: its figures while it is written; `thinks`: the loaded
// model may be told not to think; `other`: it did not write this message, so it cannot continue it; `sealed`: it fills
// the context alone, so nothing can; `inner`: a reply to its calls follows, which has the actions of their turn.
export type MessageProps = {
  page: ChatPage;
  message: Message;
  editing: boolean;
  idle: boolean;
  live: any;
  last: boolean;
  inner: boolean;
  fresh: boolean;
  thinks: boolean;
  other: boolean;
  sealed: boolean;
};

export const MessageView = memo((props: MessageProps) => {
  const { page, message, editing } = props;
  const node = useRef<HTMLElement>(null);
  const [near, height] = useNear(node, props.fresh);
  const running = message.status === "running" && message.role === "assistant";
  const drawn = near || editing || running;
  const quiet = useRef(!props.fresh); // screen readers must not announce what is drawn again
  if (!drawn) quiet.current = true;
  const looks = ["msg", message.role, running && "running", message.left_out && "left-out", !drawn && "far"];
  const Drawn = message.role === "user" ? Question : Answer;
  return (
    <article
      ref={node}
      class={looks.filter(Boolean).join(" ")}
      data-id={message.id}
      data-status={message.role === "assistant" ? message.status : undefined}
      aria-busy={running}
      aria-live={quiet.current ? "off" : undefined}
      style={drawn || !height ? undefined : { height: `${height}px` }}>
      {drawn ? (
        <Drawn {...props} />
      ) : (
        <div class="body" dir="auto">
          {message.role === "user" ? message.text : message.reply.answer}
        </div>
      )}
      {drawn && message.left_out && message.role === "user" && (
        <div class="left-note ft-fine">
          Excluded: the model does not see it{" "}
          <Button kind="link" data-action="give" onClick={() => page.leavingOut.includeAgain(message)}>
            Include again
          </Button>
        </div>
      )}
    </article>
  );
});

function Question(props: MessageProps) {
  const { message, page, idle } = props;
  if (props.editing) return <Editor page={page} message={message} />;
  return (
    <>
      {message.files.length > 0 && (
        <div class="files ft-row">
          {message.files.map((file, index) => (
            <FileChip key={index} page={page} file={file} />
          ))}
        </div>
      )}
      {message.text && (
        <div class="body" dir="auto">
          {message.text}
        </div>
      )}
      <div class="user-foot ft-row ft-gap-1">
        {idle && props.last && (
          <Button small text="Answer" data-action="answer" onClick={() => retry.run(page, message)} />
        )}
        {idle && <Branches page={page} message={message} />}
        <Actions page={page} message={message} idle={idle} />
      </div>
    </>
  );
}

function Answer(props: MessageProps) {
  const { message, page, idle } = props;
  const { calls, id } = message;
  if (props.editing) return <ReplyEditor {...props} />;
  const goOn = () => page.sending.act({ action: "continue", message: id });
  return (
    <>
      <ReplyBody reply={message.reply} />
      {calls && <CallList calls={calls} page={page} onContinue={idle && props.last ? goOn : null} />}
      <ReplyState {...props} />
      {message.status !== "running" && (
        <ReplyFoot message={message}>
          {idle && <Branches page={page} message={message} />}
          {!props.inner && <Actions page={page} message={message} idle={idle} />}
        </ReplyFoot>
      )}
    </>
  );
}

// Arrows between the versions of a message; the arrow that was pressed keeps the focus.
function Branches({ page, message }: { page: ChatPage; message: Message }) {
  const { beside, id } = message;
  if (!(beside?.length > 1)) return null;
  const here = beside.indexOf(id);
  const show = async (step: number) => {
    await page.showBranch(beside[here + step]);
    requestAnimationFrame(() => {
      const shown = document.querySelector(`.msg[data-id="${beside[here + step]}"]`);
      const arrows = [...(shown?.querySelectorAll(".branches button:not(:disabled)") ?? [])];
      ((step < 0 ? arrows[0] : arrows.at(-1)) as HTMLElement | undefined)?.focus();
    });
  };
  const arrow = (step: number) => (
    <IconButton
      icon={step < 0 ? ChevronLeft : ChevronRight}
      label={step < 0 ? "Previous version" : "Next version"}
      disabled={beside[here + step] === undefined}
      data-branch={step < 0 ? "before" : "after"}
      onClick={() => show(step)}
    />
  );
  return (
    <span class="branches ft-fine" role="group" aria-label="Versions of this message">
      {arrow(-1)}
      <span>
        {here + 1}/{beside.length}
      </span>
      {arrow(1)}
    </span>
  );
}

// ---- what is below a reply: its state and speed while it is written; then how it ended, one line of figures, its actions

// Of a reply without an answer, by its end.
const UNANSWERED: Record<string, string> = {
  done: "The reply ended while thinking. Retry",
  length: "The token limit was reached while thinking. Raise Max tokens and retry",
  full: "The context filled up while thinking. Exclude early turns and retry",
  sealed: "The context filled up while thinking. Load a model with a longer context and retry",
};

// Returns why a reply ended before it was complete; undefined for another end.
function reasonOf(end: string, stats: any): string | undefined {
  if (end === "cancelled") return "Stopped";
  if (end === "full") return "Stopped: the context is full";
  if (end === "sealed") return "Stopped: the context is full. Load a model with a longer context, or start a new chat.";
  if (end === "interrupted") return "Interrupted: Foretoken was closed";
  const limit = stats?.completion_tokens ? `${count(stats.completion_tokens)}-token limit` : "token limit";
  return end === "length" ? `Stopped at the ${limit}` : undefined;
}

export function ReplyState({ page, message, live, last, thinks, other, sealed }: MessageProps) {
  const { status, stats, stage, error, reply } = message;
  const running = status === "running";
  const end = status === "length" && stats?.full ? (sealed ? "sealed" : "full") : status;
  const unanswered = !running && reply.place?.to === null && UNANSWERED[end]; // it was still thinking
  const silent =
    end === "done" &&
    !message.calls &&
    !reply.answer.trim() &&
    "The model ended its reply without a word. Retry, or ask in other words.";
  const told = unanswered
    ? `${unanswered}${thinks ? ", or turn Thinking off" : ""}.`
    : (reasonOf(end, stats) ?? (silent || stage));
  const goesOn = last && !running && !other && end !== "sealed" && reasonOf(end, stats) && stats?.rounds > 0;
  return (
    <>
      {running && <SpeedBar stats={live} />}
      {(told || goesOn) && (
        <div class="state ft-row ft-hint" role="status">
          <span>{told}</span>
          {goesOn && (
            <Button
              kind="link"
              title="Continue this reply from where it stopped"
              data-action="continue"
              onClick={() => page.sending.act({ action: "continue", message: message.id })}>
              Continue
            </Button>
          )}
          {last && end === "length" && (
            <Button kind="link" data-action="limit" onClick={() => page.openSetting("max-tokens")}>
              Change limit
            </Button>
          )}
        </div>
      )}
      <ErrorNote text={error} />
    </>
  );
}

type Turn = { completion_tokens: number; tokens_per_s: number | null; speedup: number | null };

// The figures of a whole turn: all its replies, which called tools in between. Nothing where a turn is a single reply.
function TurnTotals({ turn }: { turn?: Turn | null }) {
  if (!turn) return null;
  const { completion_tokens: tokens, tokens_per_s: perSecond, speedup } = turn;
  const told = ["Whole turn", several(tokens, "token")];
  if (perSecond) told.push(`${speed(perSecond)} tokens/s`);
  if (speedup) told.push(`${times(speedup)} the speed without drafting`);
  return <div class="turn-totals ft-fine">{told.join(" · ")}</div>;
}

// One quiet line: the figures and who wrote it; beside it `children`.
export function ReplyFoot({ message, children }: { message: Message; children: ComponentChildren }) {
  const { model, stats, writer } = message;
  const predicted = stats?.predicted;
  return (
    <>
      <div class="foot ft-row">
        {model && (
          <span class="writer ft-cut ft-fine" title={writer}>
            {model}
          </span>
        )}
        {Boolean(stats?.tokens_per_s) && <Figures stats={stats} />}
        {children}
      </div>
      {!message.calls && <TurnTotals turn={stats?.turn} />}
      {message.edited && (
        <div class="saved edited ft-fine">Edited by you. Its rounds show only what the model wrote afterwards.</div>
      )}
      {predicted?.accepted > 0 && (
        <div class="saved ft-fine">
          Reused {predicted.accepted} of {predicted.drafted} tokens from the previous reply.{" "}
          {repeats(stats) && "Reused text is verified quickly, so this speed is not compared."}
        </div>
      )}
    </>
  );
}

// ---- whether a message is near the view. Distant ones are drawn as text alone, at the height they had, so that hundreds of messages cost little more than a few and can still be searched and copied

const tell = new WeakMap<Element, (near: boolean, height: number) => void>();
let observer: IntersectionObserver | undefined; // of the one element in which messages scroll

function told(entries: IntersectionObserverEntry[]) {
  for (const { target, isIntersecting, boundingClientRect, rootBounds } of entries)
    if (rootBounds?.height) tell.get(target)?.(isIntersecting, boundingClientRect.height); // else another page is shown
}

// True if the focus or a selection is in the node: it must stay as it is.
const isHeld = (node: Element) => {
  const selection = getSelection();
  return (
    node.contains(document.activeElement) ||
    Boolean(selection && !selection.isCollapsed && selection.containsNode(node, true))
  );
};

// Returns whether the node is near the view of `.messages`, and its height when it was last drawn. `first`: before that
// is known.
export function useNear(ref: RefObject<HTMLElement | null>, first: boolean): [boolean, number | null] {
  const [[near, height], set] = useState<[boolean, number | null]>([first, null]);
  useLayoutEffect(() => {
    const node = ref.current;
    const scroller = node?.closest(".messages");
    if (!node || !scroller) return;
    const watching = (observer ??= new IntersectionObserver(told, { root: scroller, rootMargin: "150% 0px" }));
    tell.set(node, (is, height) =>
      set((before) => (before[0] === is || (!is && isHeld(node)) ? before : [is, is ? null : height])),
    );
    watching.observe(node);
    return () => watching.unobserve(node);
  }, [ref]);
  return [near, height];
}
