// The speed of a reply while it is written, beside that without drafting; and the acceptance that the controller expects
// of its next drafts, beside the one from which drafting is faster. Both are of each drafted token; accepted / drafted
// tokens is a lower number, and stands in Rounds.

import { useRef } from "preact/hooks";
import { words } from "../replay/words";
import { isShort, repeats, timesPlain, type Stats } from "./figures";

const SCALES = [1, 1.5, 2, 3, 5, 7.5, 10];
const say = words.gauge;

// Returns the smallest round number that is not below `value`.
export function scaleFor(value: number) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return unit * (SCALES.find((each) => each * unit >= value * 0.999) ?? 10);
}

// Shows nothing until a reply is long enough for a speed.
export function SpeedBar({ stats }: { stats: Stats | null }) {
  const most = useRef(0); // the scale only grows
  if (!stats?.tokens_per_s || isShort(stats)) return null;
  const { tokens_per_s: now, plain_tokens_per_s: plain, needed, expected } = stats;
  most.current = Math.max(most.current, scaleFor(1.1 * Math.max(now, plain ?? 0)));
  // It is inside a live region, which must not announce it.
  return (
    <div class="speed-bar ft-fine" role="group" aria-label={say.name} aria-live="off">
      <Bar
        kind="speed"
        value={now / most.current}
        told={say.speed(now)}
        mark={plain && plain / most.current}
        markTold={plainly(stats)}
      />
      {needed !== null && expected !== null && (
        <Bar
          kind="acceptance"
          value={expected}
          told={say.expected(expected)}
          hint={say.expectedHint}
          mark={needed}
          markTold={say.breakEven(needed)}
          markHint={say.breakEvenHint}
        />
      )}
    </div>
  );
}

// A bar with its value in words, and a labelled mark.
type BarProps = {
  kind: string;
  value: number;
  told: string;
  hint?: string;
  mark: number | null;
  markTold: string;
  markHint?: string;
};
function Bar({ kind, value, told, hint, mark, markTold, markHint }: BarProps) {
  const width = (share: number) => `${(100 * Math.min(Math.max(share, 0), 1)).toFixed(1)}%`;
  return (
    <div class="speed-row" data-bar={kind}>
      <b title={hint}>{told}</b>
      <span class="ft-track" aria-hidden="true">
        <i class="fill" style={{ width: width(value) }} />
        {mark !== null && <i class="tick" style={{ left: width(mark) }} />}
      </span>
      <span class="mark-told" title={markHint}>
        {markTold}
      </span>
    </div>
  );
}

// Returns "1.6x (without drafting: 12.0 tokens/s)", or why that is unknown.
function plainly(stats: Stats) {
  if (repeats(stats)) return say.repeats;
  if (!stats.plain_tokens_per_s || !stats.speedup)
    return stats.drafted === 0 && stats.rounds ? say.nothing : say.unknown;
  const times = timesPlain(stats);
  return times ? say.times(times, stats.plain_tokens_per_s) : say.plainSpeed(stats.plain_tokens_per_s);
}
