// The clock of a replay, one for each or for several side by side, and its controls.

import { h } from "../dom.js";
import { say } from "./words.js";

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const LONGEST = 250; // ms that one frame may advance; a hidden page has no frames

export class Clock {
  constructor() {
    this.time = 0; // seconds of the reply
    this.duration = 0;
    this.speed = 1;
    this.playing = false;
    this.steps = []; // sorted times that one steps between
    this.watchers = new Set();
  }

  // Calls `f` now and at each change. Returns a function that ends this.
  watch(f) {
    this.watchers.add(f);
    f(this);
    return () => this.watchers.delete(f);
  }

  tell() {
    for (const f of this.watchers) f(this);
  }

  // Loads the timelines to play, at their beginning or end.
  load(timelines, { atEnd = false } = {}) {
    this.pause();
    this.duration = Math.max(0, ...timelines.map((each) => each.duration));
    this.steps = [...new Set(timelines.flatMap((each) => each.seconds))].sort((a, b) => a - b);
    this.time = atEnd ? this.duration : 0;
    this.tell();
  }

  seek(time) {
    this.time = Math.min(Math.max(0, time), this.duration);
    this.tell();
  }

  // Seeks the next time of `steps`, or the one before.
  step(by) {
    this.pause();
    const { steps, time } = this;
    const next = by > 0 ? steps.find((each) => each > time) : steps.findLast((each) => each < time);
    if (next !== undefined) this.seek(next);
  }

  setSpeed(speed) {
    this.speed = speed;
    this.tell();
  }

  play() {
    if (this.playing || !this.duration) return;
    if (this.time >= this.duration) this.time = 0;
    this.playing = true;
    this.last = null;
    const frame = (now) => {
      if (!this.playing) return;
      if (this.last !== null) this.time += (Math.min(now - this.last, LONGEST) / 1000) * this.speed;
      this.last = now;
      if (this.time >= this.duration) [this.time, this.playing] = [this.duration, false];
      this.tell();
      if (this.playing) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    this.tell();
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.tell();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }
}

const keys = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };

// The controls of a clock: play, step, speed, and a scrubber that arrow keys move round by round.
export class Transport {
  // `place` returns the text for the clock's position; by default its time.
  constructor(clock, place = () => say.time(clock.time, clock.duration)) {
    this.clock = clock;
    this.place = place;
    const button = (name, sign, f) => h("button", { class: "transport-button", type: "button", dataset: { transport: name }, title: say[name], "aria-label": say[name], on: { click: f } }, sign);
    this.play = button("play", "▶", () => clock.toggle());
    this.range = h("input", { type: "range", class: "scrubber", min: "0", step: "any", "aria-label": say.place });
    this.range.addEventListener("input", () => {
      clock.pause();
      clock.seek(Number(this.range.value));
    });
    this.told = h("output", { class: "place-told", "aria-live": "off" });
    const speed = h("select", { class: "replay-speed", "aria-label": say.speed }, ...SPEEDS.map((each) => h("option", { value: String(each) }, say.times(each))));
    speed.value = String(clock.speed);
    speed.addEventListener("change", () => clock.setSpeed(Number(speed.value)));
    this.node = h("div", { class: "transport", role: "group", "aria-label": say.replay },
      button("first", "«", () => (clock.pause(), clock.seek(0))),
      button("before", "‹", () => clock.step(-1)),
      this.play,
      button("next", "›", () => clock.step(1)),
      this.range, speed, this.told);
    this.node.addEventListener("keydown", (event) => this.key(event));
    clock.watch(() => this.draw());
  }

  key(event) {
    const own = event.target === this.range;
    if (own && event.key in keys) this.clock.step(keys[event.key]);
    else if (own && event.key === "Home") this.clock.seek(0);
    else if (own && event.key === "End") this.clock.seek(this.clock.duration);
    else if (own && event.key === " ") this.clock.toggle();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  draw() {
    const { clock } = this;
    const name = clock.playing ? say.pause : say.play;
    if (this.play.title !== name) {
      this.play.title = name;
      this.play.setAttribute("aria-label", name);
      this.play.textContent = clock.playing ? "❚❚" : "▶";
    }
    this.range.max = String(clock.duration);
    this.range.value = String(clock.time);
    this.range.disabled = !clock.duration;
    const told = this.place();
    if (this.told.textContent !== told) {
      this.told.textContent = told;
      this.range.setAttribute("aria-valuetext", told);
    }
  }
}
