// The figures of a reply: its speed while it is written; then one quiet line, with the rest behind an "i".

import { useRef } from "preact/hooks";
import { Info } from "../components";
import { fixed, percent, seconds, speed, times } from "../format";

export function Figures({ stats }: { stats: Stats }) {
  const drafted = (stats.drafted ?? 0) > 0;
  const quicker = drafted ? timesPlain(stats) : null;
  const estimated = `Estimated: about ${speed(stats.plain_tokens_per_s)} tokens/s without drafting. Use Race to measure.`;
  return (
    <span class="figures ft-row ft-hint">
      <span data-stat="tokens_per_s" title="Average over the whole reply">
        {speed(stats.tokens_per_s)} tokens/s
      </span>
      {quicker !== null && (
        <span data-stat="speedup" title={estimated}>
          {times(quicker)}
        </span>
      )}
      <Info label="More figures">
        <More stats={stats} drafted={drafted} />
      </Info>
    </span>
  );
}

function More({ stats, drafted }: { stats: Stats; drafted: boolean }) {
  const rows = [
    drafted && ["acceptance_rate", percent(stats.acceptance_rate), "of drafted tokens accepted"],
    (drafted || !stats.rounds) &&
      stats.mean_acceptance_length && [
        "mean_acceptance_length",
        fixed(stats.mean_acceptance_length),
        "tokens per round",
      ],
    stats.plain_tokens_per_s && [
      "plain_tokens_per_s",
      speed(stats.plain_tokens_per_s),
      "tokens/s without drafting, estimated",
    ],
    ["time_to_first_token_s", seconds(stats.time_to_first_token_s), "time to first token"],
    stats.late_prefill_s && [
      "late_prefill_s",
      seconds(stats.late_prefill_s),
      "after it for the draft to read the prompt, counted in tokens/s",
    ],
  ].filter((row) => Array.isArray(row));
  return (
    <>
      <ul class="more-figures ft-list">
        {rows.map(([name, value, label]) => (
          <li key={name} data-stat={name}>
            <b>{value}</b> {label}
          </li>
        ))}
      </ul>
      {Boolean(stats.rounds) && !drafted && <p>not drafted</p>}
      {stats.shared && (
        <p data-stat="shared">The server does not count per reply. These figures include other requests.</p>
      )}
    </>
  );
}

// The figures of a reply, as app/ui/rounds/view.py tells them; null: unknown.
export interface Stats {
  rounds: number | null;
  drafted: number | null;
  accepted: number | null;
  prompt_tokens: number | null;
  completion_tokens: number;
  tokens_per_s: number | null;
  plain_tokens_per_s: number | null;
  speedup: number | null;
  acceptance_rate: number | null;
  mean_acceptance_length: number | null;
  time_to_first_token_s: number | null;
  late_prefill_s: number; // of the prompt in the draft, after the first token
  shared: boolean | null;
  needed: number | null; // the acceptance from which drafting is faster
  expected: number | null; // the acceptance of the next drafts
  predicted: { drafted: number; accepted: number } | null; // tokens that an earlier reply predicted
  full: boolean;
}

const SHORTEST = 1; // seconds; the speed of a shorter reply is noise

// Returns the seconds for which a reply was written.
const written = (stats: Stats) => (stats.tokens_per_s ? stats.completion_tokens / stats.tokens_per_s : 0);

// Returns whether a reply is too short for its speed to mean anything.
export const isShort = (stats: Stats) => written(stats) < SHORTEST;

// Returns whether much of a reply was copied from an earlier one: its speed says nothing about others.
export const repeats = (stats: Stats) => (stats.predicted?.accepted ?? 0) > stats.completion_tokens / 10;

// Returns the speed-up over no drafting; null if unknown, or if the reply is too short or mostly copied.
export const timesPlain = (stats: Stats) => (repeats(stats) || isShort(stats) ? null : stats.speedup || null);

// ---- while it is written

const SCALES = [1, 1.5, 2, 3, 5, 7.5, 10];

// Returns the smallest round number that is not below `value`.
export function scaleFor(value: number) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return unit * (SCALES.find((each) => each * unit >= value * 0.999) ?? 10);
}

// The speed of a reply beside that without drafting; and the acceptance that the controller expects of its next drafts,
// beside the one from which drafting is faster. Both are of each drafted token; accepted / drafted tokens is a lower
// number, and stands in Rounds. Shows nothing until a reply is long enough for a speed.
export function SpeedBar({ stats }: { stats: Stats | null }) {
  const most = useRef(0); // the scale only grows
  if (!stats?.tokens_per_s || isShort(stats)) return null;
  const { tokens_per_s: now, plain_tokens_per_s: plain, needed, expected } = stats;
  most.current = Math.max(most.current, scaleFor(1.1 * Math.max(now, plain ?? 0)));
  // It is inside a live region, which must not announce it.
  return (
    <div class="speed-bar ft-fine" role="group" aria-label="Speed" aria-live="off">
      <Bar
        kind="speed"
        value={now / most.current}
        told={`${speed(now)} tokens/s`}
        mark={plain && plain / most.current}
        markTold={plainly(stats)}
      />
      {needed !== null && expected !== null && (
        <Bar
          kind="acceptance"
          value={expected}
          told={`expected acceptance ${percent(expected)}`}
          hint="Forecast for each token of the next drafts. Rounds shows how many were accepted."
          mark={needed}
          markTold={`break-even ${percent(needed)}`}
          markHint="With less acceptance, drafting is slower than not drafting."
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
  const { drafted, plain_tokens_per_s: plain, rounds, speedup } = stats;
  if (repeats(stats)) return "reuses its earlier version";
  if (!plain || !speedup)
    return drafted === 0 && rounds ? "nothing drafted" : "speed without drafting not measured yet";
  const told = `without drafting: ${speed(plain)} tokens/s`;
  const quicker = timesPlain(stats);
  return quicker ? `${times(quicker)} (${told})` : told;
}
