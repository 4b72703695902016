// The welcome of an empty chat: the model, and what to ask it first; or how far its load is.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button, LoadProgress, onEscape, PageLink, place, usePage } from "../../../shared/components";
import { greetings } from "../greetings";
import type { ChatPage } from "../state/page";

const Pip = () => (
  <svg class="pip" viewBox="0 0 96 96" width="72" height="72" role="img" aria-label="Pip">
    <path d="M47 30c-1-10 4-18 13-21 1 9-4 18-13 21z" fill="var(--ft-accept)" />
    <path d="M46 30c-8-1-14-7-15-15 8 0 15 6 15 15z" fill="var(--ft-accept)" opacity=".55" />
    <path
      d="M48 26c19 0 31 17 31 34 0 17-13 28-31 28S17 77 17 60c0-17 12-34 31-34z"
      fill="var(--ft-pip)"
      stroke="var(--ft-pip-line)"
      stroke-width="2"
    />
    <circle cx="41" cy="57" r="4.2" fill="var(--ft-pip-eye)" />
    <circle cx="61" cy="57" r="4.2" fill="var(--ft-pip-eye)" />
    <circle cx="42.6" cy="55.6" r="1.3" fill="#fff" />
    <circle cx="62.6" cy="55.6" r="1.3" fill="#fff" />
    <path
      d="M45 69c4 3.6 9 3.6 13 0"
      fill="none"
      stroke="var(--ft-pip-eye)"
      stroke-width="2.4"
      stroke-linecap="round"
    />
  </svg>
);

export function Welcome({ page, status, invites }: { page: ChatPage; status: any; invites: boolean }) {
  const loaded = status?.waits ? null : status?.loaded;
  if (!status) return null;
  if (!loaded)
    return (
      <div class="empty ft-stack">
        <Pip />
        {status.opening ? (
          <LoadProgress status={status} ask={(name) => page.ask(name)} />
        ) : (
          <>
            <h1>{status.unloaded ? `${status.unloaded} is unloaded` : "No model is loaded"}</h1>
            <p>{status.unloaded ? "Your next message loads it again." : "Choose one to start."}</p>
            <div class="ft-row">
              <Button kind="primary" text="Choose a model" onClick={() => page.set({ pairOpen: true })} />
              <PageLink page="models" class="ft-button">
                Open Models
              </PageLink>
            </div>
          </>
        )}
      </div>
    );
  const greeting = greetings.find(({ fits }) => fits(loaded)) ?? greetings[0];
  const where = page.state.drawer ? "on the right" : "under “Rounds”";
  return (
    <div class="empty ft-stack">
      <Pip />
      <h1>{greeting.title(loaded)}</h1>
      <p>{greeting.body(where)}</p>
      {invites && <Invitation page={page} />}
      <div class="examples">
        {greeting.examples.map(({ label, text }) => (
          <button
            key={label}
            class="example ft-bare ft-box"
            type="button"
            title={text}
            onClick={() => page.sending.request({ action: "send", text, files: [] })}>
            <b>{label}</b>
            <span class="ft-hint ft-cut">{text}</span>
          </button>
        ))}
      </div>
    </div>
  );
}

// Offers the tour until that was answered.
function Invitation({ page }: { page: ChatPage }) {
  const [answered, setAnswered] = useState(wasToured);
  if (answered) return null;
  const no = () => {
    setAnswered(true);
    endTour(page);
  };
  return (
    <p class="invitation">
      New here? <Button kind="link" text="Take the tour" data-act="tour" onClick={() => page.set({ tour: 0 })} />{" "}
      <Button kind="link" text="No, thanks" data-act="no-tour" onClick={no} />
    </p>
  );
}

// ---- a tour of five steps, offered once in an empty chat, and behind "?"

const APART = 12; // px between a step and its target
const remembered = "foretoken.tour";
// Of the places of a step the first one that is visible counts.
const STEPS = [
  {
    at: [".badge"],
    title: "Your model",
    text: "The loaded model and its draft model. Click to switch, or to see why a method is unavailable.",
  },
  {
    at: [".msg.assistant:last-child .figures", ".msg.assistant:last-child .speed-bar", ".composer"],
    title: "Speed",
    text: "While the model writes, a bar compares its speed with the speed without drafting and another marks the acceptance from which drafting is faster.",
  },
  {
    at: [".drawer [data-tab=rounds]", "[data-toggle=drawer]"],
    title: "What was drafted",
    text: "Each row is a round: what was guessed, what was accepted, and what the model chose instead. Click a row for its text.",
  },
  {
    at: [".pages a[data-page=race]", ".pages [data-group=lab]", ".pages-menu"],
    title: "Is it faster here?",
    text: "Race runs the same prompt both ways, alternating, and names a winner only if another race would agree.",
  },
  {
    at: [".pages a[data-page=server]", ".pages-menu"],
    title: "For your other programs",
    text: "Other programs can use the loaded model by the APIs of OpenAI, Anthropic and Ollama. Turn the API on here, then copy an example.",
  },
];

const isSeen = (node: Element | null | undefined) => Boolean(node?.getClientRects().length);

export const wasToured = () => Boolean(localStorage.getItem(remembered));

// Ends the tour; it is not offered again.
export function endTour(page: ChatPage) {
  localStorage.setItem(remembered, "seen");
  page.set({ tour: null });
}

export function Tour({ page, step }: { page: ChatPage; step: number }) {
  const node = useRef<HTMLDivElement>(null);
  const head = useRef<HTMLHeadingElement>(null);
  const shown = usePage();
  const end = () => endTour(page);
  useEffect(() => {
    if (shown !== "chat") end();
  }, [shown]);
  useEffect(() => {
    const from = document.activeElement as HTMLElement | null;
    return () => (isSeen(from) ? from?.focus() : page.focusBox());
  }, []);
  useLayoutEffect(() => {
    const found = STEPS[step].at.map((where) => document.querySelector(where));
    const target = found.find(isSeen) ?? document.body;
    const placed = () => node.current && place(node.current, target, APART);
    target.classList.add("tour-target");
    placed();
    head.current?.focus({ preventScroll: true });
    window.addEventListener("resize", placed);
    return () => {
      target.classList.remove("tour-target");
      window.removeEventListener("resize", placed);
    };
  }, [step]);
  const last = step + 1 === STEPS.length;
  return (
    <div class="tour ft-stack ft-box" role="dialog" aria-labelledby="tour-head" ref={node} onKeyDown={onEscape(end)}>
      <h2 id="tour-head" tabIndex={-1} ref={head}>
        {STEPS[step].title}
      </h2>
      <p>{STEPS[step].text}</p>
      <div class="ft-row">
        <span class="ft-hint">
          {step + 1} of {STEPS.length}
        </span>
        <span class="grow" />
        <Button kind="link" text="Close" data-act="tour-end" onClick={end} />
        {step > 0 && <Button small text="Back" onClick={() => page.set({ tour: step - 1 })} />}
        <Button small kind="primary" data-act="tour-next" onClick={() => (last ? end() : page.set({ tour: step + 1 }))}>
          {last ? "Done" : "Next"}
        </Button>
      </div>
    </div>
  );
}
