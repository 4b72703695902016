// Models of the Hugging Face hub: a search by words, or a repository that is named, with its files.

import { useState } from "preact/hooks";
import * as ui from "../../shared/components";
import { type Download, useModels } from "./state";

type Hit = { name: string; downloads: string; likes: string; gated: boolean };

type Choice = {
  key: string;
  name: string;
  type: string;
  size: string;
  fits: boolean;
  fit: string;
  path: string | null;
};

const REPOSITORY = /:\/\/|^\s*[\w.-]+\/[\w.-]+\s*$/;

export function Hub() {
  const { ask, error } = ui.useServer();
  const [text, setText] = useState("");
  const [asking, setAsking] = useState(false);
  const [named, setNamed] = useState({ name: "", asked: 0 }); // the repository that is open by itself
  const [found, setFound] = useState<Hit[] | null>(null);
  const submit = async () => {
    const name = REPOSITORY.test(text) ? text.trim() : "";
    setFound(null);
    setNamed(({ asked }) => ({ name, asked: asked + 1 }));
    if (name) return;
    setAsking(true);
    setFound(await ask("search", { words: text }));
    setAsking(false);
  };
  return (
    <ui.Panel class="hub">
      <ui.Form class="line-form ft-row" onSubmit={submit}>
        <ui.TextInput
          label="Model or repository"
          hint="Finds repositories with GGUF files, or opens any repository by owner/name. Only what you type is sent."
          name="repository"
          value={text}
          onChange={setText}
          placeholder="qwen3.5 4b, owner/name, or the address of its page"
        />
        <ui.Button kind="primary" type="submit" text="Search" disabled={asking} />
      </ui.Form>
      <div class="looked-up ft-stack" aria-live="polite">
        {asking && <p class="ft-hint">Searching …</p>}
        <ui.ErrorNote text={error} />
        {found && !found.length && <p class="ft-hint">No matches. Try fewer words.</p>}
        {found && (
          <ul class="ft-list lines">
            {found.map((hit) => (
              <HitLine key={hit.name} hit={hit} />
            ))}
          </ul>
        )}
        {named.name && <Repository key={named.asked} name={named.name} />}
      </div>
    </ui.Panel>
  );
}

function HitLine({ hit }: { hit: Hit }) {
  const [open, setOpen] = useState(false);
  const [owner, name] = hit.name.split("/");
  return (
    <li data-repository={hit.name}>
      <span>
        <span class="owner">{owner}/</span>
        <b>{name}</b>{" "}
        <ui.Tag
          title="In the last 30 days"
          text={hit.downloads === "1" ? "1 download" : `${hit.downloads} downloads`}
        />{" "}
        <ui.Tag text={hit.likes === "1" ? "1 like" : `${hit.likes} likes`} /> {hit.gated && <Gated />}
      </span>
      <ui.Button small aria-expanded={open} aria-label={`Files of ${hit.name}`} onClick={() => setOpen(!open)}>
        Files
      </ui.Button>
      {open && <Repository name={hit.name} />}
    </li>
  );
}

export const Gated = () => (
  <ui.Tag title="The owner asks you to accept terms; needs an access token" look="warn" text="gated" />
);

