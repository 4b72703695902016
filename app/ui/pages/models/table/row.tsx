// A model in the table, and under it its downloads and, once opened, its card.

import { useState } from "preact/hooks";
import { Check, ChevronDown, ChevronRight, Minus, X } from "lucide";
import { Button, Icon, PageLink, Tag } from "../../../shared/components";
import { useModels, type Row } from "../state";
import { Transfers } from "../transfers";
import { words } from "../words";
import { Card } from "./card";
import { keysOf } from "./table";

const FIT_ICONS = { yes: Check, part: Minus, no: X };

export function ModelRow({ row, opened, onToggle }: { row: Row; opened: boolean; onToggle: () => void }) {
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
              <Icon of={FIT_ICONS[row.fits]} size={14} /> {words.fits[row.fits](row.held, row.largest)}
            </span>
          ) : (
            "–"
          )}
        </td>
        <td class="draft">
          <span title={words.loadsWithHint}>
            {row.draft.known ? row.draft.name || words.noDraft : words.comparingOne}
          </span>
          {row.speed !== null && (
            <>
              {" "}
              <Tag title={row.speed_text} look="good" text={words.speedUp(row.speed)} />
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
  const tags = [row.place, row.recent && words.recent, row.here && row.type].filter(Boolean);
  return (
    <div class="name-box ft-row">
      <button
        type="button"
        class="details-of ft-bare ft-row"
        aria-expanded={opened}
        aria-label={words.details(row.name)}
        title={row.file}
        onClick={onToggle}>
        <Icon of={opened ? ChevronDown : ChevronRight} size={15} />
        <span class="model-name">
          {slash > 0 && <span class="owner">{row.name.slice(0, slash)}</span>}
          {row.name.slice(slash)}
        </span>
      </button>
      {loaded && <span class="loaded-tag">{words.loadedNow}</span>}
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
      <Button small aria-label={words.downloadNamed(row.pair_name ?? row.name)} onClick={() => download(wanted)}>
        {words.download(row.missing)}
      </Button>
    );
  }
  if (loaded)
    return (
      <PageLink page="chat" class="ft-button small">
        {words.chat}
      </PageLink>
    );
  const target = row.pair ? { pair: row.pair } : { target: row.id };
  return (
    <Button
      small
      kind="primary"
      disabled={busy}
      aria-label={words.loadNamed(row.pair_name ?? row.name)}
      onClick={() => open({ ...target, context })}>
      {words.load}
    </Button>
  );
}
