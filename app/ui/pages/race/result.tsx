// What a race showed: the replay, one sentence, and the statistics.

import { Button, Disclosure, Panel, Table } from "../../shared/components";
import { percent, several, speed, times } from "../../shared/format";
import { TokenText } from "../../shared/replay/chips";
import { Fitted } from "../../shared/replay/charts";
import { useEffect, useMemo } from "preact/hooks";
import { Clock, SPEEDS, Transport } from "../../shared/replay/transport";
import { ReplayPane } from "../../shared/replay/replay";
import { Timeline, type Round } from "../../shared/replay/timeline";
import type { Divergence, Found, Race } from "./state";

const CUT = 100; // letters of a prompt that a line has room for
const CAUSES = {
  "numerical tie": "Both are equally likely within rounding error.",
  bug: "The target clearly prefers one of them. Please report it.",
};

function aboutRace({ prompts, max_tokens: most, seed }: NonNullable<Race["about"]>) {
  const [first] = prompts;
  const one = `“${first?.length > CUT ? `${first.slice(0, CUT).trimEnd()} …` : first}”`;
  const limit = most ? `up to ${several(most, "token")} per reply, ` : "";
  return `${prompts.length === 1 ? one : `${prompts.length} prompts`}, ${limit}seed ${seed}`;
}

export function Result({ race, running, onMore }: { race: Race; running: boolean; onMore: () => void }) {
  const { standing, played, complete } = race;
  if (!standing || (standing.median === null && (running || !complete))) return null;
  const replayed = !running && played?.every(({ rounds }) => rounds.length) ? played : null;
  return (
    <div class="race-result ft-stack ft-gap-4" data-favours={standing.favours}>
      {replayed && (
        <Panel title="Replay side by side">
          <RaceReplay sides={replayed} />
        </Panel>
      )}
      <Panel>
        <p class="verdict" role="status">
          {standing.verdict}
        </p>
        <p class="ft-hint">
          {complete === false && `Stopped; the finished runs are kept. `}
          {standing.certainty}
        </p>
        {race.words && <Words race={race} />}
        {race.about && <p class="ft-hint race-about">{aboutRace(race.about)}</p>}
        <div class="ft-row">
          <Button text="5 more runs" data-act="more" disabled={running} onClick={onMore} />
        </div>
        {standing.median !== null && (
          <Disclosure summary="All runs" remember="race.runs">
            <Statistics race={race} found={standing as Found} />
          </Disclosure>
        )}
      </Panel>
    </div>
  );
}

function Statistics({ race, found }: { race: Race; found: Found }) {
  const names = race.names.map((name) => `${name}, tokens/s`);
  return (
    <>
      <figure class="race-dots">
        <figcaption class="ft-hint">Speed ratio, one dot per run</figcaption>
        <Chart ratios={race.pairs.map(({ ratio }) => ratio)} found={found} />
      </figure>
      <div class="ft-scroll">
        <Table columns={["run", ...names, "ratio", "accepted", "text"]}>
          <tbody>
            {race.pairs.map((pair, i) => (
              <tr key={i}>
                <td>{i + 1}</td>
                <td>{speed(pair.base_tokens_per_s)}</td>
                <td>{speed(pair.rival_tokens_per_s)}</td>
                <td>{times(pair.ratio)}</td>
                <td>{percent(pair.acceptance_rate)}</td>
                <td>{race.compared ? (pair.same_words ? "equal" : "differs") : "–"}</td>
              </tr>
            ))}
          </tbody>
        </Table>
      </div>
    </>
  );
}

// Whether both wrote the same text, and where it differs if it must not.
function Words({ race }: { race: Race }) {
  const { different, promised, told, divergence } = race.words as NonNullable<Race["words"]>;
  const kind = race.compared && !different ? "same" : promised ? "differ" : "may";
  return (
    <>
      <p class={`race-words ${kind}`} data-identical={!different}>
        {told}
      </p>
      {divergence && <Parting divergence={divergence} names={race.names} />}
    </>
  );
}

function Parting({ divergence, names }: { divergence: Divergence; names: [string, string] }) {
  const { position, base, rival, candidates, cause } = divergence;
  return (
    <section class="parting ft-stack ft-box" aria-label="First difference">
      <h3>First difference</h3>
      <p>Token {position + 1} is the first that differs.</p>
      <dl class="ft-pairs">
        {[base, rival].map((text, i) => (
          <div key={i}>
            <dt>{names[i]}</dt>
            <dd>{text === null ? <em>the end</em> : <Token text={text} />}</dd>
          </div>
        ))}
      </dl>
      <p>The target's top two tokens there</p>
      <ol class="ft-list">
        {candidates.map(({ text, p }) => (
          <li key={text}>
            <Token text={text} />
            <span class="ft-track">
              <i class="fill" style={{ width: `${100 * p}%` }} />
            </span>
            <b>{percent(p)}</b>
          </li>
        ))}
      </ol>
      <p data-cause={cause}>
        <b>{cause === "bug" ? "Bug" : "Numerical tie"}</b>: {CAUSES[cause]}
      </p>
    </section>
  );
}

