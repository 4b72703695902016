// The controls of a clock: play, step, speed, and a scrubber that arrow keys move round by round.

import { h } from "../dom.js";
import { SPEEDS } from "./clock.js";
import { say } from "./words.js";

const keys = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };

export class Transport {
  // `place` says where the clock stands, for people; without it, its time.
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
