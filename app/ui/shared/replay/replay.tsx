// A finished reply, played round by round: a clock with its controls, and the reply as it was at the clock's time.
//
// For several replies on one clock: one Clock, one Transport, and a ReplayPane for each.

import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { count, fixed, percent, seconds, speed } from "../format";
import { Bars } from "./charts";
import { Chips, Probe } from "./chips";
import { Clock, Transport } from "./transport";
import { useWatched } from "../store";
import type { Timeline } from "./timeline";

const SHOWN = 1200; // characters of the text before the round
const PARTS = ["draft", "verify", "rest"] as const;
const FIGURES = [
  ["speed", "tokens/s", speed],
  ["rate", "accepted", percent],
  ["length", "tokens per round", fixed],
  ["tokens", "tokens", count],
  ["depth", "depth", count],
] as const;

// The text, the last round and the figures at the clock's time. Only the end of the text and one round are in the page.
export function ReplayPane({ clock, timeline, charts = true }: { clock: Clock; timeline: Timeline; charts?: boolean }) {
  const n = useWatched(clock, () => timeline.at(clock.time));
  const found = timeline.after(n);
  return (
    <div class="replay-pane ft-stack" data-round={n}>
      <ReplayText timeline={timeline} n={n} />
      <dl class="replay-figures ft-pairs">
        {FIGURES.map(([key, label, write]) => (
          <div key={key} data-figure={key}>
            <dt>{label}</dt>
            <dd>{write(found[key])}</dd>
          </div>
        ))}
      </dl>
      <p class="replay-why ft-fine">{found.why}</p>
      <TimeSpent parts={found.parts} whole={found.seconds} />
      {charts && <Charts timeline={timeline} n={n} />}
    </div>
  );
}

function ReplayText({ timeline, n }: { timeline: Timeline; n: number }) {
  const node = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (node.current) node.current.scrollTop = node.current.scrollHeight;
  }, [n]);
  // Right and left go through the round's tokens, where Tab does not stop.
  const walk = ({ key }: KeyboardEvent) => {
    const chips = [...(node.current?.querySelectorAll(".chip") ?? [])];
    const at = chips.indexOf(document.activeElement as Element);
    const goal =
      key === "ArrowRight" ? chips[at + 1] : key === "ArrowLeft" && at >= 0 ? (chips[at - 1] ?? node.current) : null;
    (goal as HTMLElement | null)?.focus();
  };
  return (
    <>
      <div class="replay-text ft-box" tabIndex={0} role="group" aria-label="Replay" ref={node} onKeyDown={walk}>
        <span class="replay-said">{timeline.text(Math.max(0, n - 1), SHOWN)}</span>
        <span class="replay-round">{n > 0 && <Chips round={timeline.rounds[n - 1]} />}</span>
      </div>
      <Probe root={node} />
    </>
  );
}

function TimeSpent({ parts, whole }: { parts: Record<"draft" | "verify" | "rest", number>; whole: number }) {
  return (
    <div>
      <div class="parts-bar" aria-hidden="true">
        {PARTS.map((name) => (
          <i key={name} class={`time-part ${name}`} style={{ flexGrow: whole > 0 ? parts[name] / whole : 0 }} />
        ))}
      </div>
      <ul class="parts-names ft-legend" aria-label="Time spent">
        {PARTS.map((name) => (
          <li key={name} data-part={name}>
            <i class={`time-part ${name}`} aria-hidden="true" />
            {name === "rest" ? "other" : name} {seconds(parts[name])}
            {whole > 0 && ` (${percent(parts[name] / whole)})`}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Charts({ timeline, n }: { timeline: Timeline; n: number }) {
  if (timeline.drafted[n] === 0) return <p class="ft-hint">Nothing was drafted.</p>;
  const share = (x: number) => String(Math.round(100 * x));
  return (
    <div class="replay-charts">
      <figure title="Share of rounds that accepted the 1st, 2nd, … drafted token">
        <figcaption class="ft-fine">Accepted by position, %</figcaption>
        <Bars values={timeline.positions(n)} label="Accepted by position" first={1} format={share} most={1} />
      </figure>
      <figure title="How many rounds accepted 0, 1, 2, … drafted tokens">
        <figcaption class="ft-fine">Rounds by accepted tokens</figcaption>
        <Bars values={timeline.lengths(n)} label="Accepted tokens per round" first={0} format={String} />
      </figure>
    </div>
  );
}

// The replay of one reply, at first at its end. `onMove(n)` is called with the number of rounds that have ended.
export function Replay({ timeline, onMove }: { timeline: Timeline; onMove?: (n: number) => void }) {
  const clock = useMemo(() => {
    const made = new Clock();
    made.load([timeline], { atEnd: true });
    return made;
  }, [timeline]);
  useEffect(() => clock.watch(() => onMove?.(timeline.at(clock.time))), [clock, timeline, onMove]);
  const told = () => `round ${count(timeline.at(clock.time))} of ${count(timeline.length)}, ${seconds(clock.time)}`;
  return (
    <section class="replay ft-stack" aria-label="Replay">
      <Transport clock={clock} told={told} />
      <ReplayPane clock={clock} timeline={timeline} />
    </section>
  );
}
