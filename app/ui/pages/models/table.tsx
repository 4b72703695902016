// The table of all models, with filters and sorting. Under each model are its downloads and, once opened, its card.

import { useState } from "preact/hooks";
import { ArrowDown, ArrowUp, Check, ChevronDown, ChevronRight, Minus, RefreshCw, X } from "lucide";
import { Button, ErrorNote, Icon, PageLink, Select, Tag, TextInput } from "../../shared/components";
import { count as formatted, several, times } from "../../shared/format";
import { Card } from "./card";
import { useModels, type Row } from "./state";
import { OtherTransfers, Transfers } from "./hub";

const COLUMNS = { name: "Model", bytes: "Size", fits: "In memory", draft: "Loads with" };
const WHERE = { all: "All", here: "On this machine", away: "To download" };
const SIZES = ["any", "1", "4", "16"].map((id) => ({ id, label: id === "any" ? "Any size" : `Up to ${id} GB` }));

type Column = keyof typeof COLUMNS;

const FIT_ORDER = { yes: 0, part: 1, no: 2 };
const NONE = { text: "", where: "all", size: "any", fits: false, draft: false };

// The sort keys; null sorts last in either direction.
const KEYS: Record<Column, (row: Row) => string | number | null> = {
  name: (row) => row.name.toLowerCase(),
  bytes: (row) => row.bytes || null,
  fits: (row) => (row.fits ? FIT_ORDER[row.fits] : null),
  draft: (row) => row.draft.name.toLowerCase() || null,
};

// Returns what finds `part` in a name: "qwen3" does not find "qwen3.5", nor "4b" "14b".
function finder(part: string) {
  const escaped = part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`${/^\d/.test(part) ? "(?<![\\d.])" : ""}${escaped}${/\d$/.test(part) ? "(?!\\.?\\d)" : ""}`, "i");
}

function filtered(rows: Row[], { text, where, size, fits, draft }: typeof NONE) {
  const parts = text.split(/\s+/).filter(Boolean).map(finder);
  return rows.filter((row) => {
    const names = [row.name, row.file, row.id, row.source, row.path, row.licence, ...row.pairs].join(" ");
    return (
      parts.every((part) => part.test(names)) &&
      (where === "all" || row.here === (where === "here")) &&
      (size === "any" || (row.bytes > 0 && row.bytes <= Number(size) * 1e9)) &&
      (!fits || row.fits === "yes" || row.fits === "part") &&
      (!draft || row.draft.name)
    );
  });
}

function sorted(rows: Row[], order: [Column, 1 | -1] | null) {
  if (!order) return rows;
  const [column, sign] = order;
  return [...rows].sort((one, other) => {
    const [a, b] = [KEYS[column](one), KEYS[column](other)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return (a < b ? -1 : a > b ? 1 : 0) * sign;
  });
}

export function Table() {
  const { table, refresh } = useModels();
  const [filter, setFilter] = useState(NONE);
  const [order, setOrder] = useState<[Column, 1 | -1] | null>(null); // null: what is here first
  const [open, setOpen] = useState<string[]>([]); // ids of rows whose card is open
  if (!table) return null;
  const rows = sorted(filtered(table.rows, filter), order);
  const set = (values: Partial<typeof NONE>) => setFilter((before) => ({ ...before, ...values }));
  const toggle = (id: string) =>
    setOpen((before) => (before.includes(id) ? before.filter((each) => each !== id) : [...before, id]));
  const [count, of] = [rows.length, table.rows.length];
  return (
    <section class="models-section ft-stack ft-gap-3" aria-label="Models">
      <div class="filters ft-row" role="search">
        <TextInput
          type="search"
          name="search"
          value={filter.text}
          onChange={(text) => set({ text })}
          placeholder="Search by name, owner or licence"
          aria-label="Search"
        />
        <Select
          name="where"
          aria-label="Where"
          value={filter.where}
          options={WHERE}
          onChange={(where) => set({ where })}
        />
        <Select name="size" aria-label="Size" value={filter.size} options={SIZES} onChange={(size) => set({ size })} />
        <Tick label="Fits in memory" value={filter.fits} onChange={(fits) => set({ fits })} />
        <Tick label="Has a draft" value={filter.draft} onChange={(draft) => set({ draft })} />
        <Button small icon={RefreshCw} text="Rescan" data-action="again" onClick={() => refresh({ again: true })} />
      </div>
      <p class="ft-hint counted">
        <span role="status">
          {count < of && `${count} of `}
          {several(of, "model")}
          {table.looking && `, scanning …`}
        </span>{" "}
        {JSON.stringify(filter) !== JSON.stringify(NONE) && (
          <Button kind="link" text="Clear filters" onClick={() => setFilter(NONE)} />
        )}
      </p>
      {table.problems.map((problem) => (
        <ErrorNote key={problem} text={problem} />
      ))}
      <OtherTransfers except={rows.flatMap(keysOf)} />
      <div class="table-box ft-box">
        <table class="models-table ft-table">
          <thead>
            <tr>
              {(Object.keys(COLUMNS) as Column[]).map((column) => (
                <SortHead key={column} column={column} order={order} onOrder={setOrder} />
              ))}
              <th scope="col" class="action">
                <span class="sr-only">Action</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <ModelRow key={row.id} row={row} opened={open.includes(row.id)} onToggle={() => toggle(row.id)} />
            ))}
            {!rows.length && (
              <tr>
                <td class="nothing" colSpan={5}>
                  No matches.
                </td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
    </section>
  );
}

