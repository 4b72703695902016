// What a race showed: the replay, one sentence, and the statistics.

import { Button, Disclosure, Panel, Table } from "../../shared/components";
import { percent, speed, times } from "../../shared/format";
import { TokenText } from "../../shared/replay/chips";
import { Chart, type Found } from "./chart";
import { words } from "./words";
import { useEffect, useMemo } from "preact/hooks";
import { Clock, SPEEDS } from "../../shared/replay/clock";
import { ReplayPane } from "../../shared/replay/replay";
import { Timeline, type Round } from "../../shared/replay/timeline";
import { Transport } from "../../shared/replay/transport";
import type { Divergence, Race } from "./state";

export function Result({ race, running, onMore }: { race: Race; running: boolean; onMore: () => void }) {
  const { standing, played, complete } = race;
  if (!standing || (standing.median === null && (running || !complete))) return null;
  const replayed = !running && played?.every(({ rounds }) => rounds.length) ? played : null;
  return (
    <div class="race-result ft-stack ft-gap-4" data-favours={standing.favours}>
      {replayed && (
        <Panel title={words.replay}>
          <RaceReplay sides={replayed} />
        </Panel>
      )}
      <Panel>
        <p class="verdict">{standing.verdict}</p>
        <p class="ft-hint">
          {complete === false && `${words.stopped} `}
          {standing.certainty}
        </p>
        {race.words && <Words race={race} />}
        {race.about && <p class="ft-hint race-about">{words.about(race.about)}</p>}
        <div class="ft-row">
          <Button text={words.five} data-act="more" disabled={running} onClick={onMore} />
        </div>
        {standing.median !== null && (
          <Disclosure summary={words.statistics} remember="race.runs">
            <Statistics race={race} found={standing as Found} />
          </Disclosure>
        )}
      </Panel>
    </div>
  );
}

function Statistics({ race, found }: { race: Race; found: Found }) {
  const { columns } = words;
  const names = race.names.map((name) => `${name}, ${words.speed}`);
  return (
    <>
      <figure class="race-dots">
        <figcaption class="ft-hint">{words.ratio}</figcaption>
        <Chart ratios={race.pairs.map(({ ratio }) => ratio)} found={found} />
      </figure>
      <div class="ft-scroll">
        <Table columns={[columns.run, ...names, columns.ratio, columns.accepted, columns.text]}>
          <tbody>
            {race.pairs.map((pair, i) => (
              <tr key={i}>
                <td>{i + 1}</td>
                <td>{speed(pair.base_tokens_per_s)}</td>
                <td>{speed(pair.rival_tokens_per_s)}</td>
                <td>{times(pair.ratio)}</td>
                <td>{percent(pair.acceptance_rate)}</td>
                <td>{race.compared ? (pair.same_words ? words.same : words.differ) : "–"}</td>
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
        {told.split(" First at token")[0]}
      </p>
      {divergence && <Parting divergence={divergence} names={race.names} />}
    </>
  );
}

function Parting({ divergence, names }: { divergence: Divergence; names: [string, string] }) {
  const { position, base, rival, candidates, cause } = divergence;
  return (
    <section class="parting ft-stack ft-box" aria-label={words.parting}>
      <h3>{words.parting}</h3>
      <p>{words.partingAt(position + 1)}</p>
      <dl class="ft-pairs">
        {[base, rival].map((text, i) => (
          <div key={i}>
            <dt>{names[i]}</dt>
            <dd>{text === null ? <em>{words.end}</em> : <Token text={text} />}</dd>
          </div>
        ))}
      </dl>
      <p>{words.likeliest}</p>
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
        <b>{words.causes[cause]}</b>: {words.causeHints[cause]}
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
    <section class="replays ft-stack ft-gap-4" aria-label={words.replay}>
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
