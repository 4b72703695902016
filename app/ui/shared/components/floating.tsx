// What opens beside its button, in front of the page: a menu, or a note. A click elsewhere and Escape close it.

import { useEffect, useRef, useState } from "preact/hooks";
import { Info as InfoIcon, type IconNode } from "lucide";
import { Button, type ButtonProps, Icon } from "./button";
import { useUniqueId } from "../frame/hooks";
import type { ComponentChildren } from "preact";

const MARGIN = 8; // to the edges of the window
const GAP = 4; // to the button

// Places `floating` under `anchor`, or above it if there is more room, so many pixels apart.
export function place(floating: HTMLElement, anchor: Element, apart = GAP) {
  const at = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = floating;
  const left = Math.max(MARGIN, Math.min(at.left, innerWidth - width - MARGIN));
  const below = innerHeight - at.bottom - apart;
  const top = height <= below || below > at.top ? at.bottom + apart : Math.max(MARGIN, at.top - height - apart);
  Object.assign(floating.style, { left: `${left}px`, top: `${top}px` });
}

// Returns what a button needs that opens something, and what opens: give the first's properties to the button, and the
// second's to a node. `open` tells whether to draw its content.
export function useFloating<Node extends HTMLElement = HTMLDivElement>() {
  const id = useUniqueId();
  const button = useRef<HTMLButtonElement>(null);
  const node = useRef<Node>(null);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (open && node.current && button.current) place(node.current, button.current);
  });
  const close = () => node.current?.hidePopover();
  return {
    open,
    close,
    button: { ref: button, popovertarget: id, "aria-expanded": open, "aria-controls": id },
    floating: {
      ref: node,
      id,
      popover: "auto" as const,
      onToggle: (event: Event) => setOpen((event as ToggleEvent).newState === "open"),
    },
  };
}

type MenuItem = { label: string; icon?: IconNode; onPick: () => void };

// A button that opens a menu. The arrow keys go from item to item.
export function Menu({ items, ...look }: { items: MenuItem[] } & ButtonProps) {
  const { open, close, button, floating } = useFloating();
  const focus = (step: number) => {
    const all = [...(floating.ref.current?.querySelectorAll("button:not(:disabled)") ?? [])];
    const now = all.indexOf(document.activeElement as Element);
    (all.at((now + step) % all.length) as HTMLElement)?.focus();
  };
  useEffect(() => {
    if (open) focus(1);
  }, [open]);
  const walk = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    focus(step);
  };
  return (
    <>
      <Button {...look} {...button} aria-haspopup="menu" />
      <div {...floating} class="ft-menu" role="menu" onKeyDown={walk}>
        {open &&
          items.map((item) => (
            <button
              key={item.label}
              type="button"
              role="menuitem"
              tabIndex={-1}
              class="ft-bare ft-row"
              onClick={() => {
                close();
                item.onPick();
              }}>
              {item.icon && <Icon of={item.icon} size={16} />}
              {item.label}
            </button>
          ))}
      </div>
    </>
  );
}

// An "i" that opens a note: facts that few need.
export function Info({ label = "More about this", children }: { label?: string; children: ComponentChildren }) {
  const { open, button, floating } = useFloating();
  return (
    <>
      <Button {...button} kind="quiet" small class="ft-info" icon={InfoIcon} label={label} />
      <div {...floating} class="ft-note" role="note">
        {open && children}
      </div>
    </>
  );
}
