// A model's card: its facts, its files, the memory it takes, and what can draft for it.

import { useEffect, useState } from "preact/hooks";
import { Button, Tag } from "../../../shared/components";
import { Gated } from "../hub";
import { useModels, type Row } from "../state";
import { words } from "../words";
import { Drafts } from "./drafts";
import { Files } from "./files";
import { Memory } from "./memory";

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
    row.parameters_text && words.parameters(row.parameters_text),
    row.type,
    row.size,
    row.context && words.contextOf(row.context),
    row.licence,
  ].filter(Boolean);
  return (
    <div class="facts ft-stack">
      {row.pair_name && row.pair_name !== row.name && <p class="model-name">{words.pair(row.pair_name)}</p>}
      {row.note && <p class="ft-hint">{row.note}</p>}
      <p class="tags">
        <Tag look={row.here ? "good" : "elsewhere"} text={row.here ? words.here : words.away} />
        {tags.map((text) => (
          <Tag key={text} text={text} />
        ))}
        {row.gated && <Gated />}
      </p>
      <p class="source ft-fine">{row.path ?? row.source}</p>
      {row.recent && (
        <Button kind="link" title={words.removeHint} onClick={() => change("forget", { path: row.path })}>
          {words.remove}
        </Button>
      )}
    </div>
  );
}
