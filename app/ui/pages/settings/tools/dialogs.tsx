// The dialogs that add servers of tools: a form for one, and JSON for several.

import { useRef, useState } from "preact/hooks";
import { FileUp } from "lucide";
import {
  bound,
  Button,
  Dialog,
  Disclosure,
  ErrorNote,
  Form,
  NumberInput,
  Select,
  TextInput,
  useServer,
} from "../../../shared/components";
import { words } from "./words";
import type { ToolServer, ToolServers } from "./tools";

type OnClose = (fresh?: ToolServers | null, said?: string) => void;

const EMPTY = { name: "", command: "", args: "", env: "", cwd: "", url: "", headers: "", seconds: 60 as number | null };

// The form of one server; `server` is null for a new one.
export function ServerDialog({ server, onClose }: { server: ToolServer | null; onClose: OnClose }) {
  const { ask, error } = useServer();
  const [values, setValues] = useState({ ...EMPTY, ...server });
  const [kind, setKind] = useState(server?.url ? "http" : "program");
  const field = bound(values, (changed) => setValues((before) => ({ ...before, ...changed })));
  const submit = async () => {
    const { name, seconds, command, args, env, cwd, url, headers } = values;
    const how = kind === "http" ? { url, headers } : { command, args, env, cwd };
    const fresh = await ask("keep_server", { was: server?.name ?? null, name, seconds: String(seconds), ...how });
    if (fresh) onClose(fresh);
  };
  return (
    <Dialog
      title={server ? words.editTitle(server.name) : words.add}
      open
      onClose={() => onClose()}
      actions={
        <>
          <Button onClick={() => onClose()}>{words.cancel}</Button>
          <Button kind="primary" type="submit" form="tool-server" text={words.save} />
        </>
      }>
      <Form id="tool-server" class="tool-form ft-stack ft-gap-3" onSubmit={submit}>
        <TextInput label={words.name} hint={words.nameHint} {...field("name")} required />
        <Select label={words.kind} value={kind} options={words.kinds} onChange={setKind} />
        {kind === "program" ? (
          <>
            <TextInput label={words.command} hint={words.commandHint} {...field("command")} required />
            <TextInput
              label={words.args}
              hint={words.argsHint}
              {...field("args")}
              lines={3}
              placeholder={words.optional}
            />
            <p class="ft-hint">{words.runs}</p>
          </>
        ) : (
          <>
            <TextInput label={words.url} {...field("url")} type="url" placeholder={words.urlHint} required />
            <TextInput
              label={words.headers}
              hint={words.headersHint}
              {...field("headers")}
              lines={2}
              placeholder={words.optional}
            />
          </>
        )}
        <Disclosure summary={words.moreFields}>
          <div class="tool-form ft-stack ft-gap-3">
            {kind === "program" && (
              <>
                <TextInput
                  label={words.env}
                  hint={words.envHint}
                  {...field("env")}
                  lines={2}
                  placeholder={words.optional}
                />
                <TextInput label={words.cwd} {...field("cwd")} placeholder={words.optional} />
              </>
            )}
            <NumberInput label={words.seconds} {...field("seconds")} min={1} max={3600} required />
          </div>
        </Disclosure>
        <ErrorNote text={error} />
      </Form>
    </Dialog>
  );
}

export function ImportDialog({ onClose }: { onClose: OnClose }) {
  const { ask, error } = useServer();
  const [text, setText] = useState("");
  const file = useRef<HTMLInputElement>(null);
  const submit = async () => {
    const fresh = await ask("import_servers", { text });
    if (fresh) onClose(fresh, [words.imported(fresh.added), fresh.ignored].filter(Boolean).join(" "));
  };
  const read = async ({ files }: HTMLInputElement) => setText((await files?.[0]?.text()) ?? "");
  return (
    <Dialog
      title={words.importTitle}
      open
      onClose={() => onClose()}
      actions={
        <>
          <Button icon={FileUp} text={words.importFile} onClick={() => file.current?.click()} />
          <Button onClick={() => onClose()}>{words.cancel}</Button>
          <Button kind="primary" type="submit" form="tool-import" text={words.import} />
        </>
      }>
      <Form id="tool-import" class="tool-form ft-stack ft-gap-3" onSubmit={submit}>
        <TextInput
          label={words.importText}
          hint={words.importHint}
          value={text}
          onChange={setText}
          lines={8}
          required
        />
        <input
          type="file"
          accept=".json,application/json"
          hidden
          ref={file}
          onChange={({ currentTarget }) => read(currentTarget)}
        />
        <p class="ft-hint">{words.runsImported}</p>
        <ErrorNote text={error} />
      </Form>
    </Dialog>
  );
}
