// Access to the API: its key, and the websites whose pages may call it.

import { useState } from "preact/hooks";
import { Button, CopyButton, Form, TextInput } from "../../shared/components";
import { words } from "./words";
import type { ApiState, Change } from "./server";

type AccessProps = { state: ApiState; change: Change; open: boolean; onOpen: (open: boolean) => void };
export function Access({ state, change, open, onOpen }: AccessProps) {
  return (
    <>
      <Key state={state} change={change} open={open} onOpen={onOpen} />
      {!state.key_given && (
        <Adding name="key" label={words.newKey} button={words.setKey} onAdd={(key) => change("set_key", { key })} />
      )}
      <h3>{words.origins}</h3>
      <p class="ft-hint">{words.originsHint}</p>
      {state.origins.length > 0 && (
        <ul class="origins ft-list ft-stack">
          {state.origins.map(([origin, given]) => (
            <li key={origin} class="ft-row">
              <code>{origin}</code>
              {given ? (
                <span class="ft-hint">{words.originGiven}</span>
              ) : (
                <Button
                  kind="link"
                  data-act="forbid"
                  aria-label={words.forbid(origin)}
                  onClick={() => change("forbid_origin", { origin })}>
                  {words.remove}
                </Button>
              )}
            </li>
          ))}
        </ul>
      )}
      <Adding
        name="origin"
        label={words.origin}
        placeholder={words.originExample}
        button={words.allow}
        onAdd={(origin) => change("allow_origin", { origin })}
      />
    </>
  );
}

type KeyProps = { state: ApiState; change: Change; open: boolean; onOpen: (open: boolean) => void };
function Key({ state, change, open, onOpen }: KeyProps) {
  const { key, key_given: given, needs_key: needed } = state;
  const told = key ? (given ? words.keyGiven : words.keySet) : needed ? words.keyNeeded : words.keyNone;
  return (
    <>
      <h3>{words.key}</h3>
      <div class="ft-row" data-access="key">
        <span>{told}</span>
        {key && open && <code>{key}</code>}
        {key && (
          <Button kind="link" data-act="show-key" onClick={() => onOpen(!open)}>
            {open ? words.hide : words.reveal}
          </Button>
        )}
        {key && <CopyButton text={key} />}
        {!given && (
          <Button kind="link" data-act="make-key" onClick={() => change("make_key")}>
            {key ? words.makeAnother : words.make}
          </Button>
        )}
        {key && !given && !needed && (
          <Button kind="link" data-act="remove-key" aria-label={words.removeKey} onClick={() => change("remove_key")}>
            {words.remove}
          </Button>
        )}
      </div>
    </>
  );
}

// A line of text with a button; it is emptied once its text was taken.
type AddingProps = {
  name: string;
  label: string;
  placeholder?: string;
  button: string;
  onAdd: (text: string) => Promise<boolean>;
};
function Adding({ name, label, placeholder, button, onAdd }: AddingProps) {
  const [text, setText] = useState("");
  const submit = async () => {
    if (await onAdd(text)) setText("");
  };
  return (
    <Form class="access-form ft-row" data-form={name} onSubmit={submit}>
      <TextInput label={label} value={text} onChange={setText} placeholder={placeholder} />
      <Button type="submit">{button}</Button>
    </Form>
  );
}
