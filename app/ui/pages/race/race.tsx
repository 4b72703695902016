// The Race page: a short form, the replay of both sides, one sentence, and the statistics.

import { useEffect } from "preact/hooks";
import { ErrorNote, Linked, PageFrame, register } from "../../shared/components";
import { propose, UnderWay, useChoices, useMeasurement, useProposal } from "../../shared/measurement";
import { speed } from "../../shared/format";
import { ReplyBody } from "../../shared/reply_body";
import type { Stats } from "../../shared/figures/figures";
import { RaceForm, proposed } from "./form";
import { Result } from "./result";
import { FRESH, SIDES, take, type Race } from "./state";

function RacePage() {
  const { offer, state: race, stats, running, error, start, stop } = useMeasurement("race", FRESH, take);
  const [choices, choose] = useChoices(offer, proposed);
  const proposal = useProposal();
  useEffect(() => {
    if (
      !proposal ||
      !choices ||
      running ||
      !offer.methods.some(({ name }: { name: string }) => name === proposal.rival)
    )
      return;
    const [base, rival] = choices.sides;
    choose({
      place: proposal.place,
      sides: [
        { ...base, method: proposal.base },
        { ...rival, method: proposal.rival },
      ],
    });
    propose(null);
  }, [proposal, offer, running]);

  const nothing = race?.complete === false && typeof race?.standing?.median !== "number";
  const replayed = !running && race?.played?.every(({ rounds }) => rounds.length);
  return (
    <PageFrame
      title="Race"
      intro="Compares two setups on the same prompts, alternating the order. A winner is named only if another race would agree.">
      {choices ? (
        <RaceForm
          offer={offer}
          choices={choices}
          choose={choose}
          running={running}
          onStart={(asked) => {
            choose(asked); // it shows what runs
            start("start", asked);
          }}
        />
      ) : (
        offer && (
          <p class="ft-panel ft-stack ft-gap-3 ft-hint race-form">
            <Linked text="No model is loaded. Load one on the Models page." />
          </p>
        )
      )}
      <ErrorNote text={error || (nothing ? "Stopped before the first run was finished." : "")} />
      {running && race && <Progress race={race} onStop={stop} />}
      {race && race.notes.length > 0 && (
        <ul class="ft-hint race-notes" aria-label="About this race">
          {race.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      {race && !replayed && SIDES.some((side) => (running ? race.run : race.lanes[side].replies.length)) && (
        <Lanes race={race} stats={stats} />
      )}
      {race && <Result race={race} running={running} onMore={() => start("more")} />}
    </PageFrame>
  );
}

function Progress({ race, onStop }: { race: Race; onStop: () => void }) {
  const { run, opening, names } = race;
  const name = run ? names[SIDES.indexOf(run.side)] : "";
  const text = run
    ? run.pair === null
      ? `Warming up: ${name}`
      : `Run ${run.pair + 1} of ${run.of}: ${name}`
    : opening
      ? `Loading the baseline: ${opening.said}`
      : "";
  const share = run ? run.done / run.total : (opening?.done ?? null);
  return <UnderWay name="Race" text={text} share={share} stop="Stop" onStop={onStop} />;
}

const STATES = { waiting: "waiting", warm: "warming up", writes: "writing", done: "done", cut: "stopped" };
const scrollToEnd = ({ parentElement: frame }: HTMLElement) => frame && (frame.scrollTop = frame.scrollHeight);

// Both sides of a race while they write: name, speed and reply.
function Lanes({ race, stats }: { race: Race; stats: Record<string, Stats> | null }) {
  return (
    <div class="race-lanes">
      {SIDES.map((side, i) => {
        const { state, replies } = race.lanes[side];
        return (
          <section key={side} class="race-lane ft-box" data-lane={side} data-state={state}>
            <header class="ft-row">
              <h3>{race.names[i]}</h3>
              <span class="ft-hint">{STATES[state]}</span>
              <b class="lane-speed">{speed(stats?.[side]?.tokens_per_s)}</b>
              <span class="ft-hint">tokens/s</span>
            </header>
            <div class="lane-text ft-stack ft-gap-3" tabIndex={0} role="group" aria-label={race.names[i]}>
              {replies.map((reply, turn) => (
                <ReplyBody key={`${race.run?.pair} ${turn}`} reply={reply} onDrawn={scrollToEnd} />
              ))}
            </div>
          </section>
        );
      })}
    </div>
  );
}

register("race", RacePage);
