// Whether a message is near the view. Distant ones are drawn as text alone, at the height they had, so that hundreds of
// messages cost little more than a few and can still be searched and copied.

import { useLayoutEffect, useState } from "preact/hooks";
import type { RefObject } from "preact";

const tell = new WeakMap<Element, (near: boolean, height: number) => void>();
const observers = new WeakMap<Element, IntersectionObserver>(); // the observer of each scrolling element

function observerOf(scroller: Element) {
  let found = observers.get(scroller);
  if (found) return found;
  const each = (entries: IntersectionObserverEntry[]) => {
    for (const { target, isIntersecting, boundingClientRect, rootBounds } of entries)
      if (rootBounds?.height) tell.get(target)?.(isIntersecting, boundingClientRect.height); // else another page is shown
  };
  found = new IntersectionObserver(each, { root: scroller, rootMargin: "150% 0px" });
  observers.set(scroller, found);
  return found;
}

// True if the focus or a selection is in the node: it must stay as it is.
const isHeld = (node: Element) => {
  const selection = getSelection();
  return (
    node.contains(document.activeElement) ||
    Boolean(selection && !selection.isCollapsed && selection.containsNode(node, true))
  );
};

// Returns whether the node is near the view of `.messages`, and its height when it was last drawn. `first`: before that
// is known.
export function useNear(ref: RefObject<HTMLElement | null>, first: boolean): [boolean, number | null] {
  const [[near, height], set] = useState<[boolean, number | null]>([first, null]);
  useLayoutEffect(() => {
    const node = ref.current;
    const scroller = node?.closest(".messages");
    if (!node || !scroller) return;
    const observer = observerOf(scroller);
    tell.set(node, (is, height) =>
      set((before) => (before[0] === is || (!is && isHeld(node)) ? before : [is, is ? null : height])),
    );
    observer.observe(node);
    return () => observer.unobserve(node);
  }, [ref]);
  return [near, height];
}
