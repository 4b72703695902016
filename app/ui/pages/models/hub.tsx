// Models of the Hugging Face hub: a search by words, or a repository that is named, with its files.

import { useEffect, useState } from "preact/hooks";
import { Button, ErrorNote, Form, Panel, Tag, TextInput } from "../../shared/components";
import { useModels } from "./state";
import { Token, Transfers } from "./transfers";
import { words } from "./words";

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
  const { ask } = useModels();
  const [text, setText] = useState("");
  const [asking, setAsking] = useState(false);
  const [named, setNamed] = useState(""); // the repository that is open by itself
  const [found, setFound] = useState<{ hits: Hit[]; error: string | null } | null>(null);
  const submit = async () => {
    const name = REPOSITORY.test(text) ? text.trim() : "";
    setFound(null);
    setNamed(name);
    if (name) return;
    setAsking(true);
    setFound(await ask("search", { words: text }));
    setAsking(false);
  };
  return (
    <Panel class="hub">
      <Form class="line-form ft-row" onSubmit={submit}>
        <TextInput
          label={words.repository}
          hint={words.hubInfo}
          name="repository"
          value={text}
          onChange={setText}
          placeholder={words.repositoryHint}
        />
        <Button kind="primary" type="submit" text={words.searchHub} disabled={asking} />
      </Form>
      <div class="looked-up ft-stack" aria-live="polite">
        {asking && <p class="ft-hint">{words.searching}</p>}
        <ErrorNote text={found?.error} />
        {found && !found.error && !found.hits.length && <p class="ft-hint">{words.noHits}</p>}
        {found && (
          <ul class="lines">
            {found.hits.map((hit) => (
              <HitLine key={hit.name} hit={hit} />
            ))}
          </ul>
        )}
        {named && <Repository key={named} name={named} />}
      </div>
    </Panel>
  );
}

function HitLine({ hit }: { hit: Hit }) {
  const [open, setOpen] = useState(false);
  const [owner, name] = hit.name.split("/");
  return (
    <li data-repository={hit.name}>
      <span>
        <span class="owner">{owner}/</span>
        <b>{name}</b> <Tag title={words.downloadsHint} text={words.downloadsOf(hit.downloads)} />{" "}
        <Tag text={words.likes(hit.likes)} /> {hit.gated && <Gated />}
      </span>
      <Button small aria-expanded={open} aria-label={words.filesOf(hit.name)} onClick={() => setOpen(!open)}>
        {words.files}
      </Button>
      {open && <Repository name={hit.name} />}
    </li>
  );
}

export const Gated = () => <Tag title={words.gatedHint} look="warn" text={words.gated} />;

// The files of a repository.
function Repository({ name }: { name: string }) {
  const { ask, open, download, busy } = useModels();
  const [found, setFound] = useState<any>(null);
  const look = async () => setFound((await ask("look_up", { repository: name })) ?? { name, choices: [] });
  useEffect(() => void look(), [name]);
  if (!found) return <p class="ft-hint">{words.searching}</p>;
  if (found.error)
    return (
      <div class="repository ft-stack">
        <ErrorNote text={found.error} />
        {found.needs_token && <Token onKept={look} />}
      </div>
    );
  return (
    <div class="repository ft-stack">
      <p>
        <b>{words.inRepository(found.name)}</b> <Tag text={found.licence} /> {found.gated && <Gated />}
      </p>
      <ErrorNote text={found.reason} />
      <ul class="lines">
        {found.choices.map((each: Choice) => (
          <li key={each.key}>
            <span>
              <b>{each.name}</b> <Tag text={each.type} /> <Tag text={each.size} />{" "}
              <Tag
                title={each.fit}
                look={each.fits ? "good" : "warn"}
                text={each.fits ? words.fileFits.yes : each.fit}
              />
            </span>
            {each.path ? (
              <Button small text={words.load} disabled={busy} onClick={() => open({ folder: each.path })} />
            ) : (
              <Button small text={words.download(each.size)} onClick={() => download({ key: each.key })} />
            )}
            <Transfers keys={[each.key]} />
          </li>
        ))}
      </ul>
    </div>
  );
}
