// The figures of a finished reply: one quiet line, the rest behind an "i".

import { Info } from "../components";
import { fixed, percent, seconds, speed } from "../format";
import { words } from "../replay/words";

const say = words.stats;

export function Figures({ stats }: { stats: Stats }) {
  const drafted = (stats.drafted ?? 0) > 0;
  const times = drafted ? timesPlain(stats) : null;
  return (
    <span class="figures ft-row ft-hint">
      <span data-stat="tokens_per_s" title={say.speedHint}>
        {say.speed(stats.tokens_per_s)}
      </span>
      {times !== null && (
        <span data-stat="speedup" title={say.timesHint(stats.plain_tokens_per_s)}>
          {say.times(times)}
        </span>
      )}
      <Info label={words.figuresName}>
        <More stats={stats} drafted={drafted} />
      </Info>
    </span>
  );
}

function More({ stats, drafted }: { stats: Stats; drafted: boolean }) {
  const rows = [
    drafted && ["acceptance_rate", percent(stats.acceptance_rate), say.rate],
    (drafted || !stats.rounds) &&
      stats.mean_acceptance_length && ["mean_acceptance_length", fixed(stats.mean_acceptance_length), say.length],
    stats.plain_tokens_per_s && ["plain_tokens_per_s", speed(stats.plain_tokens_per_s), say.plain],
    ["time_to_first_token_s", seconds(stats.time_to_first_token_s), say.first],
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
      {Boolean(stats.rounds) && !drafted && <p>{say.notDrafted}</p>}
      {stats.shared && <p data-stat="shared">{say.shared}</p>}
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
