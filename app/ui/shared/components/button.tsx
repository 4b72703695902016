import { type ComponentChildren, type JSX, h } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { IconNode } from "lucide";

export type ButtonProps = Omit<JSX.IntrinsicElements["button"], "icon" | "label"> & {
  kind?: "primary" | "danger" | "quiet" | "link"; // quiet has no frame, link looks like text
  icon?: IconNode;
  label?: string; // the name of a button that shows its icon alone
  text?: ComponentChildren;
  small?: boolean;
};

export function Button({
  kind,
  icon,
  label,
  text,
  small = false,
  children = text,
  type = "button",
  ...rest
}: ButtonProps) {
  const base = kind === "link" ? "ft-link" : "ft-button";
  const look = [base, kind, small && "small", !children && "only-icon", rest.class].filter(Boolean).join(" ");
  const name = label ?? rest["aria-label"];
  return (
    <button {...rest} type={type} class={look} title={rest.title ?? label} aria-label={name}>
      {icon && <Icon of={icon} size={small ? 15 : 17} />}
      {children}
    </button>
  );
}

// A quiet button that shows its icon alone.
export const IconButton = (props: ButtonProps & { icon: IconNode; label: string }) => (
  <Button kind="quiet" small {...props} />
);

// A button that asks again, by the text `sure`, before it does what cannot be undone. Enter alone, which is then on Cancel,
// and a double click do not.
export function SureButton({ text, sure, onSure, ...rest }: ButtonProps & { sure: string; onSure: () => void }) {
  const [asked, setAsked] = useState<boolean | null>(null); // null: never yet
  const first = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => void (asked !== null && first.current?.focus()), [asked]);
  if (!asked) return <Button {...rest} ref={first} text={text} onClick={() => setAsked(true)} />;
  const act = ({ detail }: MouseEvent) => {
    if (detail > 1) return;
    setAsked(false);
    onSure();
  };
  return (
    <span class="ft-row">
      <Button small={rest.small} ref={first} text="Cancel" onClick={() => setAsked(false)} />
      <Button {...rest} kind="danger" aria-label={undefined} text={sure} onClick={act} />
    </span>
  );
}

export function Icon({ of, size = 18 }: { of: IconNode; size?: number }) {
  return (
    <svg
      class="ft-icon"
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="2"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true">
      {of.map(([shape, attributes], index) => h(shape, { key: index, ...attributes }))}
    </svg>
  );
}
