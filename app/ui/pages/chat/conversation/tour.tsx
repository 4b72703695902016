// A tour of five steps, offered once in an empty chat, and behind "?".

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Button, onEscape, place, usePage } from "../../../shared/components";
import { words } from "../words";
import type { ChatPage } from "../state/page";

const APART = 12; // px between a step and its target
const remembered = "foretoken.tour";
// The places of each step; the first one that is visible counts.
const places: Record<string, string[]> = {
  picker: [".badge"],
  dial: [".msg.assistant:last-child .figures", ".msg.assistant:last-child .speed-bar", ".composer"],
  rounds: [".drawer [data-tab=rounds]", "[data-toggle=drawer]"],
  race: [".pages a[data-page=race]", ".pages [data-group=lab]", ".pages-menu"],
  server: [".pages a[data-page=server]", ".pages-menu"],
};

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
  const { steps } = words.tour;
  const end = () => endTour(page);
  useEffect(() => {
    if (shown !== "chat") end();
  }, [shown]);
  useEffect(() => {
    const from = document.activeElement as HTMLElement | null;
    return () => (isSeen(from) ? from?.focus() : page.focusBox());
  }, []);
  useLayoutEffect(() => {
    const found = places[steps[step].place].map((where) => document.querySelector(where));
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
  const last = step + 1 === steps.length;
  return (
    <div class="tour ft-stack ft-box" role="dialog" aria-labelledby="tour-head" ref={node} onKeyDown={onEscape(end)}>
      <h2 id="tour-head" tabIndex={-1} ref={head}>
        {steps[step].title}
      </h2>
      <p>{steps[step].text}</p>
      <div class="ft-row">
        <span class="ft-hint">{words.tour.count(step + 1, steps.length)}</span>
        <span class="grow" />
        <Button kind="link" text={words.close} data-act="tour-end" onClick={end} />
        {step > 0 && <Button small text={words.tour.back} onClick={() => page.set({ tour: step - 1 })} />}
        <Button small kind="primary" data-act="tour-next" onClick={() => (last ? end() : page.set({ tour: step + 1 }))}>
          {last ? words.tour.done : words.tour.next}
        </Button>
      </div>
    </div>
  );
}
