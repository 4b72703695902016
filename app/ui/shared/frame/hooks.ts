// What every component may ask of the app, as Preact hooks.

import { createContext, type RefObject } from "preact";
import { useCallback, useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { address } from "../addresses";
import { useWatched } from "../store";
import { answered, LOST, reason, type Endpoints } from "./server";
import { status } from "./status";
import { theme } from "./theme";

// The endpoints of the page that a component is in.
export const Server = createContext<Endpoints>({});

// Returns `ask(name, data)`, which resolves to an endpoint's answer, or to null if that failed; `error` then says why,
// until the next question, or with `alone` the next of its name: what nobody asked for hides no error of others, and
// fails in silence once it was asked anew. Show the error where the user is looking, by `<ErrorNote>`.
export function useServer() {
  const server = useContext(Server);
  const [failed, setFailed] = useState(NOTHING_FAILED);
  const latest = useRef<Record<string, object>>({}); // of each name, the data of the last question
  const setError = useCallback((error: string) => setFailed({ name: "", error }), []);
  const ask = useCallback(
    async (name: string, data = {}, alone = false) => {
      setFailed((before) => (alone && before.name !== name ? before : NOTHING_FAILED));
      latest.current[name] = data;
      try {
        return await answered(server[name](data));
      } catch (failure) {
        if (!alone || latest.current[name] === data) setFailed({ name, error: reason(failure) });
        return null;
      }
    },
    [server],
  );
  useBack(() => setFailed((before) => (before.error === LOST ? NOTHING_FAILED : before)));
  return { ask, error: failed.error, setError, server };
}

const NOTHING_FAILED = { name: "", error: "" };

// Asks an endpoint when the component is first shown, and again if that failed and the app is back. With `shown`, whether
// the page is, asks each time that it is shown or the app is back. `answer` is null until then; `refresh()` asks again.
// `act(name, data)` asks an endpoint that changes it and answers the same; returns whether that succeeded.
export function useAnswer<Answer extends object>(name: string, shown?: boolean) {
  const { ask, error, setError } = useServer();
  const [answer, setAnswer] = useState<Answer | null>(null);
  const refresh = useCallback(async () => {
    const fresh = await ask(name, {}, true);
    if (fresh !== null) setAnswer(fresh);
  }, [ask, name]);
  useEffect(() => {
    if (shown === false) return;
    setError(""); // of what was asked when the page was shown before
    refresh();
  }, [shown, refresh]);
  useBack(() => void ((shown ?? answer === null) && refresh()));
  const act = async (changing: string, data: object = {}) => {
    const fresh = await ask(changing, data);
    setAnswer((before) => fresh ?? (before && { ...before })); // refused: controls show again what is stored
    return Boolean(fresh);
  };
  return { ask, act, answer, setAnswer, error, setError, refresh };
}

export type Ask = (name: string, data?: object, alone?: boolean) => Promise<any>;

// Asks whenever `inputs` change, which are compared one by one, and when the app is back. Returns the answer to the last
// question that was answered, null before the first.
export function useFound<T>(ask: Ask, name: string, data: object, inputs: unknown[], wanted = true): T | null {
  const [found, setFound] = useState<T | null>(null);
  const [backs, setBacks] = useState(0);
  useBack(() => setBacks(backs + 1));
  useEffect(() => {
    let latest = true;
    if (wanted) ask(name, data, true).then((answer) => answer && latest && setFound(answer));
    return () => void (latest = false);
  }, [...inputs, wanted, backs]);
  return found;
}

// Calls `act` once, `wait` ms after the component is drawn, and anew whenever `inputs` change; never without a `wait`.
export function useTimer(wait: number | false | null | undefined | "", act: () => void, inputs: unknown[]) {
  useEffect(() => {
    if (!wait) return;
    const timer = setTimeout(act, wait);
    return () => clearTimeout(timer);
  }, inputs);
}

// Calls `act` when the app answers again.
export function useBack(act: () => void) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => status.contact.watch((gone) => gone || latest.current()), []);
}

// Listens to an event as long as the component is shown.
export function useListener(target: EventTarget, type: string, act: (event: any) => void) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const listen = (event: Event) => latest.current(event);
    target.addEventListener(type, listen);
    return () => target.removeEventListener(type, listen);
  }, [target, type]);
}

// Calls `act` when something outside of a node is pressed; what lies in front of the page counts as inside.
export function useOutside(node: RefObject<Element | null>, act: () => void) {
  useListener(document, "pointerdown", ({ target }) => {
    if (!node.current?.contains(target) && !target.closest("[popover]")) act();
  });
}

// Returns a listener of keys that calls `act` for Escape, and keeps Escape from what is behind.
export const onEscape = (act: () => void) => (event: KeyboardEvent) => {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  act();
};

export const useStatus = () => useWatched(status, () => status.latest); // null until the first answer
export const usePage = () => useWatched(address, () => address.page); // the name of the page that is shown
export const useDark = () => useWatched(theme, () => theme.dark); // whether the dark theme is shown

// Returns whether a media query holds.
export function useMedia(query: string) {
  const media = useMemo(() => matchMedia(query), [query]);
  const [holds, setHolds] = useState(media.matches);
  useListener(media, "change", () => setHolds(media.matches));
  return holds;
}

let count = 0;

// Returns an id that no other component of the document has; Preact's `useId` counts for each page anew.
export function useUniqueId() {
  return useState(() => `ft-${(count += 1)}`)[0];
}
