// What pages that measure share: Python's offer, the form's choices, and following a measurement by its number.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Button, usePage, useServer, useStatus, useBack } from "./components";
import { follow } from "./feed";
import { answered, away, reason } from "./frame/server";
import { pairKey } from "./frame/status";
import { Store, useStore } from "./store";

// A race of two methods; `place` is what the base runs on, null for the loaded model.
type Proposal = { rival: string; base: string; place: string | null };

const proposals = new Store({ race: null as Proposal | null });

// Proposes a race from another page; null: none.
export const propose = (race: Proposal | null) => proposals.set({ race });

// Returns the last proposal.
export const useProposal = () => useStore(proposals).race;

// Asks for the page's offer, again for each pair that is loaded and whenever the page is shown; and follows its last
// measurement, which may run. `take(state, event)` returns the state after an event, `fresh` is the one before the first.
export function useMeasurement<State extends object>(
  page: string,
  fresh: State,
  take: (state: State, event: any) => State,
) {
  const { ask, error, setError, server } = useServer();
  const [offer, setOffer] = useState<any>(null);
  const [state, setState] = useState<State | null>(null);
  const [stats, setStats] = useState<any>(null);
  const [running, setRunning] = useState(false);
  const number = useRef<number>(null); // of the measurement that is followed
  const lost = useRef(false); // the app stopped answering meanwhile

  const watch = useCallback(
    async (asked: number) => {
      number.current = asked;
      lost.current = false;
      let now = fresh;
      setState(fresh);
      setStats(null);
      setRunning(true);
      setError("");
      const advance = (events: any[]) => {
        for (const event of events) {
          now = take(now, event);
          if (event.t === "broken") setError(event.message);
          if (event.t === "broken" || event.t === "rest") setRunning(false);
        }
        setState(now);
      };
      try {
        await follow(
          (from) => server.follow({ number: asked, from }),
          () => number.current === asked,
          (events, latest, _done, gone) => {
            setStats(latest);
            advance(
              gone
                ? [{ t: "broken", message: "Foretoken was restarted, so this run is lost. Start it again." }]
                : events,
            );
          },
        );
      } catch (failure) {
        lost.current = away(failure) && number.current === asked;
        setError(reason(failure));
      }
    },
    [server],
  );

  const refresh = useCallback(async () => {
    let found;
    try {
      found = await answered(server.offer({})); // not by `ask`, which would clear what is said of a measurement
    } catch (failure) {
      return setError(reason(failure));
    }
    setOffer(found);
    if (found.number && found.number !== number.current) watch(found.number);
  }, [server, watch]);

  const status = useStatus();
  const pair = status && (pairKey(status.loaded) ?? "none");
  const here = usePage() === page;
  useEffect(() => void (pair && here && refresh()), [pair, here, refresh]);
  useBack(() => {
    if (lost.current) watch(number.current as number);
    else if (here) refresh();
  });

  const start = async (endpoint: string, data = {}) => {
    const begun = await ask(endpoint, data);
    if (begun) watch(begun.number);
    else refresh(); // another tab may have started one
  };
  const stop = () => void ask("stop");
  return { offer, state, stats, running, error, ask, refresh, start, stop };
}

// The form's choices: what `proposed` gives for the offer until the user has chosen something for this pair, or what a
// measurement that runs was asked for. Returns them, and a function that changes some.
export function useChoices<Choices extends object>(
  offer: any,
  proposed: (offer: any) => Choices,
): [Choices | null, (changes: Partial<Choices>) => void] {
  const pair = offer && JSON.stringify([offer.loaded, offer.methods]);
  const [chosen, setChosen] = useState<{ pair: string; values: Choices } | null>(null);
  const change = (changes: Partial<Choices>) =>
    setChosen((before) => ({
      pair,
      values: { ...(before && before.pair === pair ? before.values : proposed(offer)), ...changes },
    }));
  useEffect(() => {
    if (offer?.asked && chosen?.pair !== pair) change(offer.asked);
  }, [offer]);
  return [chosen && chosen.pair === pair ? chosen.values : offer?.loaded ? proposed(offer) : null, change];
}

// How far a measurement is; `share` null: unknown.
type UnderWayProps = { text: string; share: number | null; name: string; stop: string; onStop: () => void };
export function UnderWay({ text, share, name, stop, onStop }: UnderWayProps) {
  return (
    <div class="under-way ft-row">
      <span class="now grow">{text}</span>
      <Button text={stop} data-act="stop" onClick={onStop} />
      <progress aria-label={name} max={1} value={share ?? undefined} />
    </div>
  );
}
