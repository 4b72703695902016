// The Server page: the API's switch, examples, requests, and access.

import { useEffect, useState } from "preact/hooks";
import {
  CopyButton,
  ErrorNote,
  PageFrame,
  Panel,
  register,
  Toggle,
  useBack,
  usePage,
  useServer,
  Copyable,
  Tabs,
} from "../../shared/components";
import { Access } from "./access";
import { Requests } from "./requests";
import { words } from "./words";
import { calls } from "./calls";

// What ServerBackend.api_state answers.
export interface ApiState {
  on: boolean;
  key: string | null; // null if requests need none
  key_given: boolean; // it was given on the command line
  needs_key: boolean; // other machines can reach this one
  origins: [string, boolean][]; // each with whether it was given on the command line
  model: string | null; // the API id of the loaded model
}

// Calls an endpoint; returns whether it succeeded.
export type Change = (name: string, data?: object) => Promise<boolean>;

function ServerPage() {
  const shown = usePage() === "server";
  const { ask, error } = useServer();
  const [state, setState] = useState<ApiState | null>(null);
  const [open, setOpen] = useState(false); // the key is shown
  const change: Change = async (name, data = {}) => {
    const answer = await ask(name, data);
    if (answer) setState(answer);
    return Boolean(answer);
  };
  // Another page may have loaded a model meanwhile.
  useEffect(() => void (shown && change("api_state")), [shown]);
  useBack(() => void change("api_state"));
  const base = `${location.origin}/v1`;
  return (
    <PageFrame title={words.title} intro={words.intro}>
      {state && (
        <Panel class="api-switch">
          <Toggle
            label={words.endpoint}
            hint={words.offHint}
            value={state.on}
            onChange={(on) => change("set_api", { on })}
          />
          <dl class="address ft-row">
            <Fact name={words.address}>
              <code>{base}</code> <CopyButton text={base} />
            </Fact>
            <Fact name={words.model}>{state.model ? <code>{state.model}</code> : words.noModel}</Fact>
          </dl>
        </Panel>
      )}
      <ErrorNote text={error} />
      {state && (
        <>
          <Panel title={words.examples}>
            <Examples base={base} model={state.model ?? "pip"} apiKey={state.key} open={open} />
          </Panel>
          <Panel title={words.requests}>
            <Requests shown={shown} />
          </Panel>
          <Panel title={words.access}>
            <Access state={state} change={change} open={open} onOpen={setOpen} />
          </Panel>
          <Panel title={words.endpoints}>
            <table class="ft-table endpoints">
              <tbody>
                {words.endpointList.map(([method, path, what]) => (
                  <tr key={path}>
                    <td>
                      <code>{method}</code>
                    </td>
                    <td>
                      <code>{path}</code>
                    </td>
                    <td>{what}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Panel>
        </>
      )}
    </PageFrame>
  );
}

const Fact = ({ name, children }: { name: string; children: import("preact").ComponentChildren }) => (
  <div>
    <dt class="ft-hint">{name}</dt>
    <dd>{children}</dd>
  </div>
);

const STORED = "foretoken.snippet"; // the tab that was opened last
const HIDDEN = "•".repeat(12); // is shown for a key

// The key is copied, and shown only if `open`.
type ExamplesProps = { base: string; model: string; apiKey: string | null; open: boolean };
export function Examples({ base, model, apiKey, open }: ExamplesProps) {
  const [tab, setTab] = useState(() => {
    const stored = localStorage.getItem(STORED) ?? "";
    return stored in words.calls ? stored : navigator.platform.startsWith("Win") ? "powershell" : "curl";
  });
  const show = (name: string) => {
    localStorage.setItem(STORED, name);
    setTab(name);
  };
  const copied = calls({ base, model, key: apiKey });
  const seen = calls({ base, model, key: apiKey && !open ? HIDDEN : apiKey });
  const tabs = Object.entries(words.calls).map(([id, { title, hint }]) => ({
    id,
    title,
    pane: <Copyable title={hint} code={copied[id]} shown={seen[id]} />,
  }));
  return <Tabs name="call" label={words.examples} tabs={tabs} shown={tab} onShow={show} />;
}

register("server", ServerPage);
