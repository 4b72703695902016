// The welcome of an empty chat: the model, and what to ask it first; or how far its load is.

import { useState } from "preact/hooks";
import { Button, LoadProgress, PageLink } from "../../../shared/components";
import { greetings, where, words } from "../words";
import { wasToured, endTour } from "./tour";
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
            <h1>{status.unloaded ? words.unloaded(status.unloaded) : words.noModel}</h1>
            <p>{status.unloaded ? words.unloadedBody : words.noModelBody}</p>
            <div class="ft-row">
              <Button kind="primary" text={words.chooseModel} onClick={() => page.set({ pairOpen: true })} />
              <PageLink page="models" class="ft-button">
                {words.openModels}
              </PageLink>
            </div>
          </>
        )}
      </div>
    );
  const greeting = greetings.find(({ fits }) => fits(loaded)) ?? greetings[0];
  const [before, after] = greeting.body.split("{where}");
  return (
    <div class="empty ft-stack">
      <Pip />
      <h1>{greeting.title(loaded)}</h1>
      <p>
        {before}
        <span class="where-open">{where.open}</span>
        <span class="where-closed">{where.closed}</span>
        {after}
      </p>
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
      {words.tour.ask}{" "}
      <Button kind="link" text={words.tour.yes} data-act="tour" onClick={() => page.set({ tour: 0 })} />{" "}
      <Button kind="link" text={words.tour.no} data-act="no-tour" onClick={no} />
    </p>
  );
}
