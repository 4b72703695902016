// Follows a feed of events in Python by polling.
//
// Nothing of this passes through Gradio's own page state, which visits every control of the page
// with every update it is given.

import { answered } from "./frame/server.js";

const period = 1000 / 30; // the least time between two updates
const pause = (ms) => new Promise((done) => setTimeout(done, Math.max(0, ms)));

// `next(from)` answers with {events, stats, done}, or null for a feed that is gone; polling ends when `wanted()` is
// false. `onEvents(events, stats, done, gone)` gets each event once, in order. Throws if the app stops answering.
export async function follow(next, wanted, onEvents) {
  let from = 0;
  let failures = 0;
  while (wanted()) {
    const asked = performance.now();
    let packet;
    try {
      packet = await answered(next(from));
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
