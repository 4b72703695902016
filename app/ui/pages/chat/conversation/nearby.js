// Draws only the messages near the view. The others keep their text, at the height they had, so that hundreds of
// messages cost little more than a few and can still be searched and copied.

import { firstIndex } from "../../../shared/dom.js";

const DRAWN = 1; // messages are drawn within so many heights of the view above and below it
const KEPT = 2; // and stay drawn within so many
const TOGETHER = 24; // how many far messages are copied at a time

export class Nearby {
  // `messages()` returns those of the conversation, in order; `follow` keeps `scroller` at its end.
  constructor(scroller, follow, messages) {
    this.scroller = scroller;
    this.follow = follow;
    this.messages = messages;
    this.drawn = new Set();
    this.width = null;
    scroller.addEventListener("scroll", () => this.look(), { passive: true });
    new ResizeObserver(() => this.resized()).observe(scroller);
  }

  // Draws a message wherever it is.
  draw(message) {
    message.draw();
    this.drawn.add(message);
  }

  // Forgets a message that is no longer in the conversation.
  forget(message) {
    if (!this.drawn.delete(message)) return;
    message.empty();
    message.drawn = false;
  }

  // Draws messages near the view and drops far ones, without moving what is in view.
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

  // Chromium never moves live objects and frees memory by the page. The nodes of a message lie between garbage from the
  // time it was written; copied together with others, they lie side by side (docs/log/page.md).
  gather() {
    const scattered = this.messages().filter((message) => message.scattered);
    if (scattered.length < TOGETHER || !getSelection().isCollapsed) return;
    for (const message of scattered) message.renew();
  }

  // Returns the messages between two heights of the window.
  between(from, to) {
    const all = this.messages();
    const first = firstIndex(all.length, (i) => all[i].node.getBoundingClientRect().bottom >= from);
    let end = first;
    while (end < all.length && all[end].node.getBoundingClientRect().top <= to) end += 1;
    return all.slice(first, end);
  }

  // Forgets stored heights when the width changes.
  resized() {
    const { clientWidth } = this.scroller;
    if (clientWidth && clientWidth !== this.width) {
      if (this.width !== null) for (const message of this.messages()) if (!message.drawn) message.node.style.height = "";
      this.width = clientWidth;
    }
    this.look();
  }
}
