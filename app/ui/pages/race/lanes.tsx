// Both sides of a race while they write: name, speed and reply.

import { ReplyBody } from "../../shared/reply_body";
import { speed } from "../../shared/format";
import { SIDES, type Race } from "./state";
import { words } from "./words";
import type { Stats } from "../../shared/figures/figures";

const scrollToEnd = ({ parentElement: frame }: HTMLElement) => frame && (frame.scrollTop = frame.scrollHeight);

export function Lanes({ race, stats }: { race: Race; stats: Record<string, Stats> | null }) {
  return (
    <div class="race-lanes">
      {SIDES.map((side, i) => {
        const { state, replies } = race.lanes[side];
        return (
          <section key={side} class="race-lane ft-box" data-lane={side} data-state={state}>
            <header class="ft-row">
              <h3>{race.names[i]}</h3>
              <span class="ft-hint">{words.lane[state]}</span>
              <b class="lane-speed">{speed(stats?.[side]?.tokens_per_s)}</b>
              <span class="ft-hint">{words.speed}</span>
            </header>
            <div class="lane-text ft-stack" tabIndex={0} role="group" aria-label={race.names[i]}>
              {replies.map((reply, turn) => (
                <ReplyBody key={`${race.run?.pair} ${turn}`} reply={reply} onDrawn={scrollToEnd} />
              ))}
            </div>
          </section>
        );
      })}
    </div>
  );
}
