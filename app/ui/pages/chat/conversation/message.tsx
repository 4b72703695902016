// A message of a conversation: its parts, its footer and its actions. Far from the view it is its text alone.

import { useRef } from "preact/hooks";
import { ChevronLeft, ChevronRight } from "lucide";
import { Button } from "../../../shared/components";
import { memo } from "../../../shared/store";
import { words } from "../words";
import { Actions, retry } from "./actions";
import { Editor } from "./editor";
import { useNear } from "./near";
import { PARTS, partsOf } from "./parts";
import { ReplyEditor } from "./reply_editor";
import { ReplyFoot, ReplyState } from "./reply_foot";
import type { ChatPage, Message } from "../types";

// `fresh`: it is near the end when it is first drawn; `live`: its figures while it is written; `thinks`: the loaded
// model may be told not to think; `other`: it did not write this message, so it cannot continue it; `inner`: a reply to
// its calls follows, which has the actions of their turn.
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
          {words.leftOut}{" "}
          <Button kind="link" data-action="give" onClick={() => page.leavingOut.includeAgain(message)}>
            {words.includeAgain}
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
      <Parts {...props} />
      <div class="user-foot">
        {idle && props.last && (
          <Button small text={words.answer} data-action="answer" onClick={() => retry.run(page, message)} />
        )}
        {idle && <Branches page={page} message={message} />}
        <Actions page={page} message={message} idle={idle} />
      </div>
    </>
  );
}

function Answer(props: MessageProps) {
  const { message, page, idle } = props;
  if (props.editing) return <ReplyEditor {...props} />;
  return (
    <>
      <Parts {...props} />
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

function Parts({ message, page }: MessageProps) {
  return partsOf(message).map((kind) => {
    const Part = PARTS[kind];
    return <Part key={kind} message={message} page={page} />;
  });
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
    <Button
      kind="quiet"
      small
      icon={step < 0 ? ChevronLeft : ChevronRight}
      label={step < 0 ? words.versionBefore : words.versionAfter}
      disabled={beside[here + step] === undefined}
      data-branch={step < 0 ? "before" : "after"}
      onClick={() => show(step)}
    />
  );
  return (
    <span class="branches ft-fine" role="group" aria-label={words.versions}>
      {arrow(-1)}
      <span>
        {here + 1}/{beside.length}
      </span>
      {arrow(1)}
    </span>
  );
}
