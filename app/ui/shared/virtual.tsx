// A long list of which only the rows in view are in the page. Heights may differ; they are estimated until measured.

import { useEffect, useImperativeHandle, useLayoutEffect, useReducer, useRef } from "preact/hooks";
import { firstIndex } from "./search";
import type { ComponentChildren, Ref, RefObject } from "preact";

const BEYOND = 8; // rows kept above and below those in view

// The places of all rows.
class Places {
  heights: number[] = [];
  tops = [0]; // of each row, and the end of the last

  version = "";

  // Another `version` estimates all heights again.
  resize(count: number, estimate: (index: number) => number, version: string) {
    if (version !== this.version) this.heights.length = 0;
    this.version = version;
    for (let index = this.heights.length; index < count; index += 1) {
      this.heights.push(estimate(index));
      this.tops.push(this.tops[index] + this.heights[index]);
    }
    this.heights.length = count;
    this.tops.length = count + 1;
  }

  // Takes new heights by row. Returns how far the row at `top`, which is in view, moved.
  settle(heights: Map<number, number>, top: number) {
    let moved = 0;
    for (const [index, height] of heights) {
      if (this.tops[index + 1] <= top) moved += height - this.heights[index];
      this.heights[index] = height;
    }
    for (let index = Math.min(...heights.keys()); index < this.heights.length; index += 1)
      this.tops[index + 1] = this.tops[index] + this.heights[index];
    return moved;
  }

  // Returns the row at a height.
  at(y: number) {
    const { length } = this.heights;
    return Math.min(
      firstIndex(length, (index) => this.tops[index + 1] > y),
      Math.max(0, length - 1),
    );
  }
}

// `reveal` scrolls a row into view, as little as possible.
export type ListHandle = { reveal: (index: number) => void };

// `scroller` is the element around the list, which holds nothing else. A row is an `<li>` with the given properties.
// Rows of which `varies` is true are measured; the height of others is `estimate`. With another `version` all heights are
// estimated again, and the first row in view stays there. `atEnd`: the list is scrolled to its end, also when it grows.
type VirtualListProps = {
  count: number;
  estimate: (index: number) => number;
  varies: (index: number) => boolean;
  version: string;
  atEnd: boolean;
  scroller: RefObject<HTMLElement | null>;
  handle: Ref<ListHandle>;
  children: (index: number, properties: object) => ComponentChildren;
};
export function VirtualList(props: VirtualListProps) {
  const { count, estimate, varies, version, atEnd, scroller, handle, children } = props;
  const places = useRef(new Places()).current;
  const view = useRef({ top: 0, height: 0, offset: 0 }).current; // reading these while drawing would lay the page out
  const list = useRef<HTMLOListElement>(null);
  const [, draw] = useReducer((n: number) => n + 1, 0);
  const look = () => {
    const [area, own] = [scroller.current, list.current];
    if (!area || !own) return; // an observer may tell of what is gone
    Object.assign(view, { top: area.scrollTop - own.offsetTop, height: area.clientHeight, offset: own.offsetTop });
  };
  const anchor = version === places.version ? null : places.at(view.top);
  places.resize(count, estimate, version);

  const top = anchor !== null ? places.tops[anchor] : atEnd ? places.tops[count] - view.height : view.top;
  const first = Math.max(0, places.at(top) - BEYOND);
  const last = Math.min(count, places.at(top + view.height) + 1 + BEYOND);
  const shown = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  // A row with the focus stays in the page.
  const focused = list.current?.contains(document.activeElement) && document.activeElement?.closest("[aria-posinset]");
  const kept = focused ? Number(focused.getAttribute("aria-posinset")) - 1 : -1;
  if (kept >= 0 && kept < first) shown.unshift(kept);
  if (kept >= last && kept < count) shown.push(kept);

  useEffect(() => {
    const area = scroller.current as HTMLElement;
    let frame = 0;
    const later = () => {
      look();
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => draw(0));
    };
    area.addEventListener("scroll", later, { passive: true });
    const sizes = new ResizeObserver(later);
    sizes.observe(area);
    return () => {
      cancelAnimationFrame(frame);
      area.removeEventListener("scroll", later);
      sizes.disconnect();
    };
  }, [scroller]);

  useLayoutEffect(() => {
    const area = scroller.current as HTMLElement;
    if (anchor) area.scrollTop = places.tops[anchor] + view.offset;
    const changed = new Map<number, number>();
    for (const row of (list.current?.children ?? []) as Iterable<HTMLElement>) {
      const index = Number(row.getAttribute("aria-posinset")) - 1;
      const height = varies(index) ? row.offsetHeight : estimate(index);
      if (height && Math.abs(height - places.heights[index]) >= 0.5) changed.set(index, height);
    }
    if (!changed.size) return;
    look();
    const moved = places.settle(changed, view.top);
    if (moved) area.scrollTop += moved; // what is in view stays where it is
    look();
    draw(0);
  });

  useImperativeHandle(handle, () => ({
    reveal(index) {
      const area = scroller.current;
      if (!area) return;
      const [from, to] = [places.tops[index] + view.offset, places.tops[index + 1] + view.offset];
      if (from < area.scrollTop) area.scrollTop = from;
      else if (to > area.scrollTop + area.clientHeight) area.scrollTop = to - area.clientHeight;
      look();
      draw(0);
    },
  }));

  return (
    <ol class="virtual ft-list" ref={list} style={{ height: `${places.tops[count]}px` }}>
      {shown.map((index) =>
        children(index, {
          key: index,
          style: { top: `${places.tops[index]}px` },
          "aria-setsize": count,
          "aria-posinset": index + 1,
        }),
      )}
    </ol>
  );
}
