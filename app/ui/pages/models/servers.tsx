// Models on servers: asking a server for its models, connecting, and the known servers.

import { useCallback, useEffect, useState } from "preact/hooks";
import { Button, ErrorNote, Form, Panel, Status, Tag, TextInput } from "../../shared/components";
import { useModels } from "./state";
import { words } from "./words";

type Known = { id: string; name: string; address: string; note: string };
type ServedModel = { id: string; context: number | null; loaded: boolean | null; loads: boolean };

type Found = {
  error: string | null;
  name: string;
  place: string;
  address: string;
  models: ServedModel[];
  wanted: string;
};

export function Servers({ shown }: { shown: boolean }) {
  const { ask, change, busy, status } = useModels();
  const [known, setKnown] = useState<Known[]>([]);
  const [address, setAddress] = useState("");
  const [key, setKey] = useState("");
  const [asking, setAsking] = useState(false);
  const [found, setFound] = useState<Found | null>(null);
  const [kept, setKept] = useState(""); // where the key is
  const refresh = useCallback(async () => setKnown((await ask("servers"))?.servers ?? []), [ask]);
  useEffect(() => void (shown && refresh()), [shown]);
  const look = async () => {
    setAsking(true);
    setKept("");
    setFound(null);
    setFound(await ask("ask_server", { address, key }));
    setAsking(false);
  };
  const connect = async (data: object) => {
    const answer = await change("connect", data);
    setKept(answer?.kept ?? "");
    if (answer?.kept) setKey("");
    refresh();
  };
  return (
    <Panel class="servers">
      <p class="ft-hint">{words.serversInfo}</p>
      <Form class="line-form ft-row" onSubmit={look}>
        <TextInput
          label={words.address}
          name="address"
          value={address}
          onChange={setAddress}
          placeholder={words.addressHint}
        />
        <TextInput label={words.key} type="password" name="server-key" value={key} onChange={setKey} />
        <Button kind="primary" type="submit" text={words.look} disabled={asking} />
      </Form>
      <div class="server-found ft-stack" aria-live="polite">
        {asking && <p class="ft-hint">{words.asking}</p>}
        {found && <Answer found={found} onConnect={(model) => connect({ address: found.address, key, model })} />}
      </div>
      {kept && <Status text={kept} />}
      {known.length > 0 && <h3>{words.knownServers}</h3>}
      <ul class="lines known-servers" aria-label={words.knownServers}>
        {known.map((each) => (
          <li key={each.id}>
            <span>
              <b>{each.name}</b>{" "}
              {status?.loaded?.target === each.id && <span class="loaded-tag">{words.connected}</span>}
              <span class="source block ft-fine">{each.address}</span>
              {each.note && <span class="ft-hint">{each.note}</span>}
            </span>
            <span class="ft-row">
              <Button
                small
                disabled={busy}
                aria-label={words.connectTo(each.name)}
                onClick={() => connect({ id: each.id })}>
                {words.connect}
              </Button>
              <Button
                kind="link"
                aria-label={words.forgetServer(each.name)}
                onClick={() => change("forget_server", { id: each.id }).then(refresh)}>
                {words.takeAway}
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
  if (found.error) return <ErrorNote text={found.error} />;
  const wanted = found.models.filter((each) => !found.wanted || each.id === found.wanted);
  const loadedThere = found.models.find(({ loaded }) => loaded)?.id;
  return (
    <>
      <b>{words.answers(found.name, found.place)}</b>
      {!found.models.length && <ErrorNote text={words.noModels} />}
      {found.models.length > 0 && !wanted.length && <ErrorNote text={words.noModelThere(found.wanted)} />}
      <ul class="lines">
        {(wanted.length ? wanted : found.models).map((each) => (
          <li key={each.id} data-model={each.id}>
            <span>
              <b>{each.id}</b>{" "}
              {each.context && <span class="ft-hint">{words.contextOf(each.context.toLocaleString("en"))}</span>}{" "}
              {each.loaded === false && (
                <Tag text={each.loads ? words.loadsThere(loadedThere) : words.notLoadedThere} />
              )}
            </span>
            <Button small disabled={busy} aria-label={words.connectTo(each.id)} onClick={() => onConnect(each.id)}>
              {words.connect}
            </Button>
          </li>
        ))}
      </ul>
    </>
  );
}
