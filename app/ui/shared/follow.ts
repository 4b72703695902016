// Keeps a scrolling element at its end.

const NEAR = 48; // px from the end that count as being there

export class Follow {
  stuck = true;
  top = 0; // where it was last put
  sizes = new ResizeObserver(() => this.grown());

  // Stays at the end until the reader scrolls up; `onStuck(stuck)` is called when that changes.
  constructor(
    readonly element: HTMLElement,
    readonly onStuck?: (stuck: boolean) => void,
  ) {
    element.addEventListener("scroll", () => this.scrolled(), { passive: true });
    for (const each of [element, element.firstElementChild]) if (each) this.sizes.observe(each);
  }

  get bottom() {
    return this.element.scrollTop + this.element.clientHeight;
  }

  // Leaves the end only if the reader scrolled up: this event may come after the content has grown further.
  scrolled() {
    if (!this.stuck || this.element.scrollTop < this.top) this.settle(this.element.scrollHeight - this.bottom < NEAR);
  }

  settle(stuck: boolean) {
    if (stuck === this.stuck) return;
    this.stuck = stuck;
    this.onStuck?.(stuck);
  }

  toEnd() {
    this.settle(true);
    this.moveToEnd();
  }

  // A reader may have scrolled up already, and the event that says so comes later.
  grown() {
    this.scrolled();
    this.moveToEnd();
  }

  moveToEnd() {
    if (!this.stuck) return;
    this.element.scrollTop = this.element.scrollHeight;
    this.top = this.element.scrollTop;
  }
}
