// What is loaded and being opened: asked once for all pages, often only while something changes.

import { answered } from "./server.js";

class Status {
  constructor() {
    this.ask = null;
    this.latest = null;
    this.watchers = [];
    this.timer = null;
    window.addEventListener("focus", () => this.refresh());
  }

  // `f` is called with every new status; `ask` is any component's server function.
  watch(f, ask) {
    this.watchers.push(f);
    if (this.latest) f(this.latest);
    if (!this.ask) {
      this.ask = ask;
      this.refresh();
    }
  }

  async refresh() {
    clearTimeout(this.timer);
    try {
      this.tell(await answered(this.ask({})));
    } catch {
      this.timer = setTimeout(() => this.refresh(), 3000);
    }
  }

  tell(latest) {
    const same = JSON.stringify(latest) === JSON.stringify(this.latest);
    this.latest = latest;
    if (!same) for (const f of this.watchers) f(latest);
    clearTimeout(this.timer);
    const again = latest.opening ? 350 : latest.looking ? 1000 : null;
    if (again) this.timer = setTimeout(() => this.refresh(), again);
  }
}

export const status = new Status();
