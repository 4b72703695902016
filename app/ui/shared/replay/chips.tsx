// A round as chips: the shape of each drafted token shows its fate, then comes the target's own.

import { type Figure, percent } from "../format";
import { agreedOf, type Round, type TopTokens } from "./timeline";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useUniqueId } from "../frame/hooks";
import type { RefObject } from "preact";

const SIGNS: Record<string, string> = { "\n": "⏎", "\t": "⇥", " ": "·" };
const fates = {
  a: "accepted",
  r: "rejected",
  u: "not checked",
  x: "accepted, but the reply had ended",
  c: "correction",
  b: "bonus",
};
const kinds = { a: "accepted", r: "rejected", u: "unseen", x: "accepted cut", c: "correction", b: "bonus" };

// A token's text; leading, trailing and lone whitespace is made visible.
export function TokenText({ text }: { text: string }) {
  if (text === "") return <span class="ws">∅</span>;
  return text
    .split(/(\n|\t|^ +| +$)/)
    .filter(Boolean)
    .map((part) =>
      part[0] in SIGNS && !part.trim() ? <span class="ws">{SIGNS[part[0]].repeat(part.length)}</span> : part,
    );
}

type ChipProps = { kind: keyof typeof kinds; cut?: boolean; text: string; told: Told };
function Chip({ kind, cut = false, text, told }: ChipProps) {
  return (
    <span
      class={`chip ${kinds[kind]}${cut ? " cut" : ""}`}
      tabIndex={-1}
      role="listitem"
      aria-label={`${JSON.stringify(text)} ${fates[kind]}`}
      ref={explains(told)}>
      <span>
        <TokenText text={text} />
      </span>
    </span>
  );
}

const agreed = (round: Round, node: number) => "ax".includes(round.d[node][1]);
const parentOf = (round: Round, node: number) => (round.b ? round.b[node] : node - 1);

// Returns the depth of each drafted token in its tree, from 0 on.
function depths(round: Round) {
  const found: number[] = [];
  for (let node = 0; node < round.d.length; node += 1) {
    const parent = parentOf(round, node);
    found.push(parent < 0 ? 0 : found[parent] + 1);
  }
  return found;
}

const likely = (p: Figure) => (p === null || p === undefined ? "" : ` (${percent(p)})`);

// Tells what became of a drafted token.
function toldOf(round: Round, node: number, deep: number[]): Told {
  const [text, fate, p, q] = round.d[node];
  const parent = round.b ? round.b[node] : -1;
  const said: Sentence = ["The draft guessed ", { token: text }, `${likely(q)}. `];
  if (parent >= 0) said.push("It follows ", { token: round.d[parent][0] }, ". ");
  const gives = p === null ? "The target " : `The target gives it ${percent(p)} and `;
  if (fate === "a") return { sentence: [...said, `${gives}accepts it.`] };
  if (fate === "x") return { sentence: [...said, "The target accepts it, but the reply ended before it."] };
  if (fate === "u") return { sentence: [...said, "Not checked: an earlier token was rejected."] };
  const sibling = round.d.find((_, other) => deep[other] === deep[node] && agreed(round, other));
  const [chosen, theirs] = sibling ? [sibling[0], sibling[2]] : [round.n[0], round.n[2]];
  const verb = p !== null && theirs !== null && theirs < p ? "chose " : "prefers ";
  const end = [gives.replace(" and ", ", and "), verb, { token: chosen }, `${likely(theirs)}.`];
  return { sentence: [...said, ...end], topTokens: sibling ? [] : round.l };
}

// Tells of the target's own token.
function toldOfOwn(round: Round): Told {
  const [text, origin, p, emitted] = round.n;
  const own: Sentence = ["The target's own ", { token: text }, likely(p)];
  if (origin === "c") {
    const rejected = round.d.find(([, fate]) => fate === "r")?.[0] ?? "";
    return { sentence: [...own, ", instead of ", { token: rejected }, "."], topTokens: round.l };
  }
  const after = round.d.length
    ? `, after all ${round.d.length} drafted tokens were accepted.`
    : ". Nothing was drafted.";
  own.push(agreedOf(round) < round.d.length ? ", after the accepted branch." : after);
  return { sentence: emitted ? own : [...own, " The reply ended before it."], topTokens: round.l };
}

export function Chips({ round }: { round: Round }) {
  const deep = depths(round);
  const drafted = round.d.map(([text, fate], node) => (
    <Chip key={node} kind={fate} text={text} told={toldOf(round, node, deep)} />
  ));
  const [text, origin, , emitted] = round.n;
  const own = <Chip key="own" kind={origin} cut={!emitted} text={text} told={toldOfOwn(round)} />;
  if (!round.b)
    return (
      <span class="chips ft-row" role="list">
        {drafted}
        {own}
      </span>
    );
  // A tree: one column per position, the accepted token on top.
  const places = Array.from({ length: Math.max(agreedOf(round), ...deep) + 1 }, (_, depth) =>
    drafted
      .filter((_, node) => deep[node] === depth)
      .sort((a, b) => Number(agreed(round, Number(b.key))) - Number(agreed(round, Number(a.key)))),
  );
  (places[agreedOf(round)] ??= []).unshift(own);
  return (
    <span class="chips tree ft-row" role="list">
      {places.map((place, depth) => (
        <span key={depth} class="place ft-stack">
          {place}
        </span>
      ))}
    </span>
  );
}

// ---- the tooltip of a token or a row: what became of it, as a sentence. It shows for what is under the mouse or focus, or was tapped

// Texts, and tokens, which are drawn as such.
export type Sentence = (string | { token: string })[];
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
      <div class="probe-head ft-fine">Most likely here:</div>
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
