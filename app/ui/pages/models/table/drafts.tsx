// The drafts and heads for a model, and why others do not fit.

import { useState } from "preact/hooks";
import { Check, X } from "lucide";
import { Button, Disclosure, ErrorNote, Icon, Tag, useFound, useTimer } from "../../../shared/components";
import { useModels, type Row } from "../state";
import { words } from "../words";

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

type WhyNot = { drafts: Draft[]; mtp: boolean; pending: boolean; here: boolean; error: string | null };

const AGAIN_MS = 700; // while vocabularies are compared

export function Drafts({ row, context, onShow }: { row: Row; context: number | null; onShow: (pair: object) => void }) {
  const { ask, table, status } = useModels();
  const [again, setAgain] = useState(0);
  const inputs = [row.id, again, table, status?.written];
  const known = useFound<WhyNot>(ask, "why_not", { target: row.id }, inputs);
  useTimer(known?.pending && AGAIN_MS, () => setAgain(again + 1), [known]);
  const fits = known?.drafts.filter((draft) => !draft.reason) ?? [];
  const rest = known?.drafts.filter((draft) => draft.reason) ?? [];
  const group = (title: string, drafts: Draft[]) =>
    drafts.length > 0 && (
      <>
        <h4>{title}</h4>
        <ul>
          {drafts.map((draft) => (
            <DraftLine key={draft.id} draft={draft} context={context} onShow={onShow} />
          ))}
        </ul>
      </>
    );
  return (
    <section class="drafts" aria-label={words.drafters}>
      <h3>{words.drafters}</h3>
      {known?.mtp && (
        <ul>
          <li class="yes">
            <span>
              <Icon of={Check} size={14} /> <b>MTP</b> {words.mtp}
            </span>
          </li>
        </ul>
      )}
      {group(
        words.groups.heads,
        fits.filter((draft) => draft.kind !== "draft"),
      )}
      {group(
        words.groups.same,
        fits.filter((draft) => draft.kind === "draft" && !draft.across),
      )}
      {group(
        words.groups.across,
        fits.filter((draft) => draft.across),
      )}
      <ErrorNote text={known?.error} />
      {known && !known.error && (
        <>
          <h4>{words.noDraftModel}</h4>
          <ul>
            <li class="yes">
              <span>{words.always}</span>
              {known.here && (
                <LoadButton pair={{ target: row.id, draft: "" }} context={context} label={words.loadWithout} />
              )}
            </li>
          </ul>
        </>
      )}
      {known?.pending && <p class="ft-hint">{words.comparing}</p>}
      {rest.length > 0 && (
        <div class="others">
          <Disclosure summary={words.incompatible(rest.length)}>
            <ul>
              {rest.map((draft) => (
                <li key={draft.id} class="no">
                  <Icon of={X} size={14} /> <b>{draft.name}</b> {draft.reason}
                </li>
              ))}
            </ul>
          </Disclosure>
        </div>
      )}
    </section>
  );
}

// Loads a pair; nothing if it is loaded.
type LoadButtonProps = {
  pair: { target: string; draft: string; heads?: string[] };
  context: number | null;
  label: string;
};
function LoadButton({ pair, context, label }: LoadButtonProps) {
  const { open, busy, status } = useModels();
  const loaded = status?.loaded;
  if (!pair.heads && loaded?.target === pair.target && (loaded?.draft ?? "") === pair.draft) return null;
  return <Button small text={label} disabled={busy} onClick={() => open({ ...pair, context })} />;
}

type DraftLineProps = { draft: Draft; context: number | null; onShow: (pair: object) => void };
function DraftLine({ draft, context, onShow }: DraftLineProps) {
  const { download } = useModels();
  return (
    <li class="yes">
      <span>
        <Icon of={Check} size={14} /> <b>{draft.name}</b>{" "}
        {draft.kind === "draft" ? words.fitsDraft(draft.across) : words.fitsHead(draft.kind)}{" "}
        <span class="tags">
          <Tag text={draft.size} />
          <Tag
            title={draft.measured ? words.measuredHint : undefined}
            look={draft.faster ? "good" : ""}
            text={draft.measured ?? words.notMeasured}
          />
          {draft.break_even !== null && <Tag title={words.breakEvenHint} text={words.breakEven(draft.break_even)} />}
        </span>
      </span>
      <span class="ft-row">
        <Button kind="link" aria-label={words.memoryWith(draft.name)} onClick={() => onShow(draft.open)}>
          {words.showMemory}
        </Button>
        {draft.here && <LoadButton pair={draft.open} context={context} label={words.loadWith} />}
        {!draft.here && draft.downloads.length > 0 && (
          <Button small text={words.download(draft.size)} onClick={() => download({ id: draft.id })} />
        )}
      </span>
    </li>
  );
}