// The files of a repository.
function Repository({ name }: { name: string }) {
  const { open, download, busy } = useModels();
  const { ask, error } = ui.useServer();
  const [tokens, setTokens] = useState(0); // that were given
  const found = ui.useFound<any>(ask, "look_up", { repository: name }, [name, tokens]);
  if (error) return <ui.ErrorNote text={error} />;
  if (!found) return <p class="ft-hint">Searching …</p>;
  if (found.needs_token)
    return (
      <div class="repository ft-stack">
        <ui.ErrorNote text={found.needs_token} />
        <Token onKept={() => setTokens(tokens + 1)} />
      </div>
    );
  return (
    <div class="repository ft-stack">
      <p>
        <b>In {found.name}</b> <ui.Tag text={found.licence} /> {found.gated && <Gated />}
      </p>
      <ui.ErrorNote text={found.reason} />
      <ul class="ft-list lines">
        {found.choices.map((each: Choice) => (
          <li key={each.key}>
            <span>
              <b>{each.name}</b> <ui.Tag text={each.type} /> <ui.Tag text={each.size} />{" "}
              <ui.Tag title={each.fit} look={each.fits ? "good" : "warn"} text={each.fits ? "fits" : each.fit} />
            </span>
            {each.path ? (
              <ui.Button small text="Load" disabled={busy} onClick={() => open({ folder: each.path })} />
            ) : (
              <ui.Button small text={`Download ${each.size}`} onClick={() => download({ key: each.key })} />
            )}
            <Transfers keys={[each.key]} />
          </li>
        ))}
      </ul>
    </div>
  );
}

// ---- downloads, shown where they were started: progress, pause and resume, and what to do about a failure

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
    <ui.Panel title="Downloads">
      <Transfers keys={others} />
    </ui.Panel>
  );
}

const STATES: Record<string, string> = { waiting: "queued", running: "downloading", unusable: "not supported" };

function progressOf({ done, total, speed, eta }: Download) {
  return [total ? `${done} of ${total}` : done, speed, eta && `${eta} left`].filter(Boolean).join(", ");
}

function Transfer({ id, download: one }: { id: string; download: Download }) {
  const { ask, follow } = useModels();
  const act = (name: string) => ask(name, { key: id }).then(follow);
  const command = /hf download .*/.exec(one.error ?? "")?.[0].trim(); // for a machine with internet access
  const resting = one.state === "paused" || one.state === "failed";
  const again = one.unusable ? "Download again" : one.state === "failed" ? "Try again" : "Resume";
  const discard = one.unusable ? "Delete" : one.arrived ? "Discard download" : "Dismiss";
  return (
    <div class="transfer ft-stack ft-box" data-state={one.state}>
      <div class="transfer-head ft-row">
        <b>{one.name}</b>
        <span class="source ft-fine">{one.source}</span>
        <ui.Status text={one.waiting || (STATES[one.unusable ? "unusable" : one.state] ?? one.state)} />
        <span class="ft-hint figures">{progressOf(one)}</span>
        <span class="ft-row">
          {!resting && <ui.Button small text="Pause" onClick={() => act("pause")} />}
          {resting && <ui.Button small text={again} onClick={() => act("download")} />}
          {resting && <ui.Button small text={discard} onClick={() => act("discard")} />}
        </span>
      </div>
      <progress max={1} value={one.share ?? undefined} aria-label={`Download of ${one.name}`} />
      <ui.ErrorNote text={one.error} />
      {command && (
        <p class="ft-hint">
          The hf command: <ui.CopyButton text={command} label="Copy the hf command" />
        </p>
      )}
      {one.needs_token && <Token page={one.page} onKept={() => act("download")} />}
    </div>
  );
}

// Asks for an access token of the hub; `page`: where it is made.
export function Token({ page, onKept }: { page?: string; onKept: () => void }) {
  const { ask, error } = ui.useServer();
  const [token, setToken] = useState("");
  const [kept, setKept] = useState(""); // where
  const submit = async () => {
    const told = await ask("keep_token", { token });
    setKept(told ?? "");
    if (told) onKept();
  };
  return (
    <ui.Form class="token line-form ft-row" onSubmit={submit}>
      {page && (
        <p class="ft-hint">
          Accept the terms on the model's page, then create a token there.{" "}
          <a href={page} target="_blank" rel="noopener noreferrer">
            Model page
          </a>
        </p>
      )}
      <ui.TextInput
        label="Access token"
        type="password"
        name="token"
        value={token}
        onChange={setToken}
        placeholder="hf_…"
      />
      <ui.Button type="submit">Save token and retry</ui.Button>
      <ui.Status text={error || kept} />
    </ui.Form>
  );
}
