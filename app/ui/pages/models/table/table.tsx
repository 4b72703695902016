// The table of all models, with filters and sorting.

import { useState } from "preact/hooks";
import { ArrowDown, ArrowUp, RefreshCw } from "lucide";
import { Button, ErrorNote, Icon, Select, TextInput } from "../../../shared/components";
import { useModels, type Row } from "../state";
import { OtherTransfers } from "../transfers";
import { words } from "../words";
import { ModelRow } from "./row";

type Column = keyof typeof words.columns;

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
  const options = (named: Record<string, string>, first: string) =>
    [first, ...Object.keys(named).filter((each) => each !== first)].map((value) => ({ value, label: named[value] }));
  return (
    <section class="models-section ft-stack ft-gap-3" aria-label={words.title}>
      <div class="filters ft-row" role="search">
        <TextInput
          type="search"
          name="search"
          value={filter.text}
          onChange={(text) => set({ text })}
          placeholder={words.searchHint}
          aria-label={words.search}
        />
        <Select
          name="where"
          aria-label={words.where}
          value={filter.where}
          options={options(words.wheres, "all")}
          onChange={(where) => set({ where })}
        />
        <Select
          name="size"
          aria-label={words.size}
          value={filter.size}
          options={options(words.sizes, "any")}
          onChange={(size) => set({ size })}
        />
        <Check label={words.fitsOnly} value={filter.fits} onChange={(fits) => set({ fits })} />
        <Check label={words.draftOnly} value={filter.draft} onChange={(draft) => set({ draft })} />
        <Button small icon={RefreshCw} data-action="again" onClick={() => refresh({ again: true })}>
          {words.rescan}
        </Button>
      </div>
      <p class="ft-hint counted">
        <span role="status">
          {words.counted(rows.length, table.rows.length)}
          {table.looking && `, ${words.looking}`}
        </span>{" "}
        {JSON.stringify(filter) !== JSON.stringify(NONE) && (
          <Button kind="link" text={words.clear} onClick={() => setFilter(NONE)} />
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
              {(Object.keys(words.columns) as Column[]).map((column) => (
                <SortHead key={column} column={column} order={order} onOrder={setOrder} />
              ))}
              <th scope="col" class="action">
                <span class="sr-only">{words.action}</span>
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
                  {words.nothing}
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
export const keysOf = (row: Row) => (row.files.length ? row.files : row.downloads);

const Check = ({ label, value, onChange }: { label: string; value: boolean; onChange: (value: boolean) => void }) => (
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
        {words.columns[column]} {sign !== 0 && <Icon of={sign > 0 ? ArrowUp : ArrowDown} size={13} />}
      </button>
    </th>
  );
}
