// What is loaded and being loaded, polled once for all pages, more often while something changes. It also notices that
// the app does not answer, and polls until it does.

import { Watched } from "../store";
import { answered } from "./server";

// How far a load is; `share` is from 0 to 1.
export interface Progress {
  doing: string | null;
  share: number | null;
  done: string;
  total: string;
  speed?: string;
  eta?: string;
}

// What StatusBackend.status answers.
export interface Status {
  loaded: any; // the loaded pair, or null
  unloaded?: string | null; // what was unloaded
  opening: string | null; // what is being loaded
  progress: Progress | null; // of that load
  cancelling: boolean;
  loads: number; // counts loads that ended
  waits: boolean; // messages wait for a load
  failed: string | null; // why the last load failed, or what it changed
  settings: number; // counts changes of settings
  written: any; // counts messages that were written
  found: number; // counts changes of the list of models
  looking: boolean; // models are being searched for
}

const REFUSALS = 3; // so many in a row are no coincidence
const EVERY_MS = 5000; // while the page is visible, to notice other pages' loads and an app that ended

// Returns a key of a loaded pair and its proposers; names are not unique.
export const pairKey = (loaded: any) => loaded && JSON.stringify([loaded.target, loaded.draft, loaded.proposers]);

class StatusFeed extends Watched<[status: Status]> {
  // Tells whether the app does not answer, and then whether only reloading the page helps.
  contact = new Watched<[gone: boolean, stale?: boolean]>();
  ask: ((data: object) => Promise<Status>) | null = null;
  latest: Status | null = null;
  away = false;
  asking = false;
  again = false;
  refusals = 0; // health checks that succeeded while this page got no answer
  timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    super();
    window.addEventListener("focus", () => this.refresh());
    window.addEventListener("online", () => this.refresh());
    document.addEventListener("visibilitychange", () => !document.hidden && this.refresh());
    window.addEventListener("foretoken-away", () => !this.away && !this.asking && this.refresh());
  }

  begin(ask: (data: object) => Promise<Status>) {
    this.ask = ask;
    this.refresh();
  }

  // Calls `f` with the latest status too.
  watch(f: (status: Status) => void) {
    if (this.latest) f(this.latest);
    return super.watch(f);
  }

  async refresh() {
    clearTimeout(this.timer);
    if (!this.ask) return;
    if (this.asking) return void (this.again = true); // the answer on its way may be outdated
    this.asking = true;
    this.again = false;
    let latest: Status;
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
    const there = await fetch("/health", { cache: "no-store" }).then(
      (reply) => reply.ok,
      () => false,
    );
    this.refusals = there ? this.refusals + 1 : 0;
    if (this.refusals === REFUSALS) this.contact.tell(true, true);
  }

  setAway(away: boolean) {
    if (away === this.away) return;
    this.away = away;
    this.contact.tell(away);
  }

  tell(latest: Status) {
    const same = JSON.stringify(latest) === JSON.stringify(this.latest);
    this.latest = latest;
    if (!same) super.tell(latest);
    clearTimeout(this.timer);
    const again = latest.opening ? 350 : latest.looking ? 1000 : document.hidden ? null : EVERY_MS;
    if (again) this.timer = setTimeout(() => this.refresh(), again);
  }
}

export const status = new StatusFeed();
