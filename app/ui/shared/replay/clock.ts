// The clock of a replay, one for each or for several side by side.

import { Watched } from "../watched";
import type { Timeline } from "./timeline";

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const ROUNDING = 1e-6; // seconds
const LONGEST = 250; // ms that one frame may advance; a hidden page has no frames

export class Clock extends Watched {
  time = 0; // seconds of the reply
  duration = 0;
  speed = 1;
  playing = false;
  steps: number[] = []; // sorted times that one steps between

  // Loads the timelines to play, at their beginning or end.
  load(timelines: Timeline[], { atEnd = false } = {}) {
    this.playing = false;
    this.duration = Math.max(0, ...timelines.map((each) => each.duration));
    this.steps = [...new Set(timelines.flatMap((each) => each.seconds))].sort((a, b) => a - b);
    this.time = atEnd ? this.duration : 0;
    this.tell();
  }

  seek(time: number) {
    // A slider rounds its last place.
    this.time = time > this.duration - ROUNDING ? this.duration : Math.max(0, time);
    this.tell();
  }

  // Seeks the next time of `steps`, or the one before, and pauses.
  step(by: number) {
    const { steps, time } = this;
    const next = by > 0 ? steps.find((each) => each > time) : steps.findLast((each) => each < time);
    this.playing = false;
    this.seek(next ?? time);
  }

  setSpeed(speed: number) {
    this.speed = speed;
    this.tell();
  }

  play() {
    if (this.playing || !this.duration) return;
    if (this.time >= this.duration) this.time = 0;
    this.playing = true;
    let last: number | null = null;
    const frame = (now: number) => {
      if (!this.playing) return;
      if (last !== null) this.time += (Math.min(now - last, LONGEST) / 1000) * this.speed;
      last = now;
      if (this.time >= this.duration) [this.time, this.playing] = [this.duration, false];
      this.tell();
      if (this.playing) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    this.tell();
  }

  pause() {
    this.playing = false;
    this.tell();
  }
}
