// The rounds of a reply: a row each, as long as what was accepted; a click shows the tokens. Consecutive rounds that
// drafted nothing share one row. Above them the reply can be replayed.

import { count, fixed, percent } from "../../../shared/format";
import { useMemo, useRef, useState } from "preact/hooks";
import { Button } from "../../../shared/components";
import { Chips, Probe } from "../../../shared/replay/chips";
import { Replay } from "../../../shared/replay/replay";
import { Rows, type Round } from "../../../shared/replay/timeline";
import { Lanes } from "./lanes";
import type { Stats } from "../../../shared/figures/figures";

// The legend: each sign's look, name, and what it means.
const SIGNS = [
  ["cell-kept", "accepted", "Drafted, and accepted by the target"],
  ["cell-cap", "rejected", "Drafted, and rejected by the target"],
  ["cell-left", "not checked", "Drafted after a rejected token"],
  ["cell-own correction", "correction", "The target's own token in place of a rejected one"],
  ["cell-own bonus", "bonus", "The target's own token after all drafted ones were accepted"],
];

// The reply whose rounds are shown.
export interface ShownReply {
  id: number | string; // another reply has another id
  rounds: Round[]; // all its rounds so far, in order; the array may grow in place
  stats: Stats | null;
  running: boolean; // it still grows: then it cannot be replayed
}

// The rounds of `reply`; null: of no reply yet. Draw it again whenever `reply.rounds` grew: only new rounds are read.
// `token` is the number of the token under the pointer in the reply's text (see Marks), whose round is highlighted.
// `onLight(from, to)` asks to highlight these tokens in the text, (0, 0) none. `onSave("html" | "jsonl")` asks for a file.
type RoundsProps = {
  reply: ShownReply | null;
  token?: number | null;
  onLight?: (from: number, to: number) => void;
  onSave?: (form: "html" | "jsonl") => void;
};
export function Rounds({ reply, token = null, onLight = () => {}, onSave }: RoundsProps) {
  const id = reply?.id;
  const [allOpen, setAllOpen] = useState(false); // every row, in every reply
  const [replaying, setReplaying] = useState(false);
  const [replayed, setReplayed] = useState({ id, rounds: 0 }); // how many have ended in the replay of this reply
  const listed = useMemo(() => new Rows(), [id]);
  listed.take(reply?.rounds ?? []);
  const { timeline } = listed;
  const done = reply && !reply.running;
  const latest = reply?.running && timeline.rounds.at(-1);
  const move = (rounds: number) => {
    setReplayed({ id, rounds });
    const [from, to] = rounds ? timeline.tokensOf(rounds - 1) : [0, 0];
    onLight(from, to);
  };
  const save = (form: "html" | "jsonl", text: string, title: string) =>
    onSave && <Button kind="link" text={text} title={title} data-save={form} onClick={() => onSave(form)} />;
  const toggleText = () => setAllOpen(!allOpen);
  return (
    <>
      <header>
        <div class="ft-row ft-spread">
          <h2>Rounds</h2>
          <Button
            small
            aria-pressed={allOpen}
            title="Show the text of each round"
            data-action="words"
            onClick={toggleText}>
            Text
          </Button>
        </div>
        {Boolean(reply?.stats?.rounds) && <Totals stats={reply?.stats as Stats} />}
      </header>
      {listed.drafted && <Legend />}
      {done && timeline.length > 0 && (
        <details
          class="replay-drawer ft-disclosure"
          open={replaying}
          onToggle={({ currentTarget }) => setReplaying(currentTarget.open)}>
          <summary>Replay</summary>
          {replaying && <Replay timeline={timeline} onMove={move} />}
          <div class="ft-row">
            {save("html", "Save as HTML", "A replay in one HTML file; opens offline")}
            {save("jsonl", "Save as JSONL", "All events, one JSON object per line")}
          </div>
        </details>
      )}
      <Lanes
        key={id}
        listed={listed}
        allOpen={allOpen}
        token={token}
        replayed={replayed.id === id ? replayed.rounds : 0}
        onLight={onLight}
        empty={
          done
            ? "No round data for this reply. It was imported, edited, stopped before the first round, or came from a server that does not report rounds."
            : "The rounds of the next reply appear here: drafted tokens, which were accepted, and what the model chose instead."
        }
      />
      {latest && <Latest round={latest} />}
    </>
  );
}

function Totals({ stats }: { stats: Stats }) {
  const rate = stats.drafted && stats.acceptance_rate !== null ? ` (${percent(stats.acceptance_rate)})` : "";
  const totals = [
    ["rounds", stats.rounds === 1 ? "round" : "rounds", count(stats.rounds)],
    ["drafted", "drafted", count(stats.drafted)],
    ["accepted", "accepted", count(stats.accepted) + rate],
    ["length", "tokens per round", fixed(stats.mean_acceptance_length)],
    ["tokens", stats.completion_tokens === 1 ? "token" : "tokens", count(stats.completion_tokens)],
  ];
  return (
    <dl class="totals ft-pairs ft-fine" aria-label="Totals">
      {totals.map(([name, label, value]) => (
        <div key={name} data-total={name}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Legend() {
  return (
    <ul class="legend ft-legend" aria-label="Legend">
      {SIGNS.map(([look, name, hint]) => (
        <li key={name} title={hint}>
          <span class="cells" aria-hidden="true">
            <i class={look} />
          </span>
          {name}
        </li>
      ))}
    </ul>
  );
}

function Latest({ round }: { round: Round }) {
  const node = useRef<HTMLDivElement>(null);
  return (
    <div class="latest" role="group" aria-label="Latest round" ref={node}>
      <Chips round={round} />
      <Probe root={node} />
    </div>
  );
}