const Token = ({ text }: { text: string }) => (
  <code class="chip">
    <TokenText text={text} />
  </code>
);

const LONGEST = 20; // seconds that the replay should take
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// A side's last reply.
export type Played = { name: string; rounds: Round[] };

// Plays as soon as it is shown, unless the user wants little motion.
function RaceReplay({ sides }: { sides: Played[] }) {
  const { clock, timelines } = useMemo(() => {
    const timelines = sides.map(({ rounds }) => new Timeline(rounds));
    const clock = new Clock();
    clock.load(timelines, { atEnd: true }); // playing begins at the start again
    clock.setSpeed(SPEEDS.findLast((each) => each < 1 && clock.duration / each >= LONGEST / 4) ?? SPEEDS[0]);
    return { clock, timelines };
  }, [sides]);
  useEffect(() => {
    if (!calm.matches) clock.play();
    return () => clock.pause();
  }, [clock]);
  return (
    <section class="replays ft-stack ft-gap-4" aria-label="Replay side by side">
      <Transport clock={clock} />
      <div class="race-lanes">
        {sides.map(({ name }, i) => (
          <section key={i} class="race-replay ft-stack" aria-label={name}>
            <h3>{name}</h3>
            <ReplayPane clock={clock} timeline={timelines[i]} charts={false} />
          </section>
        ))}
      </div>
    </section>
  );
}

// ---- the runs of a race as dots on one axis: below 1 slower, above it faster

const LEFT = 16;
const RIGHT = 16;
const TOP = 14;
const BOTTOM = 34;
const TICKS = [
  0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128,
];
const LEAST = Math.log(1.25); // the axis shows at least from 0.8 to 1.25
const APART = 44; // between two ticks

// Returns the ticks between two logarithms that have room: 1 first, then those before and after it.
function ticks(low: number, high: number, x: (ratio: number) => number) {
  let last = -Infinity;
  return TICKS.filter((each) => {
    if (Math.log(each) < low || Math.log(each) > high) return false;
    if (each !== 1 && (x(each) - last < APART || Math.abs(x(each) - x(1)) < APART)) return false;
    last = x(each);
    return true;
  });
}

// `ratios` are in the order they were measured.
function Chart({ ratios, found }: { ratios: number[]; found: Found }) {
  const logs = ratios.map(Math.log);
  const low = Math.min(-LEAST, ...logs) - 0.08;
  const high = Math.max(LEAST, ...logs) + 0.08;
  const row = ratios.length > 12 ? 5 : 11;
  const height = TOP + BOTTOM + row * Math.max(ratios.length, 5);
  const end = height - BOTTOM;
  const look = ["slow", "open", "fast"][found.favours + 1];
  const range = `range ${times(found.low)} to ${times(found.high)}`;
  const told = `${ratios.length} runs: ${ratios.map(times).join(", ")}. Median ${times(found.median)}, ${range}.`;
  return (
    <Fitted label={told} class={`dots ${look}`} height={height}>
      {(width) => {
        const x = (ratio: number) => LEFT + ((Math.log(ratio) - low) / (high - low)) * (width - LEFT - RIGHT);
        const upright = (ratio: number, kind: string) => (
          <line x1={x(ratio)} x2={x(ratio)} y1={TOP - 8} y2={end} class={kind} />
        );
        return (
          <>
            <rect
              class="range"
              x={x(found.low)}
              y={TOP - 6}
              width={Math.max(x(found.high) - x(found.low), 2)}
              height={end - TOP + 6}
              rx={4}
            />
            {ticks(low, high, x).map((tick) => (
              <g key={tick}>
                {upright(tick, tick === 1 ? "one" : "grid")}
                <text x={x(tick)} y={end + 14} text-anchor="middle">
                  {tick}x
                </text>
              </g>
            ))}
            {upright(found.median, "median")}
            {ratios.map((ratio, i) => (
              <circle key={i} class="dot" cx={x(ratio)} cy={TOP + row * (i + 0.5)} r={row > 6 ? 5 : 3} />
            ))}
            <text class="way" x={LEFT} y={height - 4}>
              ← slower
            </text>
            <text class="way" x={width - RIGHT} y={height - 4} text-anchor="end">
              faster →
            </text>
          </>
        );
      }}
    </Fitted>
  );
}
