// One generation's events as they arrive, each handed on exactly once and in order.
//
// The page gets a packet whenever the component's value changes; two changes within one frame are
// seen as one. A packet says where it begins, so a missing stretch is noticed and asked for.

export class Feed {
  constructor(missing, onEvents) {
    this.next = 0;
    this.done = false;
    this.asking = false;
    this.missing = missing; // (from) -> Promise<packet>
    this.onEvents = onEvents; // (events, stats, done)
  }

  receive(packet) {
    if (this.done) return;
    if (packet.from > this.next) return void this.ask();
    const fresh = packet.events.slice(this.next - packet.from);
    if (!fresh.length && !packet.done) return;
    this.next += fresh.length;
    this.done = packet.done;
    this.onEvents(fresh, packet.stats, packet.done);
  }

  async ask() {
    if (this.asking) return;
    this.asking = true;
    try {
      const packet = await this.missing(this.next);
      if (packet) this.receive(packet);
    } finally {
      this.asking = false;
    }
  }
}
