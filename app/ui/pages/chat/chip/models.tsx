// The models that can be loaded, each with the draft that is loaded with it and whether both fit. A click loads one.

import { Check, SlidersHorizontal } from "lucide";
import { useState } from "preact/hooks";
import { Button, Icon, PageLink, SearchBox, useFound, useTimer } from "../../../shared/components";
import { status as feed } from "../../../shared/frame/status";
import { words } from "../words";
import { LoadOptions } from "./load_options";
import type { ChatPage } from "../state/page";

export interface ModelRow {
  id: string;
  name: string;
  group: "here" | "server" | "away";
  draft: string; // what drafts for it: "+ 0.6B draft"
  comparing: boolean; // that is not known yet
  size: string;
  fits: "yes" | "part" | "no" | null;
  gated: boolean;
  loaded: boolean;
}

const COMPARED_MS = 700; // until models that are being compared are asked for again
const GROUPS = Object.keys(words.groups);

// The group under which a model is listed; what this machine cannot run comes last, folded.
const groupOf = ({ fits, group }: ModelRow) => (group === "away" && fits === "no" ? "large" : group);

export function Models({ page, status }: { page: ChatPage; status: any }) {
  const [text, setText] = useState("");
  const [options, setOptions] = useState(""); // the model whose load options are shown
  const { found, looking, loaded, opening } = status ?? {};
  const [again, setAgain] = useState(0);
  const inputs = [found, looking, loaded?.target, loaded?.draft, opening === null, again];
  const rows = useFound<ModelRow[]>(page.ask, "pair_models", {}, inputs);
  useTimer(rows?.some(({ comparing }) => comparing) && COMPARED_MS, () => setAgain(again + 1), [rows]);
  const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = rows?.filter(({ name, draft }) =>
    parts.every((part) => `${name} ${draft}`.toLowerCase().includes(part)),
  );
  const load = async (wanted: object) => {
    page.set({ choosing: true });
    const answer = await page.ask("load_pair", wanted);
    if (answer?.error) page.fail(answer.error, true);
    if (!answer || answer.error) page.set({ choosing: false });
    feed.refresh();
  };
  const unload = async () => {
    const answer = await page.ask("unload");
    if (answer?.error) page.fail(answer.error);
    feed.refresh();
  };
  return (
    <>
      <SearchBox label={words.searchModels} value={text} onChange={setText} />
      {GROUPS.map((group) => {
        const own = shown?.filter((row) => groupOf(row) === group) ?? [];
        const list = (
          <ul class="model-list ft-list">
            {own.map((row) => (
              <li key={row.id} data-model={row.id} class={row.loaded ? "loaded" : undefined}>
                <ModelButton row={row} busy={Boolean(status?.opening)} onLoad={() => load({ target: row.id })} />
                {row.loaded && row.group === "here" && (
                  <Button small data-act="unload" disabled={Boolean(status?.opening)} onClick={unload}>
                    {words.unload}
                  </Button>
                )}
                {row.group !== "server" && (
                  <Button
                    kind="quiet"
                    small
                    icon={SlidersHorizontal}
                    label={words.loadOptionsOf(row.name)}
                    title={words.loadOptions}
                    aria-expanded={options === row.id}
                    onClick={() => setOptions(options === row.id ? "" : row.id)}
                  />
                )}
                {options === row.id && <LoadOptions page={page} row={row} status={status} onLoad={load} />}
              </li>
            ))}
          </ul>
        );
        if (!own.length) return null;
        return group === "large" ? (
          <details key={group} class="ft-disclosure" open={parts.length > 0}>
            <summary>{words.groups[group]}</summary>
            {list}
          </details>
        ) : (
          <section key={group}>
            <h3>{words.groups[group]}</h3>
            {list}
          </section>
        );
      })}
      {shown && !shown.length && <p class="ft-hint">{words.noModels}</p>}
      <p class="ft-hint">
        <PageLink page="models">{words.allModels}</PageLink>
      </p>
    </>
  );
}

function ModelButton({ row, busy, onLoad }: { row: ModelRow; busy: boolean; onLoad: () => void }) {
  const { draft, fits, gated, group, loaded, name, size } = row;
  const told = [
    row.comparing ? "…" : draft,
    group === "away" ? words.download(size) : size,
    fits && words.fits[fits],
    group === "away" && gated && words.gated,
  ];
  return (
    <button
      class="model ft-bare ft-row"
      type="button"
      disabled={busy || loaded}
      aria-current={loaded ? "true" : undefined}
      onClick={onLoad}>
      <b>{name}</b>
      {loaded && (
        <span class="tag">
          <Icon of={Check} size={13} /> {words.isLoaded}
        </span>
      )}
      <span class={fits === "no" ? "about ft-fine warns" : "about ft-fine"}>{told.filter(Boolean).join(" · ")}</span>
    </button>
  );
}
