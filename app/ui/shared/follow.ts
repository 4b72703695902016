// Keeps a scrolling element at its end.

const NEAR = 48; // px from the end that count as being there

export class Follow {
  stuck = true;
  top = 0; // where it was last put

  // Stays at the end until the reader scrolls up; `onStuck(stuck)` is called when that changes.
  constructor(
    readonly element: HTMLElement,
    readonly onStuck?: (stuck: boolean) => void,
  ) {
    element.addEventListener("scroll", () => this.scrolled(), { passive: true });
    const sizes = new ResizeObserver(() => {
      this.scrolled(); // a reader may have scrolled up already, and the event that says so comes later
      this.moveToEnd();
    });
    for (const each of [element, element.firstElementChild]) if (each) sizes.observe(each);
  }

  // Leaves the end only if the reader scrolled up: this event may come after the content has grown further.
  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    if (!this.stuck || scrollTop < this.top) this.settle(scrollHeight - scrollTop - clientHeight < NEAR);
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

  moveToEnd() {
    if (!this.stuck) return;
    this.element.scrollTop = this.element.scrollHeight;
    this.top = this.element.scrollTop;
  }
}
