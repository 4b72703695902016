// What others watch: they are called at each change.

import { useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";

export class Watched<News extends unknown[] = []> {
  watchers = new Set<(...news: News) => void>();

  // Calls `f` at each change. Returns a function that ends this.
  watch(f: (...news: News) => void) {
    this.watchers.add(f);
    return () => void this.watchers.delete(f);
  }

  tell(...news: News) {
    for (const f of this.watchers) f(...news);
  }
}

type Source = { watch: (f: () => void) => () => void };

// Returns what `read` gives; the component is drawn again when that changes.
export function useWatched<T>(source: Source, read: () => T): T {
  const latest = useRef(read);
  latest.current = read;
  const [, setShown] = useState(read);
  useEffect(() => source.watch(() => setShown(latest.current())), [source]);
  return read();
}

// Draws the component again at each change.
export function useChanges(source: Source) {
  const [, draw] = useReducer((n: number) => n + 1, 0);
  useLayoutEffect(() => {
    const again = () => draw(undefined);
    again(); // it may have changed since it was drawn
    return source.watch(again);
  }, [source]);
}
