// The Server page: the API's switch, examples, requests, and access by a key and from websites.

import { useEffect, useState } from "preact/hooks";
import * as ui from "../../shared/components";
import { Requests } from "./requests";
import { calls, LANGUAGES } from "./calls";

// What ServerBackend.api_state answers.
interface ApiState {
  on: boolean;
  key: string | null; // null if requests need none
  key_given: boolean; // it was given on the command line
  needs_key: boolean; // other machines can reach this one
  origins: [string, boolean][]; // each with whether it was given on the command line
  model: string | null; // the API id of the loaded model
}

// Changes the API; returns whether that succeeded. See ServerBackend.change_api.
type Act = (name: string, text?: string) => Promise<boolean>;

const ENDPOINTS = [
  ["GET", "/v1/models", "List models"],
  ["POST", "/v1/chat/completions", "Chat, streaming or not"],
  ["POST", "/v1/completions", "Text completion"],
  ["POST", "/v1/responses", "OpenAI's Responses API: text, images, functions"],
  ["POST", "/v1/messages", "Anthropic's Messages API; also /v1/messages/count_tokens"],
  ["POST", "/v1/embeddings", "Embeddings, by an embedding model; also /v1/rerank"],
  ["POST", "/tokenize", "Tokens and templates, as in llama.cpp; also /infill and others"],
  ["POST", "/api/chat", "Ollama's protocol; also /api/generate, /api/tags and others"],
];

function ServerPage() {
  const shown = ui.usePage() === "server";
  const { act: ask, answer: state, error, refresh } = ui.useAnswer<ApiState>("api_state", shown);
  const [open, setOpen] = useState(false); // the key is shown
  const [last, setLast] = useState(""); // what was done last
  const loaded = ui.useStatus()?.loaded?.id;
  useEffect(() => void (shown && refresh()), [loaded]);
  const act: Act = (name, text) => {
    setLast(name);
    return ask("change_api", { act: name, text });
  };
  const ofSwitch = !last || last.startsWith("turn_"); // else the error is shown where it was done
  const base = `${location.origin}/v1`;
  return (
    <ui.PageFrame title="Server" intro="Use the loaded model from other programs, with the same drafting.">
      {state && (
        <ui.Panel class="api-switch">
          <ui.Toggle
            label="OpenAI-compatible API"
            hint="Also Anthropic's and Ollama's. When off, all of its addresses return 404."
            value={state.on}
            onChange={(on) => act(on ? "turn_on" : "turn_off")}
          />
          <dl class="address ft-row">
            <div>
              <dt class="ft-hint">Address</dt>
              <dd>
                <code>{base}</code> <ui.CopyButton text={base} />
              </dd>
            </div>
            <div>
              <dt class="ft-hint">Model</dt>
              <dd>{state.model ? <code>{state.model}</code> : "No model is loaded"}</dd>
            </div>
          </dl>
        </ui.Panel>
      )}
      <ui.ErrorNote text={ofSwitch ? error : ""} />
      {state && (
        <>
          <ui.Panel title="Examples">
            <Examples base={base} model={state.model ?? "pip"} apiKey={state.key} open={open} />
          </ui.Panel>
          <ui.Panel title="Requests">
            <Requests shown={shown} />
          </ui.Panel>
          <ui.Panel title="Access">
            <ui.ErrorNote text={ofSwitch ? "" : error} />
            <Key state={state} act={act} open={open} onOpen={setOpen} />
            <Origins origins={state.origins} act={act} />
          </ui.Panel>
          <ui.Panel title="Endpoints">
            <table class="ft-table endpoints">
              <tbody>
                {ENDPOINTS.map(([method, path, what]) => (
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
          </ui.Panel>
        </>
      )}
    </ui.PageFrame>
  );
}

const STORED = "foretoken.snippet"; // the tab that was opened last
const HIDDEN = "•".repeat(12); // is shown for a key

// The key is copied, and shown only if `open`.
type ExamplesProps = { base: string; model: string; apiKey: string | null; open: boolean };
function Examples({ base, model, apiKey, open }: ExamplesProps) {
  const [tab, setTab] = useState(() => {
    const stored = localStorage.getItem(STORED) ?? "";
    return stored in LANGUAGES ? stored : navigator.platform.startsWith("Win") ? "powershell" : "curl";
  });
  const show = (name: string) => {
    localStorage.setItem(STORED, name);
    setTab(name);
  };
  const copied = calls({ base, model, key: apiKey });
  const seen = calls({ base, model, key: apiKey && !open ? HIDDEN : apiKey });
  const tabs = Object.entries(LANGUAGES).map(([id, [title, hint]]) => ({
    id,
    title,
    pane: <ui.Copyable title={hint} code={copied[id]} shown={seen[id]} />,
  }));
  return <ui.Tabs name="call" label="Examples" tabs={tabs} shown={tab} onShow={show} />;
}

type KeyProps = { state: ApiState; act: Act; open: boolean; onOpen: (open: boolean) => void };
function Key({ state, act, open, onOpen }: KeyProps) {
  const { key, key_given: given, needs_key: needed } = state;
  const required = given ? "Required. It was set on the command line." : "Required.";
  const free = needed
    ? "Required, because other machines can reach this one. Set a key, or start with --api-key-file."
    : "Not required: only this machine can reach the server.";
  return (
    <>
      <h3>API key</h3>
      <div class="ft-row" data-access="key">
        <span>{key ? required : free}</span>
        {key && open && <code>{key}</code>}
        {key && (
          <ui.Button kind="link" text={open ? "Hide" : "Show"} data-act="show-key" onClick={() => onOpen(!open)} />
        )}
        {key && <ui.CopyButton text={key} />}
        {!given && (
          <ui.Button kind="link" data-act="make-key" onClick={() => act("make_key")}>
            {key ? "Generate a new one" : "Generate"}
          </ui.Button>
        )}
        {key && !given && !needed && (
          <ui.Button kind="link" data-act="remove-key" aria-label="Remove the key" onClick={() => act("remove_key")}>
            Remove
          </ui.Button>
        )}
      </div>
      {!given && <Adding name="key" label="Your own key" button="Set key" onAdd={(key) => act("set_key", key)} />}
    </>
  );
}

function Origins({ origins, act }: { origins: ApiState["origins"]; act: Act }) {
  const allow = (origin: string) => act("allow_origin", origin);
  const forbid = (origin: string) => act("forbid_origin", origin);
  return (
    <>
      <h3>Allowed websites (CORS)</h3>
      <p class="ft-hint">Pages of these websites may call the API from a browser.</p>
      {origins.length > 0 && (
        <ul class="origins ft-list ft-stack">
          {origins.map(([origin, given]) => (
            <li key={origin} class="ft-row">
              <code>{origin}</code>
              {given ? (
                <span class="ft-hint">set on the command line</span>
              ) : (
                <ui.Button kind="link" data-act="forbid" aria-label={`Remove ${origin}`} onClick={() => forbid(origin)}>
                  Remove
                </ui.Button>
              )}
            </li>
          ))}
        </ul>
      )}
      <Adding name="origin" label="Website" placeholder="http://localhost:3000" button="Allow" onAdd={allow} />
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
  const submit = async () => void ((await onAdd(text)) && setText(""));
  return (
    <ui.Form class="access-form ft-row" data-form={name} onSubmit={submit}>
      <ui.TextInput label={label} value={text} onChange={setText} placeholder={placeholder} />
      <ui.Button type="submit" text={button} />
    </ui.Form>
  );
}

ui.register("server", ServerPage);
