// A name that is written in its place.

import { useLayoutEffect, useRef } from "preact/hooks";

// `onDone` is called once, with the new name, or with null if it is the old one or Escape was pressed.
type NameInputProps = { label: string; name?: string; onDone: (name: string | null) => void };
export function NameInput({ label, name = "", onDone }: NameInputProps) {
  const input = useRef<HTMLInputElement>(null);
  const open = useRef(true);
  // Before anything else is typed.
  useLayoutEffect(() => {
    input.current?.focus();
    input.current?.select();
  }, []);
  const close = (keep: boolean) => {
    if (!open.current) return;
    open.current = false;
    const text = input.current?.value.trim();
    onDone(keep && text && text !== name ? text : null);
  };
  const key = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === "Enter") close(true);
    if (event.key === "Escape") close(false);
  };
  return (
    <input
      class="rename ft-input"
      type="text"
      dir="auto"
      maxLength={120}
      aria-label={label}
      placeholder={label}
      defaultValue={name}
      ref={input}
      onKeyDown={key}
      onBlur={() => close(true)}
    />
  );
}
