// Downloads, shown where they were started: progress, pause and resume, and what to do about a failure.

import { useState } from "preact/hooks";
import { Button, CopyButton, ErrorNote, Form, Panel, Status, TextInput } from "../../shared/components";
import { useModels, type Download } from "./state";
import { words } from "./words";

// The downloads of these keys that there are.
export function Transfers({ keys }: { keys: string[] }) {
  const { downloads } = useModels();
  const shown = keys.filter((key) => key in downloads);
  if (!shown.length) return null;
  return (
    <div class="transfers ft-stack">
      {shown.map((key) => (
        <Transfer key={key} id={key} download={downloads[key]} />
      ))}
    </div>
  );
}

// The downloads that no row shows.
export function OtherTransfers({ except }: { except: string[] }) {
  const { downloads } = useModels();
  const others = Object.keys(downloads).filter((key) => !except.includes(key));
  if (!others.length) return null;
  return (
    <Panel title={words.downloads}>
      <Transfers keys={others} />
    </Panel>
  );
}

function Transfer({ id, download: one }: { id: string; download: Download }) {
  const { ask, follow } = useModels();
  const act = (name: string) => ask(name, { key: id }).then(follow);
  const command = /hf download .*/.exec(one.error ?? "")?.[0].trim(); // for a machine with internet access
  const resting = one.state === "paused" || one.state === "failed";
  const again = one.unusable ? words.fetchAgain : one.state === "failed" ? words.retry : words.resume;
  const discard = one.unusable ? words.delete : one.arrived ? words.discard : words.dismiss;
  return (
    <div class="transfer ft-stack ft-box" data-state={one.state}>
      <div class="transfer-head ft-row">
        <b>{one.name}</b>
        <span class="source ft-fine">{one.source}</span>
        <Status text={one.waiting || words.states[one.unusable ? "unusable" : one.state]} />
        <span class="ft-hint figures">{words.progress(one)}</span>
        <span class="ft-row">
          {!resting && <Button small text={words.pause} onClick={() => act("pause")} />}
          {resting && <Button small text={again} onClick={() => act("download")} />}
          {resting && <Button small text={discard} onClick={() => act("discard")} />}
        </span>
      </div>
      <progress max={1} value={one.share ?? undefined} aria-label={words.downloadOf(one.name)} />
      <ErrorNote text={one.error} />
      {command && (
        <p class="ft-hint">
          {words.hubCommand} <CopyButton text={command} label={words.copyCommand} />
        </p>
      )}
      {one.needs_token && <Token page={one.page} onKept={() => act("download")} />}
    </div>
  );
}

// Asks for an access token of the hub; `page`: where it is made.
export function Token({ page, onKept }: { page?: string; onKept: () => void }) {
  const { ask } = useModels();
  const [token, setToken] = useState("");
  const [told, setTold] = useState("");
  const submit = async () => {
    const answer = await ask("keep_token", { token });
    setTold(answer?.error ?? answer?.kept ?? "");
    if (answer && !answer.error) onKept();
  };
  return (
    <Form class="token line-form ft-row" onSubmit={submit}>
      {page && (
        <p class="ft-hint">
          {words.tokenWhere}{" "}
          <a href={page} target="_blank" rel="noopener noreferrer">
            {words.modelPage}
          </a>
        </p>
      )}
      <TextInput
        label={words.token}
        type="password"
        name="token"
        value={token}
        onChange={setToken}
        placeholder={words.tokenHint}
      />
      <Button type="submit">{words.keepToken}</Button>
      <Status text={told} />
    </Form>
  );
}
