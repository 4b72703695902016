// What the race, tune and train pages share: form fields, and following a measurement.

import { linked } from "../addresses.js";
import { h } from "../dom.js";
import { follow } from "../feed.js";
import { Page } from "../frame/pages.js";
import { answered, away, reason } from "../frame/server.js";
import { pairKey, status } from "../frame/status.js";
import { words } from "../words.js";

const PROPOSED = "foretoken-race";

export const field = (label, control, more = "") => h("label", { class: `field ${more}` }, h("span", {}, label), control);

export const select = (name, options, value, more = {}) =>
  h("select", { name, ...more }, ...options.map(([each, text]) => h("option", { value: each, selected: each === value }, text)));

// Makes a choice card: `type` is radio or checkbox.
export const choice = (type, name, value, title, hint, more = {}) =>
  h("label", { class: "choice-card" }, h("input", { type, name, value, ...more }), h("span", {}, h("b", {}, title), hint ? h("span", { class: "hint" }, hint) : null));

// A page that measures what its form says and shows how far it is. It has draw(offer), asked() for what the form says,
// and advance(events, stats).
export class MeasuringPage extends Page {
  constructor(server, kind, say) {
    super(server);
    this.following = new Following(server, (events, stats) => this.advance(events, stats), (text) => this.fail(text), () => this.begin());
    const label = typeof say.start === "function" ? say.start(null) : say.start;
    this.form = h("form", { class: kind === "race" ? "panel race-form" : "panel", "aria-label": label, on: { submit: (event) => (event.preventDefault(), this.start()) } });
    this.now = h("span", { class: `${kind}-now` });
    this.bar = h("progress", { max: 1, "aria-label": label });
    this.stop = h("button", { class: "ft-button", type: "button", dataset: { act: "stop" }, on: { click: () => answered(server.stop({})) } }, say.stop);
    this.underWay = h("div", { class: "under-way", hidden: true }, this.now, h("span", { class: "grow" }), this.stop, this.bar);
  }

  back() {
    return this.following.back();
  }

  start() {
    this.fail("");
    return this.following.start(this.server.start(this.asked()), () => this.begin());
  }

  begin() {
    this.running = true;
    this.fail("");
    this.result.hidden = true;
    this.verdict.textContent = this.now.textContent = "";
    this.bar.removeAttribute("value");
    this.rested();
  }

  // Shows and enables what goes with a measurement that runs, or with none.
  rested() {
    this.underWay.hidden = !this.running;
    const start = this.form.querySelector("[data-act=start]");
    if (start) start.disabled = Boolean(this.running);
  }

  fail(text) {
    this.alert.replaceChildren(...linked(text));
    this.alert.hidden = !text;
  }
}

// Draws the offer of Python: again for each pair that is loaded, when the app answers again, and each time the page
// becomes visible until the user has chosen something, because it depends on the chats and their settings. Follows a
// measurement that runs. `page` has a `form`, its `following`, draw(offer) and begin().
export function followOffers(page, server) {
  let pair; // the pair of the last status; undefined before the first
  let drawn; // what the drawn offer says of its pair
  let [touched, seen] = [false, false];
  const pairOf = ({ loaded, methods }) => JSON.stringify([loaded, methods]);
  const refresh = async (kept = () => false) => {
    let offer;
    try {
      offer = await answered(server.offer({}));
    } catch {
      return; // the app does not answer; the next look at the page tries again
    }
    if (!kept(offer)) {
      page.draw(offer);
      drawn = pairOf(offer);
    }
    touched ||= Boolean(offer.asked); // it shows what runs, and must not change at its end
    if (!offer.number || offer.number === page.following.number) return;
    page.begin();
    page.following.watch(offer.number);
  };
  const again = () => seen && !touched && pair !== undefined && refresh(() => touched); // the user may choose during the request
  status.watch(({ loaded }) => {
    const now = pairKey(loaded);
    if (now === pair) return;
    const first = pair === undefined; // the user may have chosen before this first answer
    pair = now;
    // An offer may be ahead of the status: what was chosen for this very pair stays.
    refresh((offer) => touched && (first || pairOf(offer) === drawn));
  }, server.status);
  page.form.addEventListener("input", () => (touched = true));
  new IntersectionObserver((entries) => ((seen = entries.at(-1).isIntersecting), again())).observe(page.form);
  status.watchAway((gone) => !gone && again());
}

// Proposes a race from another page: `race` is {rival, base: names of methods, place: what the base runs on, or null for
// the loaded pair}.
export const propose = (race) => window.dispatchEvent(new CustomEvent(PROPOSED, { detail: race }));
export const onProposed = (f) => window.addEventListener(PROPOSED, ({ detail }) => f(detail));

// Follows measurements by their numbers; a page that was reloaded follows the last one.
export class Following {
  // `onEvents(events, stats, done)`, `onError(text)`; `begin()` clears the page for a measurement.
  constructor(server, onEvents, onError, begin) {
    this.server = server;
    this.onEvents = onEvents;
    this.onError = onError;
    this.begin = begin;
    this.number = null;
    this.lost = false; // whether the app stopped answering meanwhile
  }

  // Follows the measurement again from its beginning once the app answers.
  back() {
    if (!this.lost) return;
    this.begin();
    this.watch(this.number);
  }

  // Starts a measurement. Returns false, and shows why, if it was refused.
  async start(question, onStart) {
    try {
      const { number } = await answered(question);
      onStart();
      this.watch(number);
      return true;
    } catch (error) {
      this.onError(reason(error));
      return false;
    }
  }

  async watch(number) {
    this.number = number;
    this.lost = false;
    const take = (events, stats, done, gone) => {
      // The app was restarted and does not know it.
      this.onEvents(gone ? [{ t: "broken", message: words.measurementGone }] : events, stats, done);
    };
    try {
      await follow((from) => this.server.follow({ number, from }), () => this.number === number, take);
    } catch (error) {
      this.lost = away(error) && this.number === number;
      this.onError(reason(error));
      if (this.lost && !status.away) this.back(); // it answered again before this gave up
    }
  }
}
