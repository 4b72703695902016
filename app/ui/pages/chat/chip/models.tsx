// The models that can be loaded, each with the draft that is loaded with it and whether both fit. A click loads one.

import { Check, SlidersHorizontal } from "lucide";
import { useEffect, useRef, useState } from "preact/hooks";
import {
  Button,
  IconButton,
  Form,
  Icon,
  NumberInput,
  PageLink,
  SearchBox,
  Select,
  useFound,
  useTimer,
} from "../../../shared/components";
import { status as feed } from "../../../shared/frame/status";
import type { ChatPage } from "../state/page";
import { count } from "../../../shared/format";
import * as load from "../../../shared/load_options";

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
const FITS = { yes: "", part: "fits with shorter context", no: "does not fit" };
const GROUPS = {
  here: "On this machine",
  server: "On servers",
  away: "To download",
  large: "Too large for this machine",
};

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
    if (!(await page.ask("load_pair", wanted))) page.set({ choosing: false });
    feed.refresh();
  };
  const unload = async () => {
    await page.ask("unload");
    feed.refresh();
  };
  return (
    <>
      <SearchBox label="Search models" value={text} onChange={setText} />
      {Object.entries(GROUPS).map(([group, title]) => {
        const own = shown?.filter((row) => groupOf(row) === group) ?? [];
        const list = (
          <ul class="model-list ft-list">
            {own.map((row) => (
              <li key={row.id} data-model={row.id} class={row.loaded ? "loaded" : undefined}>
                <ModelButton row={row} busy={Boolean(status?.opening)} onLoad={() => load({ target: row.id })} />
                {row.loaded && row.group === "here" && (
                  <Button small text="Unload" data-act="unload" disabled={Boolean(status?.opening)} onClick={unload} />
                )}
                {row.group !== "server" && (
                  <IconButton
                    icon={SlidersHorizontal}
                    label={`Load options of ${row.name}`}
                    title="Load options"
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
            <summary>{title}</summary>
            {list}
          </details>
        ) : (
          <section key={group}>
            <h3>{title}</h3>
            {list}
          </section>
        );
      })}
      {shown && !shown.length && <p class="ft-hint">No matches.</p>}
      <p class="ft-hint">
        <PageLink page="models">More models, downloads and servers</PageLink>
      </p>
    </>
  );
}

function ModelButton({ row, busy, onLoad }: { row: ModelRow; busy: boolean; onLoad: () => void }) {
  const { draft, fits, gated, group, loaded, name, size } = row;
  const told = [
    row.comparing ? "…" : draft,
    group === "away" ? `Download ${size}` : size,
    fits && FITS[fits],
    group === "away" && gated && "needs an access token",
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
          <Icon of={Check} size={13} /> Loaded
        </span>
      )}
      <span class={fits === "no" ? "about ft-fine warns" : "about ft-fine"}>{told.filter(Boolean).join(" · ")}</span>
    </button>
  );
}

// ---- how a model is loaded: its draft and the precision of its weights, and what is remembered for it: context, threads, the precision of the KV cache

const contextHint = ({ largest, longest }: any) =>
  longest ? `Up to ${count(longest)}${largest && largest < longest ? `; ${count(largest)} fit now` : ""}` : "";

// `onLoad` is called with the options.
type LoadOptionsProps = { page: ChatPage; row: ModelRow; status: any; onLoad: (wanted: object) => void };
export function LoadOptions({ page, row, status, onLoad }: LoadOptionsProps) {
  const [offer, setOffer] = useState<any>(null); // the fields of the pair
  const [chosen, setChosen] = useState<Record<string, string>>({}); // of these, what was chosen here
  const [kept, setKept] = useState<load.LoadOptions | null>(null); // what is remembered
  const asked = useRef(0); // only the newest question's answer counts
  const ask = async (wanted: object) => {
    const own = ++asked.current;
    const answer = await page.ask("pair_choices", { target: row.id, ...wanted });
    if (answer && own === asked.current) setOffer(answer);
  };
  useEffect(() => {
    setChosen({});
    ask({});
    page.ask("load_options", { target: row.id }).then(setKept);
  }, [row.id, row.loaded]);
  useTimer(offer?.comparing && COMPARED_MS, () => void ask(chosen), [offer, chosen]);
  if (!offer) return null;
  // A choice counts before the offer that follows from it: Load may be pressed meanwhile.
  const pair = Object.fromEntries(offer.fields.map(({ name, value }: any) => [name, chosen[name] ?? value]));
  const choose = (name: string, value: string) => {
    setChosen({ ...chosen, [name]: value });
    ask({ ...chosen, [name]: value });
  };
  const submit = async () => {
    const own = kept && { target: row.id, ...load.valuesOf(kept) };
    if (!own || (await page.ask("keep_load_options", own))) onLoad({ target: row.id, ...pair });
  };
  const change = (name: keyof load.LoadOptions, value: unknown) =>
    setKept((now) => now && load.withValue(now, name, value));
  return (
    <Form class="load-options ft-fields" onSubmit={submit}>
      {offer.fields.map(({ name, label, choices }: any) => (
        <div key={name} id={name}>
          <Select label={label} value={pair[name]} options={choices} onChange={(now) => choose(name, now)} />
        </div>
      ))}
      {kept && (
        <>
          <NumberInput
            label="Context, tokens"
            hint={load.setBy(kept.fixed.context) ?? contextHint(kept.context)}
            value={kept.context.value}
            min={256}
            max={kept.context.longest || undefined}
            placeholder="Automatic"
            disabled={Boolean(kept.fixed.context)}
            onChange={(value) => change("context", value)}
          />
          <load.LoadOptionFields options={kept} onChange={change} />
        </>
      )}
      <Button kind="primary" type="submit" id="load-pair" disabled={Boolean(status?.opening)}>
        {row.loaded ? "Reload with these" : offer.load}
      </Button>
    </Form>
  );
}
