import { useLayoutEffect, useRef } from "preact/hooks";
import { X } from "lucide";
import { words } from "../frame/words";
import { Button } from "./button";
import { useUniqueId } from "../frame/hooks";
import type { ComponentChildren } from "preact";

// A dialog over the page. Escape, a click beside it and its close button call `onClose`; `actions` are its buttons.
type DialogProps = {
  title: string;
  open: boolean;
  onClose: () => void;
  actions?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
};
export function Dialog({ title, open, onClose, actions, children, class: look = "" }: DialogProps) {
  const node = useRef<HTMLDialogElement>(null);
  const id = useUniqueId();
  useLayoutEffect(() => {
    if (open) node.current?.showModal();
    else node.current?.close();
  }, [open]);
  return (
    <dialog
      ref={node}
      class={`ft-dialog ${look}`}
      aria-labelledby={id}
      onClose={onClose}
      onClick={(event) => event.target === node.current && onClose()}>
      {open && (
        <div class="ft-stack ft-gap-3">
          <header class="ft-row ft-spread">
            <h2 id={id}>{title}</h2>
            <Button kind="quiet" small icon={X} label={words.close} onClick={onClose} />
          </header>
          {children}
          {actions && <div class="ft-row">{actions}</div>}
        </div>
      )}
    </dialog>
  );
}
