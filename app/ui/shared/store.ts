// What others watch: they are called at each change; and states beside the components, which draw them.

import { Component, type ComponentType, h } from "preact";
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

export class Store<State extends object> extends Watched {
  constructor(public state: State) {
    super();
  }

  set(change: Partial<State>) {
    this.state = { ...this.state, ...change };
    this.tell();
  }
}

// Returns the state of a store; the component is drawn again when it changes.
export function useStore<State extends object>(store: Store<State>): State {
  useChanges(store);
  return store.state;
}

// Returns a component that is drawn again only if a property changed.
export function memo<Props extends object>(Drawn: (props: Props) => any): ComponentType<Props> {
  return class extends Component<Props> {
    shouldComponentUpdate(next: any) {
      const now: any = this.props;
      return Object.keys({ ...now, ...next }).some((name) => now[name] !== next[name]);
    }

    render() {
      return h(Drawn as any, this.props);
    }
  };
}
