// The controls of a clock: play, step, speed, and a scrubber that arrow keys move round by round.

import { fixed } from "../format";
import { ChevronLeft, ChevronRight, type IconNode, Pause, Play, SkipBack } from "lucide";
import { Button } from "../components/button";
import { useChanges, Watched } from "../store";
import type { Timeline } from "./timeline";

const STEPS: Record<string, number> = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };

// `told` returns the text for the clock's position; by default its time.
type TransportProps = { clock: Clock; told?: () => string };
export function Transport({
  clock,
  told = () => `${fixed(clock.time)} of ${fixed(clock.duration)} s`,
}: TransportProps) {
  useChanges(clock);
  const toggle = () => (clock.playing ? clock.pause() : clock.play());
  const seek = (time: number) => {
    clock.pause();
    clock.seek(time);
  };
  const key = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    if (step) clock.step(step);
    else if (event.key === "Home") clock.seek(0);
    else if (event.key === "End") clock.seek(clock.duration);
    else if (event.key === " ") toggle();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const button = (name: string, label: string, icon: IconNode, act: () => void) => (
    <Button
      small
      icon={icon}
      label={label}
      data-transport={name}
      kind={icon === Play || icon === Pause ? "primary" : undefined}
      onClick={act}
    />
  );
  const text = told();
  return (
    <div class="transport ft-row" role="group" aria-label="Replay">
      {button("first", "To the start", SkipBack, () => seek(0))}
      {button("before", "Previous round", ChevronLeft, () => clock.step(-1))}
      {clock.playing ? button("play", "Pause", Pause, toggle) : button("play", "Play", Play, toggle)}
      {button("next", "Next round", ChevronRight, () => clock.step(1))}
      <input
        type="range"
        class="scrubber"
        min="0"
        step="any"
        aria-label="Position"
        aria-valuetext={text}
        max={clock.duration}
        value={clock.time}
        disabled={!clock.duration}
        onInput={(event) => seek(event.currentTarget.valueAsNumber)}
        onKeyDown={key}
      />
      <select
        class="replay-speed"
        aria-label="Speed"
        value={String(clock.speed)}
        onChange={(event) => clock.setSpeed(Number(event.currentTarget.value))}>
        {SPEEDS.map((each) => (
          <option key={each} value={String(each)} selected={each === clock.speed}>
            {each}x
          </option>
        ))}
      </select>
      <output class="place-told ft-fine" aria-live="off">
        {text}
      </output>
    </div>
  );
}

// ---- the clock of a replay, one for each or for several side by side

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
