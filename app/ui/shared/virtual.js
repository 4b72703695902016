// A virtual list: only the rows in view are in the page. Heights may differ; they are estimated until measured.

import { firstIndex, h } from "./dom.js";

const BEYOND = 8; // rows kept above and below those in view

export class VirtualList {
  // `draw(index)` makes a row's element, `estimate(index)` estimates its height. `scroller` holds nothing else.
  constructor(scroller, { draw, estimate }) {
    this.scroller = scroller;
    this.draw = draw;
    this.estimate = estimate;
    this.node = h("ol", { class: "virtual" });
    this.shown = new Map(); // index: element
    this.heights = [];
    this.tops = [0]; // the top of each row, and the end of the last
    this.frame = null;
    scroller.append(this.node);
    scroller.addEventListener("scroll", () => this.later(), { passive: true });
    this.watcher = new ResizeObserver(() => this.later());
    this.watcher.observe(scroller);
  }

  get count() {
    return this.heights.length;
  }

  // Sets the number of rows; those that stay are not redrawn.
  resize(count) {
    while (this.heights.length < count) {
      const height = this.estimate(this.heights.length);
      this.heights.push(height);
      this.tops.push(this.tops.at(-1) + height);
    }
    this.heights.length = count;
    this.tops.length = count + 1;
    for (const [index, node] of this.shown) if (index >= count) this.drop(index, node);
    this.node.style.height = `${this.tops.at(-1)}px`;
    this.later();
  }

  // Redraws a row.
  changed(index) {
    const old = this.shown.get(index);
    if (!old) {
      this.heights[index] = this.estimate(index);
      return this.settle(index);
    }
    const fresh = this.draw(index);
    old.replaceWith(fresh);
    this.put(index, fresh);
    this.measure();
  }

  // Redraws all rows.
  reset() {
    for (const [index, node] of this.shown) this.drop(index, node);
    this.heights = this.heights.map((_, index) => this.estimate(index));
    this.settle(0);
    this.render();
  }

  // Scrolls a row into view, as little as possible, and draws it. Returns its element.
  reveal(index) {
    const { scroller } = this;
    const above = this.tops[index] + this.node.offsetTop;
    const below = this.tops[index + 1] + this.node.offsetTop;
    if (above < scroller.scrollTop) scroller.scrollTop = above;
    else if (below > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = below - scroller.clientHeight;
    this.render();
    return this.shown.get(index);
  }

  later() {
    this.frame ??= requestAnimationFrame(() => this.render());
  }

  render() {
    cancelAnimationFrame(this.frame);
    this.frame = null;
    const top = this.scroller.scrollTop - this.node.offsetTop;
    const first = Math.max(0, this.at(top) - BEYOND);
    const last = Math.min(this.count, this.at(top + this.scroller.clientHeight) + 1 + BEYOND);
    for (const [index, node] of this.shown) {
      const focused = node.contains(document.activeElement);
      if ((index < first || index >= last) && !focused) this.drop(index, node);
    }
    for (let index = last - 1; index >= first; index -= 1) {
      if (this.shown.has(index)) continue;
      const node = this.draw(index);
      this.put(index, node);
      const next = this.shown.get(index + 1);
      if (next) next.before(node);
      else this.node.append(node);
    }
    this.measure();
  }

  put(index, node) {
    node.style.top = `${this.tops[index]}px`;
    node.setAttribute("aria-setsize", String(this.count));
    node.setAttribute("aria-posinset", String(index + 1));
    this.shown.set(index, node);
  }

  drop(index, node) {
    node.remove();
    this.shown.delete(index);
  }

  // Measures the rows in the page; a change above the view does not move what is in view.
  measure() {
    const top = this.scroller.scrollTop - this.node.offsetTop;
    let from = Infinity;
    let moved = 0;
    for (const [index, node] of this.shown) {
      const height = node.offsetHeight;
      const more = height - this.heights[index];
      if (!height || Math.abs(more) < 0.5) continue;
      if (this.tops[index + 1] <= top) moved += more;
      this.heights[index] = height;
      from = Math.min(from, index);
    }
    if (from === Infinity) return;
    this.settle(from);
    if (moved) this.scroller.scrollTop += moved;
  }

  // Places all rows from this one on.
  settle(from) {
    for (let index = from; index < this.count; index += 1) this.tops[index + 1] = this.tops[index] + this.heights[index];
    this.node.style.height = `${this.tops.at(-1)}px`;
    for (const [index, node] of this.shown) if (index > from) node.style.top = `${this.tops[index]}px`;
    this.later();
  }

  // Returns the row at a height.
  at(y) {
    return Math.min(firstIndex(this.count, (i) => this.tops[i + 1] > y), Math.max(0, this.count - 1));
  }
}
