import { useLayoutEffect, useRef } from "preact/hooks";
import { X } from "lucide";
import { Button, IconButton } from "./button";
import { Form } from "./form";
import { ErrorNote } from "./page";
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
  const pressed = useRef<EventTarget>(null); // a text that is selected may be let go beside the dialog
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
      onPointerDown={({ target }) => (pressed.current = target)}
      onClick={({ target }) => target === node.current && target === pressed.current && onClose()}>
      {open && (
        <div class="ft-stack ft-gap-3">
          <header class="ft-row ft-spread">
            <h2 id={id}>{title}</h2>
            <IconButton icon={X} label="Close" onClick={onClose} />
          </header>
          {children}
          {actions && <div class="ft-row">{actions}</div>}
        </div>
      )}
    </dialog>
  );
}

// A dialog that is a form. `submit` is the name of its button, `more` are others; `error`: why it was refused.
type FormDialogProps = Omit<DialogProps, "actions"> & {
  submit: string;
  onSubmit: () => void;
  disabled?: boolean;
  error: string;
  more?: ComponentChildren;
};
export function FormDialog({ submit, onSubmit, disabled, error, more, children, ...dialog }: FormDialogProps) {
  return (
    <Dialog {...dialog}>
      <Form class="ft-stack ft-gap-3" onSubmit={onSubmit}>
        {children}
        <ErrorNote text={error} />
        <div class="ft-row">
          {more}
          <Button text="Cancel" onClick={dialog.onClose} />
          <Button kind="primary" type="submit" text={submit} disabled={disabled} />
        </div>
      </Form>
    </Dialog>
  );
}
