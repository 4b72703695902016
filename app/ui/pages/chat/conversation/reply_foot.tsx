// What is below a reply: its state and speed while it is written; then how it ended, one line of figures, its actions.

import { Button, ErrorNote } from "../../../shared/components";
import { Figures, repeats } from "../../../shared/figures/figures";
import { SpeedBar } from "../../../shared/figures/speed-bar";
import { TurnTotals } from "../tools/turn";
import { words } from "../words";
import type { ComponentChildren } from "preact";
import type { Message } from "../types";
import type { MessageProps } from "./message";

export function ReplyState({ page, message, live, last, thinks, other }: MessageProps) {
  const { status, stats, stage, error, reply } = message;
  const running = status === "running";
  const end = status === "length" && stats?.full ? "full" : status;
  const unanswered = !running && reply.place?.to === null && words.unanswered[end]; // it was still thinking
  const silent = end === "done" && !message.calls && !reply.answer.trim() && words.silent;
  const told = unanswered ? words.advice(unanswered, thinks) : (words.reasons[end]?.(stats) ?? (silent || stage));
  const goesOn = last && !running && !other && end in words.reasons && stats?.rounds > 0;
  return (
    <>
      {running && <SpeedBar stats={live} />}
      {(told || goesOn) && (
        <div class="state ft-row ft-hint" role="status">
          <span>{told}</span>
          {goesOn && (
            <Button
              kind="link"
              title={words.continueHint}
              data-action="continue"
              onClick={() => page.sending.act({ action: "continue", message: message.id })}>
              {words.continue}
            </Button>
          )}
          {last && end === "length" && (
            <Button kind="link" data-action="limit" onClick={() => page.openSetting("max-tokens")}>
              {words.changeLimit}
            </Button>
          )}
        </div>
      )}
      <ErrorNote text={error} />
    </>
  );
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
      {message.edited && <div class="saved edited ft-fine">{words.edited}</div>}
      {predicted && (
        <div class="saved ft-fine">
          {words.reused(predicted.accepted, predicted.drafted)} {repeats(stats) && words.reusedHint}
        </div>
      )}
    </>
  );
}
