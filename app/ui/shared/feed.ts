// Follows a feed of events in Python by polling.
//
// Nothing of this passes through Gradio's own page state, which visits every control of the page
// with every update it is given.

import { answered } from "./frame/server";

const period = 1000 / 12; // the least time between two updates; they take the processor that the engine writes on
const pause = (ms: number) => new Promise((done) => setTimeout(done, Math.max(0, ms)));

type Packet = { events: any[]; stats: any; done: boolean };

// Follows a feed until its end, or until `wanted` is false. Throws if the app stops answering.
// `next` answers with null for a feed that is gone; `onEvents` gets each event once, in order.
export async function follow(
  next: (from: number) => Promise<Packet | null>,
  wanted: () => boolean,
  onEvents: (events: any[], stats: any, done: boolean, gone?: boolean) => void,
) {
  let from = 0;
  let failures = 0;
  while (wanted()) {
    const asked = performance.now();
    let packet: Packet | null;
    try {
      packet = await answered(next(from) as Promise<Packet | null>);
      failures = 0;
    } catch (error) {
      failures += 1;
      if (failures > 5) throw error;
      await pause(400 * failures);
      continue;
    }
    if (!wanted()) return;
    if (packet === null) return void onEvents([], null, true, true);
    from += packet.events.length;
    onEvents(packet.events, packet.stats, packet.done);
    if (packet.done) return;
    await pause(period - (performance.now() - asked));
  }
}
