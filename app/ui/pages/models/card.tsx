// A model's card: its facts, its files, the memory it takes, and what can draft for it.

import { useEffect, useState } from "preact/hooks";
import { Check, X } from "lucide";
import * as ui from "../../shared/components";
import { Gated } from "./hub";
import { Memory } from "./memory";
import { useModels, type Row } from "./state";

type CardProps = { row: Row; context: number | null; onContext: (context: number | null) => void };
export function Card({ row, context, onContext }: CardProps) {
  const own = row.pair ? { pair: row.pair } : { target: row.id, draft: row.draft.id };
  const [pair, setPair] = useState<object>(own); // whose memory is shown
  const asked = `${row.pair} ${row.here} ${row.draft.id} ${row.type}`;
  useEffect(() => setPair(own), [asked]);
  return (
    <article class="card ft-box" data-target={row.id}>
      <Facts row={row} />
      {row.files.length > 0 && <Files row={row} />}
      <Memory row={row} pair={pair} context={context} onContext={onContext} />
      <Drafts row={row} context={context} onShow={setPair} />
    </article>
  );
}

function Facts({ row }: { row: Row }) {
  const { change } = useModels();
  const tags = [
    row.architecture,
    row.parameters_text && `${row.parameters_text} parameters`,
    row.type,
    row.size,
    row.context && `${row.context} tokens of context`,
    row.licence,
  ].filter(Boolean);
  return (
    <div class="facts ft-stack">
      {row.pair_name && row.pair_name !== row.name && <p class="model-name">Pair: {row.pair_name}</p>}
      {row.note && <p class="ft-hint">{row.note}</p>}
      <p class="tags">
        <ui.Tag look={row.here ? "good" : "elsewhere"} text={row.here ? "on this machine" : "not downloaded"} />
        {tags.map((text) => (
          <ui.Tag key={text} text={text} />
        ))}
        {row.gated && <Gated />}
      </p>
      <p class="source ft-fine">{row.path ?? row.source}</p>
      {row.recent && (
        <ui.Button kind="link" title="The files stay" onClick={() => change("forget", { path: row.path })}>
          Remove from list
        </ui.Button>
      )}
    </div>
  );
}

// ---- the files in which the catalog has a model, the default one marked, and the drafters published for it

// What `_file` of the backend returns.
interface File {
  id: string;
  key: string;
  name: string;
  place: string;
  size: string;
  fits: "yes" | "part" | "no" | null;
  fit: string;
  gated: boolean;
  here: boolean;
  head: boolean;
  chosen: boolean;
}

export const FITS = { yes: "fits", part: "fits with shorter context", no: "too large" };

type FilesView = { files: File[]; drafters: File[]; whole: string };

function Files({ row }: { row: Row }) {
  const { ask, table } = useModels();
  const found = ui.useFound<FilesView>(ask, "files", { target: row.id }, [row.id, table]);
  const group = (title: string, files: File[] = []) =>
    files.length > 0 && (
      <div>
        <h3>{title}</h3>
        <ul class="ft-list lines">
          {files.map((one) => (
            <FileLine key={one.key} one={one} whole={found?.whole ?? ""} />
          ))}
        </ul>
      </div>
    );
  return (
    <section class="model-files" aria-label="Files">
      {group("Files", found?.files)}
      {group("Published drafters", found?.drafters)}
    </section>
  );
}

function FileLine({ one, whole }: { one: File; whole: string }) {
  const { open, download, busy } = useModels();
  return (
    <li>
      <span>
        <b title={one.place}>{one.name}</b>{" "}
        <span class="tags">
          <ui.Tag text={one.size} />
          {one.fits && <ui.Tag title={one.fit} look={one.fits === "yes" ? "good" : "warn"} text={FITS[one.fits]} />}
          {one.gated && <Gated />}
          {one.chosen && (
            <ui.Tag
              look="place"
              text={one.here ? "default" : whole ? `default download, ${whole} with its drafter` : "default download"}
            />
          )}
        </span>
      </span>
      {!one.here && (
        <ui.Button small aria-label={`Download ${one.name}`} onClick={() => download({ id: one.id })}>
          Download {one.size}
        </ui.Button>
      )}
      {one.here && (one.head || one.chosen) && <span class="ft-hint">on this machine</span>}
      {one.here && !one.head && !one.chosen && (
        <ui.Button small text="Load" disabled={busy} onClick={() => open({ target: one.id })} />
      )}
    </li>
  );
}

// ---- the drafts and heads for a model, and why others do not fit

// What `why_not` of the backend answers of each.
interface Draft {
  id: string;
  kind: string; // draft, or the kind of head
  name: string;
  reason: string | null; // why it does not fit
  across: string | null; // how it drafts across vocabularies
  here: boolean;
  size: string;
  downloads: string[]; // keys
  measured: string | null;
  faster: boolean;
  break_even: number | null;
  open: { target: string; draft: string; heads?: string[] };
}

