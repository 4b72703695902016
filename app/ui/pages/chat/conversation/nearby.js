// Which messages of a long conversation are drawn: those near what is seen. The others are their text alone, at the
// height that they had, so that hundreds of messages cost little more than a few, and can be searched and copied all
// the same.

import { firstIndex } from "../../../shared/dom.js";

const DRAWN = 1; // heights of the view, above and below it, in which messages are drawn
const KEPT = 2; // and in which they stay so
const TOGETHER = 24; // messages that are far are made anew so many at a time

export class Nearby {
  // `messages()` are those of the conversation, in order; `follow` keeps `scroller` at its end.
  constructor(scroller, follow, messages) {
    this.scroller = scroller;
    this.follow = follow;
    this.messages = messages;
    this.drawn = new Set();
    this.width = null;
    scroller.addEventListener("scroll", () => this.look(), { passive: true });
    new ResizeObserver(() => this.resized()).observe(scroller);
  }

  // One that is to be drawn wherever it is.
  draw(message) {
    message.draw();
    this.drawn.add(message);
  }

  // It is no longer in the conversation.
  forget(message) {
    if (!this.drawn.delete(message)) return;
    message.empty();
    message.drawn = false;
  }

  // Draws what is near by now, and lets go of what is far; what is seen stays where it is.
  look() {
    const { top, height } = this.scroller.getBoundingClientRect();
    if (!height) return; // another page is shown
    const fresh = this.between(top - DRAWN * height, top + height + DRAWN * height).filter((each) => !each.drawn);
    const old = [...this.drawn].filter((each) => !each.held).map((each) => [each, each.node.getBoundingClientRect()])
      .filter(([, rect]) => rect.bottom < top - KEPT * height || rect.top > top + height + KEPT * height);
    if (!fresh.length && !old.length) return;
    const [seen] = this.between(top, top + height);
    const stood = seen?.node.getBoundingClientRect().top;
    for (const [message, rect] of old) {
      message.rest(rect.height);
      this.drawn.delete(message);
    }
    this.gather();
    for (const message of fresh) this.draw(message);
    if (this.follow.stuck) return void this.follow.grown();
    const moved = seen ? seen.node.getBoundingClientRect().top - stood : 0;
    if (Math.abs(moved) >= 1) this.scroller.scrollTop += moved;
  }

  // Chromium never moves what a page holds, and keeps each piece of memory in which something lives. What is left of a
  // message lies among all that was made and thrown away while it was written; made anew together with others, it lies
  // beside them (docs/log/page.md).
  gather() {
    const scattered = this.messages().filter((message) => message.scattered);
    if (scattered.length < TOGETHER || !getSelection().isCollapsed) return;
    for (const message of scattered) message.renew();
  }

  // The messages that reach into this stretch of the window.
  between(from, to) {
    const all = this.messages();
    const first = firstIndex(all.length, (i) => all[i].node.getBoundingClientRect().bottom >= from);
    let end = first;
    while (end < all.length && all[end].node.getBoundingClientRect().top <= to) end += 1;
    return all.slice(first, end);
  }

  // Heights that messages had are of another width.
  resized() {
    const { clientWidth } = this.scroller;
    if (clientWidth && clientWidth !== this.width) {
      if (this.width !== null) for (const message of this.messages()) if (!message.drawn) message.node.style.height = "";
      this.width = clientWidth;
    }
    this.look();
  }
}
