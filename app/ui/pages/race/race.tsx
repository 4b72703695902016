// The Race page: a short form, the replay of both sides, one sentence, and the statistics.

import { useEffect } from "preact/hooks";
import { ErrorNote, Linked, PageFrame, register } from "../../shared/components";
import { UnderWay, useChoices, useMeasurement, useProposal } from "../../shared/measurement";
import { RaceForm, proposed } from "./form";
import { Lanes } from "./lanes";
import { Result } from "./result";
import { FRESH, SIDES, take, type Race } from "./state";
import { words } from "./words";

function RacePage() {
  const { offer, state: race, stats, running, error, start, stop } = useMeasurement("race", FRESH, take);
  const [choices, choose] = useChoices(offer, proposed);
  const [proposal, drop] = useProposal();
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
    drop();
  }, [proposal, offer, running]);

  const ended = race?.complete ?? null;
  const verdict = race?.standing?.verdict ?? "";
  const nothing = ended === false && typeof race?.standing?.median !== "number";
  const replayed = !running && race?.played?.every(({ rounds }) => rounds.length);
  return (
    <PageFrame title={words.title} intro={words.intro}>
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
            <Linked text={words.noModel} />
          </p>
        )
      )}
      <ErrorNote text={error || (nothing ? words.stoppedEarly : "")} />
      {running && race && <Progress race={race} onStop={stop} />}
      <p class="sr-only" role="status">
        {ended === null || nothing ? "" : verdict}
      </p>
      {race && race.notes.length > 0 && (
        <ul class="ft-hint race-notes" aria-label={words.notes}>
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
      ? words.warming(name)
      : words.running(run.pair + 1, run.of, name)
    : opening
      ? words.opening(opening.said)
      : "";
  const share = run ? run.done / run.total : (opening?.done ?? null);
  return <UnderWay name={words.form} text={text} share={share} stop={words.stop} onStop={onStop} />;
}

register("race", RacePage);
