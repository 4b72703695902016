// A state beside the components: they draw it, and call the methods that change it.

import { Component, h, type ComponentType } from "preact";
import { useChanges, Watched } from "./watched";

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