type WhyNot = { drafts: Draft[]; mtp: boolean; pending: boolean; here: boolean };

const AGAIN_MS = 700; // while vocabularies are compared

function Drafts({ row, context, onShow }: { row: Row; context: number | null; onShow: (pair: object) => void }) {
  const { table, status } = useModels();
  const { ask, error } = ui.useServer();
  const [again, setAgain] = useState(0);
  const inputs = [row.id, again, table, status?.written];
  const known = ui.useFound<WhyNot>(ask, "why_not", { target: row.id }, inputs);
  ui.useTimer(known?.pending && AGAIN_MS, () => setAgain(again + 1), [known]);
  const fits = known?.drafts.filter((draft) => !draft.reason) ?? [];
  const rest = known?.drafts.filter((draft) => draft.reason) ?? [];
  const group = (title: string, belongs: (draft: Draft) => boolean) => {
    const drafts = fits.filter(belongs);
    return (
      drafts.length > 0 && (
        <>
          <h4>{title}</h4>
          <ul class="ft-list">
            {drafts.map((draft) => (
              <DraftLine key={draft.id} draft={draft} context={context} onShow={onShow} />
            ))}
          </ul>
        </>
      )
    );
  };
  return (
    <section class="drafts" aria-label="Compatible drafts">
      <h3>Compatible drafts</h3>
      {known?.mtp && (
        <ul class="ft-list">
          <li class="yes">
            <span>
              <ui.Icon of={Check} size={14} /> <b>MTP</b> built in, used by default
            </span>
          </li>
        </ul>
      )}
      {group("Heads for this model", ({ kind }) => kind !== "draft")}
      {group("Same vocabulary", ({ kind, across }) => kind === "draft" && !across)}
      {group("Different vocabulary (slower)", ({ across }) => Boolean(across))}
      <ui.ErrorNote text={error} />
      {known && (
        <>
          <h4>No draft model</h4>
          <ul class="ft-list">
            <li class="yes">
              <span>N-gram and Suffix work with every model.</span>
              {known.here && (
                <LoadButton pair={{ target: row.id, draft: "" }} context={context} label="Load without a draft" />
              )}
            </li>
          </ul>
        </>
      )}
      {known?.pending && <p class="ft-hint">Comparing vocabularies …</p>}
      {rest.length > 0 && (
        <div class="others">
          <ui.Disclosure summary={`Not suitable (${rest.length})`}>
            <ul class="ft-list">
              {rest.map((draft) => (
                <li key={draft.id} class="no">
                  <ui.Icon of={X} size={14} /> <b>{draft.name}</b> {draft.reason}
                </li>
              ))}
            </ul>
          </ui.Disclosure>
        </div>
      )}
    </section>
  );
}

// Loads a pair; nothing if it is loaded.
type LoadButtonProps = { pair: Draft["open"]; context: number | null; label: string };
function LoadButton({ pair, context, label }: LoadButtonProps) {
  const { open, busy, status } = useModels();
  const loaded = status?.loaded;
  if (!pair.heads && loaded?.target === pair.target && (loaded?.draft ?? "") === pair.draft) return null;
  return <ui.Button small text={label} disabled={busy} onClick={() => open({ ...pair, context })} />;
}

type DraftLineProps = { draft: Draft; context: number | null; onShow: (pair: object) => void };
function DraftLine({ draft, context, onShow }: DraftLineProps) {
  const { download } = useModels();
  return (
    <li class="yes">
      <span>
        <ui.Icon of={Check} size={14} /> <b>{draft.name}</b>{" "}
        {draft.kind === "draft" && (draft.across ?? "Compatible: same vocabulary, smaller")}{" "}
        <span class="tags">
          <ui.Tag text={draft.size} />
          <ui.Tag
            title={draft.measured ? "Compared with no drafting on this machine" : undefined}
            look={draft.faster ? "good" : ""}
            text={draft.measured ?? "not measured yet"}
          />
          {draft.break_even !== null && (
            <ui.Tag
              title="With less acceptance, this draft is slower than no draft. Estimated from the sizes of the two models"
              text={
                draft.break_even >= 1
                  ? "too large to help"
                  : `break-even ${Math.max(1, Math.round(100 * draft.break_even))} % accepted`
              }
            />
          )}
        </span>
      </span>
      <span class="ft-row">
        <ui.Button kind="link" aria-label={`Show memory with ${draft.name}`} onClick={() => onShow(draft.open)}>
          Show memory
        </ui.Button>
        {draft.here && <LoadButton pair={draft.open} context={context} label="Load with this draft" />}
        {!draft.here && draft.downloads.length > 0 && (
          <ui.Button small text={`Download ${draft.size}`} onClick={() => download({ id: draft.id })} />
        )}
      </span>
    </li>
  );
}
