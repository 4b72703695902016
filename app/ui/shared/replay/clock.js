// The clock of a replay: one for each, or one for several that are seen side by side.

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const LONGEST = 250; // ms that one frame may move it by: a hidden page has no frames

export class Clock {
  constructor() {
    this.time = 0; // seconds of the reply
    this.duration = 0;
    this.speed = 1;
    this.playing = false;
    this.steps = []; // sorted times that one steps between
    this.watchers = new Set();
  }

  // Calls `f` whenever something changed, and now. Returns what ends that.
  watch(f) {
    this.watchers.add(f);
    f(this);
    return () => this.watchers.delete(f);
  }

  tell() {
    for (const f of this.watchers) f(this);
  }

  // What is to be played: the timelines of one reply or of several, from their beginning or at their end.
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

  // To the next time of `steps`, or the one before.
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
