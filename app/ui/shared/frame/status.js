// What is loaded and being loaded, polled once for all pages, more often while something changes. It also notices that
// the app does not answer, and polls until it does.

import { answered } from "./server.js";

const REFUSALS = 3; // so many in a row are no coincidence
const EVERY_MS = 5000; // while the page is visible, to notice other pages' loads and an app that ended

// Returns a key of a loaded pair and its proposers; names are not unique.
export const pairKey = (loaded) => loaded && JSON.stringify([loaded.target, loaded.draft, loaded.proposers]);

class Status {
  constructor() {
    this.ask = null;
    this.latest = null;
    this.away = false;
    this.refusals = 0; // health checks that succeeded while this page got no answer
    this.watchers = [];
    this.awayWatchers = [];
    this.timer = null;
    window.addEventListener("focus", () => this.refresh());
    window.addEventListener("online", () => this.refresh());
    document.addEventListener("visibilitychange", () => !document.hidden && this.refresh());
    window.addEventListener("foretoken-away", () => !this.away && !this.asking && this.refresh());
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

  // `f` is called with true when the app does not answer, and with false when it does again; with true twice where
  // only loading the page anew helps.
  watchAway(f) {
    this.awayWatchers.push(f);
  }

  async refresh() {
    clearTimeout(this.timer);
    if (!this.ask) return;
    if (this.asking) return void (this.again = true); // the answer on its way may be outdated
    this.asking = true;
    this.again = false;
    let latest;
    try {
      latest = await answered(this.ask({}));
    } catch {
      this.timer = setTimeout(() => this.refresh(), 1500);
      this.setAway(true);
      return void this.knock();
    } finally {
      this.asking = false;
    }
    this.refusals = 0;
    this.tell(latest);
    this.setAway(false);
    if (this.again) this.refresh();
  }

  // Checks whether the app answers, but not to this page: it is of another version, or has to log in again.
  async knock() {
    const there = await fetch("/health", { cache: "no-store" }).then((reply) => reply.ok, () => false);
    this.refusals = there ? this.refusals + 1 : 0;
    if (this.refusals === REFUSALS) for (const f of this.awayWatchers) f(true, true);
  }

  setAway(away) {
    if (away === this.away) return;
    this.away = away;
    for (const f of this.awayWatchers) f(away);
  }

  tell(latest) {
    const same = JSON.stringify(latest) === JSON.stringify(this.latest);
    this.latest = latest;
    if (!same) for (const f of this.watchers) f(latest);
    clearTimeout(this.timer);
    const again = latest.opening ? 350 : latest.looking ? 1000 : document.hidden ? null : EVERY_MS;
    if (again) this.timer = setTimeout(() => this.refresh(), again);
  }
}

export const status = new Status();
