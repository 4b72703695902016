// The calls of tools in a reply: each with its arguments, its result, and the question whether to run it. What a tool
// returned is shown as text alone.

import { seconds, several } from "../../../shared/format";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Check, CircleAlert, CircleSlash, Hourglass, LoaderCircle, Wrench, type IconNode } from "lucide";
import { Button, Form, Icon, TextInput } from "../../../shared/components";
import { useStore } from "../../../shared/store";
import type { ChatPage } from "../types";

export interface Call {
  id: string;
  name: string; // as the model knows it
  server: string;
  arguments: string; // JSON, as the model wrote it
  state: "waiting" | "running" | "done" | "failed" | "refused" | "stopped" | "interrupted";
  result: string;
  cut: number; // characters that were left out of it
  seconds: number | null;
}

export type Calls = { at: number; limit: number | null; calls: Call[] }; // `at`: where in the text they begin.

const SHORT = 60; // characters of a result beside the tool's name

const ICONS: Record<Call["state"], IconNode> = {
  waiting: Hourglass,
  running: LoaderCircle,
  done: Check,
  failed: CircleAlert,
  refused: CircleSlash,
  stopped: CircleSlash,
  interrupted: CircleAlert,
};

// `onContinue`: the turn can go on here.
type CallListProps = { page: ChatPage; calls: Calls; onContinue: (() => void) | null };
export function CallList({ page, calls, onContinue }: CallListProps) {
  return (
    <div class="calls ft-stack">
      {calls.calls.map((call) => (
        <CallCard key={call.id} page={page} call={call} />
      ))}
      {onContinue && (
        <div class="state ft-row ft-hint" role="status">
          <span>
            {calls.limit === null
              ? "The model has not replied to these results yet."
              : `Stopped after ${several(calls.limit, "tool step")}.`}
          </span>
          <Button kind="link" text="Continue" data-action="continue" onClick={onContinue} />
        </div>
      )}
    </div>
  );
}

// Other states are told by their names.
const STATES: Record<string, string> = {
  waiting: "waiting for you",
  running: "running …",
  interrupted: "interrupted: Foretoken was closed",
};

function stateOf({ state, seconds: took }: Call) {
  const told = STATES[state] ?? state;
  return took === null ? told : `${told}, ${seconds(took)}`;
}

type CallProps = { page: ChatPage; call: Call };
function CallCard({ page, call }: CallProps) {
  const { name, server, state, result } = call;
  const waits = state === "waiting";
  const given = compact(call.arguments);
  const brief = result.length <= SHORT && !result.includes("\n") ? result : "";
  return (
    <details class="call ft-box" data-call={name} data-state={state} open={waits}>
      <summary class="ft-row">
        <Icon of={Wrench} size={15} />
        <b>{name}</b>
        {!waits && given.length <= SHORT && <code>{given}</code>}
        {server && <span class="ft-hint">from {server}</span>}
        <span class="call-state ft-row ft-gap-1 ft-hint">
          <Icon of={ICONS[state]} size={14} />
          {stateOf(call)}
        </span>
        {brief && <code class="call-brief">{brief}</code>}
      </summary>
      <Text label="Arguments" text={pretty(call.arguments)} />
      {result && <Text label="Result" text={result} />}
      {call.cut > 0 && (
        <p class="ft-hint">{several(call.cut, "character")} left out: the result was too long for the model.</p>
      )}
      {waits && <Question page={page} call={call} />}
    </details>
  );
}

const Text = ({ label, text }: { label: string; text: string }) => (
  <div class="call-text">
    <span class="ft-hint">{label}</span>
    <pre class="ft-pre" tabIndex={0} dir="auto" aria-label={label}>
      {text}
    </pre>
  </div>
);

// Whether a refusal is being written is the page's: its Escape goes back, wherever the focus is.
function Question({ page, call }: CallProps) {
  const refusing = useStore(page).refusing === call.id;
  const [reason, setReason] = useState("");
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), [refusing]);
  useEffect(() => () => void (page.state.refusing === call.id && back()), []);
  const back = () => page.set({ refusing: null });
  const why = "Reason for the model (optional)";
  const ask = `Run ${call.name} from ${call.server}?`;
  if (refusing)
    return (
      <Form class="call-ask ft-row" onSubmit={() => page.answerCall(call, "refuse", reason)}>
        <TextInput value={reason} onChange={setReason} placeholder={why} aria-label={why} ref={input} />
        <Button small type="submit" kind="danger" text="Refuse" data-answer="refuse" />
        <Button small text="Back" onClick={back} />
      </Form>
    );
  return (
    <div class="call-ask ft-row" role="group" aria-label={ask}>
      <span role="status">{ask}</span>
      <Button small kind="primary" text="Run once" data-answer="once" onClick={() => page.answerCall(call, "once")} />
      <Button
        small
        data-answer="trust"
        title={`Run every tool from ${call.server} in this chat without asking`}
        onClick={() => page.answerCall(call, "trust")}>
        Trust {call.server} in this chat
      </Button>
      <Button small text="Refuse" data-answer="refusing" onClick={() => page.set({ refusing: call.id })} />
    </div>
  );
}

const STEERING = /[\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g; // controls, some of which turn the text around

// Returns JSON over several lines, with what steers as escapes; other text unchanged.
function pretty(text: string) {
  try {
    const shown = JSON.stringify(JSON.parse(text), null, 2);
    return shown.replace(STEERING, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
  } catch {
    return text;
  }
}

// Returns JSON on one line, as short as it can be read.
const compact = (text: string) =>
  pretty(text)
    .replace(/\n\s*/g, " ")
    .replace(/^\{\}$/, "");
