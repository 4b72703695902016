// The dialog that adds a web page to a message by its address.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button, Dialog, ErrorNote, Form, TextInput } from "../../../shared/components";
import { answered, reason } from "../../../shared/frame/server";
import { words } from "../words";
import type { Attached, ChatPage } from "../types";

export function AddPage({ page, onAdded }: { page: ChatPage; onAdded: ((file: Attached) => void) | null }) {
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => form.current?.querySelector("input")?.focus(), [onAdded]);
  const onClose = () => page.set({ addingPage: null });
  const [address, setAddress] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const submit = async () => {
    setBusy(true);
    setError("");
    try {
      const found = await answered(page.server.add_page({ address }));
      onAdded?.(found.private ? await answered(page.server.add_private_page({ address })) : found);
      setAddress("");
      onClose();
    } catch (why) {
      setError(reason(why));
    }
    setBusy(false);
  };
  return (
    <Dialog title={words.attachPage} open={onAdded !== null} onClose={onClose}>
      <Form class="add-page" ref={form} onSubmit={submit}>
        <TextInput
          label={words.address}
          hint={words.addressHint}
          value={address}
          onChange={setAddress}
          placeholder="https://example.org/page"
        />
        <ErrorNote text={error} />
        <div class="ft-row">
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button kind="primary" type="submit" disabled={busy || !address.trim()}>
            {busy ? words.readingPage : words.addPage}
          </Button>
        </div>
      </Form>
    </Dialog>
  );
}