// The keys of the downloads that a row shows.
const keysOf = (row: Row) => (row.files.length ? row.files : row.downloads);

const Tick = ({ label, value, onChange }: { label: string; value: boolean; onChange: (value: boolean) => void }) => (
  <label class="check ft-row">
    <input type="checkbox" checked={value} onChange={(event) => onChange(event.currentTarget.checked)} /> {label}
  </label>
);

type SortHeadProps = {
  column: Column;
  order: [Column, 1 | -1] | null;
  onOrder: (order: [Column, 1 | -1] | null) => void;
};
function SortHead({ column, order, onOrder }: SortHeadProps) {
  const sign = order?.[0] === column ? order[1] : 0;
  const next = sign === 0 ? ([column, 1] as [Column, 1]) : sign > 0 ? ([column, -1] as [Column, -1]) : null;
  return (
    <th scope="col" class={column} aria-sort={sign ? (sign > 0 ? "ascending" : "descending") : "none"}>
      <button type="button" class="sort ft-bare" onClick={() => onOrder(next)}>
        {COLUMNS[column]} {sign !== 0 && <Icon of={sign > 0 ? ArrowUp : ArrowDown} size={13} />}
      </button>
    </th>
  );
}

// ---- a row

const FIT_ICONS = { yes: Check, part: Minus, no: X };
const FITS = { yes: "fits", part: "with shorter context", no: "too large" };

function ModelRow({ row, opened, onToggle }: { row: Row; opened: boolean; onToggle: () => void }) {
  const { status } = useModels();
  const [context, setContext] = useState<number | null>(null); // as the card has it
  const loaded = status?.loaded?.target === row.id;
  return (
    <>
      <tr class={loaded ? "model-row loaded" : "model-row"} data-target={row.id}>
        <th scope="row" class="name">
          <Name row={row} opened={opened} onToggle={onToggle} loaded={loaded} />
        </th>
        <td class="bytes">{row.size || "–"}</td>
        <td class="fits">
          {row.fits ? (
            <span class={`fit ft-hint ${row.fits}`} title={row.fit}>
              <Icon of={FIT_ICONS[row.fits]} size={14} /> {row.held}, {FITS[row.fits]}
              {row.fits === "part" && ` (${formatted(row.largest)})`}
            </span>
          ) : (
            "–"
          )}
        </td>
        <td class="draft">
          <span title="The draft that Load uses. Details list others.">
            {row.draft.known ? row.draft.name || "no draft" : "…"}
          </span>
          {row.speed !== null && (
            <>
              {" "}
              <Tag title={row.speed_text} look="good" text={times(row.speed)} />
            </>
          )}
        </td>
        <td class="action">
          <Action row={row} loaded={loaded} context={context} />
        </td>
      </tr>
      <tr class="under" data-target={row.id}>
        <td colSpan={5}>
          <Transfers keys={keysOf(row)} />
          {opened && <Card row={row} context={context} onContext={setContext} />}
        </td>
      </tr>
    </>
  );
}

function Name({ row, opened, onToggle, loaded }: { row: Row; opened: boolean; onToggle: () => void; loaded: boolean }) {
  const slash = row.name.lastIndexOf("/") + 1;
  const tags = [row.place, row.recent && "recent", row.here && row.type].filter(Boolean);
  return (
    <div class="name-box ft-row">
      <button
        type="button"
        class="details-of ft-bare ft-row"
        aria-expanded={opened}
        aria-label={`Details of ${row.name}`}
        title={row.file}
        onClick={onToggle}>
        <Icon of={opened ? ChevronDown : ChevronRight} size={15} />
        <span class="model-name">
          {slash > 0 && <span class="owner">{row.name.slice(0, slash)}</span>}
          {row.name.slice(slash)}
        </span>
      </button>
      {loaded && <span class="loaded-tag">loaded</span>}
      {tags.map((text) => (
        <Tag key={text} look="place" text={text} />
      ))}
    </div>
  );
}

function Action({ row, loaded, context }: { row: Row; loaded: boolean; context: number | null }) {
  const { open, download, downloads, busy } = useModels();
  const wanted = row.pair ? { pair: row.pair } : { id: row.id };
  if (row.missing && !row.broken) {
    if (keysOf(row).some((key) => key in downloads)) return null; // it has buttons of its own under the row
    return (
      <Button small aria-label={`Download ${row.pair_name ?? row.name}`} onClick={() => download(wanted)}>
        Download {row.missing}
      </Button>
    );
  }
  if (loaded)
    return (
      <PageLink page="chat" class="ft-button small">
        Chat with it
      </PageLink>
    );
  const target = row.pair ? { pair: row.pair } : { target: row.id };
  return (
    <Button
      small
      kind="primary"
      disabled={busy}
      aria-label={`Load ${row.pair_name ?? row.name}`}
      onClick={() => open({ ...target, context })}>
      Load
    </Button>
  );
}
