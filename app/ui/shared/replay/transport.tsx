// The controls of a clock: play, step, speed, and a scrubber that arrow keys move round by round.

import { ChevronLeft, ChevronRight, Pause, Play, SkipBack, type IconNode } from "lucide";
import { Button } from "../components/button";
import { SPEEDS, type Clock } from "./clock";
import { words } from "./words";
import { useChanges } from "../watched";

const STEPS: Record<string, number> = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };

// `told` returns the text for the clock's position; by default its time.
type TransportProps = { clock: Clock; told?: () => string };
export function Transport({ clock, told = () => words.time(clock.time, clock.duration) }: TransportProps) {
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
  const button = (name: "first" | "before" | "play" | "pause" | "next", icon: IconNode, act: () => void) => (
    <Button
      small
      icon={icon}
      label={words[name]}
      data-transport={name === "pause" ? "play" : name}
      kind={icon === Play || icon === Pause ? "primary" : undefined}
      onClick={act}
    />
  );
  const text = told();
  return (
    <div class="transport ft-row" role="group" aria-label={words.replay}>
      {button("first", SkipBack, () => seek(0))}
      {button("before", ChevronLeft, () => clock.step(-1))}
      {clock.playing ? button("pause", Pause, toggle) : button("play", Play, toggle)}
      {button("next", ChevronRight, () => clock.step(1))}
      <input
        type="range"
        class="scrubber"
        min="0"
        step="any"
        aria-label={words.place}
        aria-valuetext={text}
        max={clock.duration}
        value={clock.time}
        disabled={!clock.duration}
        onInput={(event) => seek(event.currentTarget.valueAsNumber)}
        onKeyDown={key}
      />
      <select
        class="replay-speed"
        aria-label={words.speed}
        value={String(clock.speed)}
        onChange={(event) => clock.setSpeed(Number(event.currentTarget.value))}>
        {SPEEDS.map((each) => (
          <option key={each} value={String(each)} selected={each === clock.speed}>
            {words.times(each)}
          </option>
        ))}
      </select>
      <output class="place-told ft-fine" aria-live="off">
        {text}
      </output>
    </div>
  );
}
