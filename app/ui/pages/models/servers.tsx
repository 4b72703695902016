// Models on servers: asking a server for its models, connecting, and the known servers.

import { useState } from "preact/hooks";
import { Button, ErrorNote, Form, Panel, Status, Tag, TextInput, useAnswer } from "../../shared/components";
import { count } from "../../shared/format";
import { useModels } from "./state";

type Known = { id: string; name: string; address: string; note: string };
type ServedModel = { id: string; context: number | null; loaded: boolean | null; loads: boolean };

type Found = { name: string; place: string; address: string; models: ServedModel[]; wanted: string };
type Asked = Found & { key: string }; // the key that it was asked with, which no other server may get

export function Servers({ shown }: { shown: boolean }) {
  const { change, busy, status } = useModels();
  const { ask, answer, error, refresh } = useAnswer<{ servers: Known[] }>("servers", shown);
  const known = answer?.servers ?? [];
  const [address, setAddress] = useState("");
  const [key, setKey] = useState("");
  const [asking, setAsking] = useState(false);
  const [found, setFound] = useState<Asked | null>(null);
  const [kept, setKept] = useState(""); // where the key is
  const look = async () => {
    setAsking(true);
    setKept("");
    setFound(null);
    const there = await ask("ask_server", { address, key });
    setFound(there && { ...there, key });
    setAsking(false);
  };
  const typed = (keep: (text: string) => void) => (text: string) => {
    keep(text);
    setFound(null);
  };
  const connect = async (data: object) => {
    const done = await change("connect", data);
    setKept(done?.kept ?? "");
    if (done?.kept) setKey("");
    refresh();
  };
  return (
    <Panel class="servers">
      <p class="ft-hint">
        vLLM, SGLang, TensorRT-LLM, Dynamo, llama-server, Ollama, LM Studio, another Foretoken, or any OpenAI-compatible
        server. Chats are sent only to this server.
      </p>
      <Form class="line-form ft-row" onSubmit={look}>
        <TextInput
          label="Address"
          name="address"
          value={address}
          onChange={typed(setAddress)}
          placeholder="http://127.0.0.1:8000"
        />
        <TextInput
          label="API key (if required)"
          type="password"
          name="server-key"
          value={key}
          onChange={typed(setKey)}
        />
        <Button kind="primary" type="submit" text="Find models" disabled={asking} />
      </Form>
      <div class="server-found ft-stack" aria-live="polite">
        {asking && <p class="ft-hint">Connecting …</p>}
        <ErrorNote text={error} />
        {found && (
          <Answer found={found} onConnect={(model) => connect({ address: found.address, key: found.key, model })} />
        )}
      </div>
      {kept && <Status text={kept} />}
      {known.length > 0 && <h3>Recent servers</h3>}
      <ul class="ft-list lines known-servers" aria-label="Recent servers">
        {known.map((each) => (
          <li key={each.id}>
            <span>
              <b>{each.name}</b> {status?.loaded?.target === each.id && <span class="loaded-tag">connected</span>}
              <span class="source block ft-fine">{each.address}</span>
              {each.note && <span class="ft-hint">{each.note}</span>}
            </span>
            <span class="ft-row">
              <Button
                small
                disabled={busy}
                aria-label={`Connect to ${each.name}`}
                onClick={() => connect({ id: each.id })}>
                Connect
              </Button>
              <Button
                kind="link"
                aria-label={`Remove ${each.name} and its key`}
                onClick={() => change("forget_server", { id: each.id }).then(refresh)}>
                Remove
              </Button>
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Answer({ found, onConnect }: { found: Found; onConnect: (model: string) => void }) {
  const { busy } = useModels();
  const wanted = found.models.filter((each) => !found.wanted || each.id === found.wanted);
  const loadedThere = found.models.find(({ loaded }) => loaded)?.id;
  const loads = `not loaded: connecting will load it${loadedThere ? ` and unload ${loadedThere}` : ""}`;
  return (
    <>
      <b>
        {found.name} at {found.place}
      </b>
      {!found.models.length && <ErrorNote text="No models found there. Load one there, then try again." />}
      {found.models.length > 0 && !wanted.length && <ErrorNote text={`No model "${found.wanted}" there. Available:`} />}
      <ul class="ft-list lines">
        {(wanted.length ? wanted : found.models).map((each) => (
          <li key={each.id} data-model={each.id}>
            <span>
              <b>{each.id}</b> {each.context && <span class="ft-hint">{count(each.context)} tokens of context</span>}{" "}
              {each.loaded === false && <Tag text={each.loads ? loads : "not loaded yet"} />}
            </span>
            <Button small disabled={busy} aria-label={`Connect to ${each.id}`} onClick={() => onConnect(each.id)}>
              Connect
            </Button>
          </li>
        ))}
      </ul>
    </>
  );
}
