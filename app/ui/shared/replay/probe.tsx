// The tooltip of a token or a row: what became of it, as a sentence. It shows for what is under the mouse or focus, or
// was tapped.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { percent } from "../format";
import { TokenText } from "./chips";
import { words, type Sentence } from "./words";
import { useUniqueId } from "../frame/hooks";
import type { RefObject } from "preact";
import type { TopTokens } from "./timeline";

export type Told = { sentence: Sentence; topTokens?: TopTokens };

const MARGIN = 8; // px to the edges of the window, and to what is explained
const explained = new WeakMap<Element, Told>();

// Returns a ref that explains an element.
export const explains = (told: Told) => (node: Element | null) => void (node && explained.set(node, told));

// Returns what is explained at a node inside `root`.
function explainedAt(node: EventTarget | null, root: Element) {
  let at = node as Element | null;
  while (at && at !== root && !explained.has(at)) at = at.parentElement;
  return at && explained.has(at) ? at : null;
}

// The tooltip of everything in `root` that is explained, now and later.
export function Probe({ root }: { root: RefObject<HTMLElement | null> }) {
  const [target, setTarget] = useState<Element | null>(null);
  const node = useRef<HTMLDivElement>(null);
  const id = useUniqueId();

  useEffect(() => {
    const area = root.current as HTMLElement;
    const ended = new AbortController();
    let touched = false; // a finger cannot hover: its taps show and hide
    const on = (type: string, listener: (event: any) => void) =>
      area.addEventListener(type, listener, { passive: true, signal: ended.signal });
    const isMouse = (event: PointerEvent) => event.pointerType === "mouse";
    const at = (event: Event) => explainedAt(event.target, area);
    on("pointerover", (event) => isMouse(event) && setTarget(at(event)));
    on("pointerleave", (event) => isMouse(event) && setTarget(null));
    on("pointerdown", (event) => (touched = !isMouse(event)));
    on("click", (event) => touched && setTarget((shown) => (shown === at(event) ? null : at(event))));
    on("focusin", (event) => event.target.matches(":focus-visible") && setTarget(at(event)));
    on("focusout", () => setTarget(null));
    on("scroll", () => setTarget((shown) => (shown?.isConnected && shown.matches(":hover, :focus") ? shown : null)));
    return () => ended.abort();
  }, [root]);

  useLayoutEffect(() => {
    if (!target || !node.current) return;
    target.setAttribute("aria-describedby", id);
    node.current.showPopover();
    const around = target.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height, style } = node.current;
    const above = around.top - height - MARGIN;
    style.left = `${Math.min(Math.max(MARGIN, around.left), window.innerWidth - width - MARGIN)}px`;
    style.top = `${above > MARGIN ? above : around.bottom + MARGIN}px`;
    return () => target.removeAttribute("aria-describedby");
  });

  const told = target && explained.get(target);
  if (!told) return null;
  return (
    <div class="probe ft-box" role="tooltip" id={id} popover="manual" ref={node}>
      <p>{told.sentence.map((part) => (typeof part === "string" ? part : <Quoted text={part.token} />))}</p>
      {Boolean(told.topTokens?.length) && <Ranking topTokens={told.topTokens ?? []} />}
    </div>
  );
}

// In a sentence a token is drawn without the space before it.
const Quoted = ({ text }: { text: string }) => (
  <i class="probe-token">
    <TokenText text={text.trim() || text} />
  </i>
);

function Ranking({ topTokens }: { topTokens: TopTokens }) {
  return (
    <>
      <div class="probe-head ft-fine">{words.topTokens}</div>
      <ol class="ranking ft-list">
        {topTokens.map(([text, p]) => (
          <li>
            <Quoted text={text} />
            <span class="ft-track">
              <span class="fill" style={{ width: `${100 * (p ?? 0)}%` }} />
            </span>
            <b>{percent(p)}</b>
          </li>
        ))}
      </ol>
    </>
  );
}
