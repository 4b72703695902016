// What downloads take on the disk, deleting them, the access token, and files that cannot be run.

import { useState } from "preact/hooks";
import { Button, Disclosure, Panel, Tag, useFound } from "../../shared/components";
import { useModels } from "./state";
import { words } from "./words";

type Kept = { path: string; name: string; size: string; unfinished: boolean; in_use: boolean };
type Disk = { folder: string; free: string; total: string; kept: Kept[]; token: string; own_token: boolean };

export function Storage({ shown }: { shown: boolean }) {
  const { ask, change, table } = useModels();
  const disk = useFound<Disk>(ask, "disk", {}, [table], shown);
  if (!disk) return null;
  return (
    <Panel class="disk">
      <p>{words.diskLine(disk.total, disk.free, disk.folder)}</p>
      <ul class="lines kept">
        {disk.kept.map((one) => (
          <KeptLine key={one.path} one={one} onDelete={() => change("delete", { path: one.path })} />
        ))}
      </ul>
      <p class="ft-hint">
        {disk.token}{" "}
        {disk.own_token && <Button kind="link" text={words.forgetToken} onClick={() => change("forget_token")} />}
      </p>
      {table && table.unusable.length > 0 && (
        <div class="unusable">
          <Disclosure summary={words.unusable(table.unusable.length)}>
            <ul>
              {table.unusable.map((each) => (
                <li key={`${each.place} ${each.name}`}>
                  <b>{each.name}</b> ({each.place}): {each.reason}
                </li>
              ))}
            </ul>
          </Disclosure>
        </div>
      )}
    </Panel>
  );
}

function KeptLine({ one, onDelete }: { one: Kept; onDelete: () => void }) {
  const [sure, setSure] = useState(false);
  return (
    <li data-kept={one.name}>
      <span>
        <b>{one.name}</b> <Tag text={one.size} /> {one.unfinished && <Tag look="warn" text={words.unfinished} />}
        {one.in_use && <Tag look="good" text={words.inUse} />}
        <span class="source block ft-fine">{one.path}</span>
      </span>
      {sure ? (
        <span class="ft-row">
          <Button small kind="danger" text={words.deleteSure(one.size)} onClick={onDelete} />
          <Button small autofocus text={words.keep} onClick={() => setSure(false)} />
        </span>
      ) : (
        <Button small disabled={one.in_use} aria-label={words.deleteNamed(one.name)} onClick={() => setSure(true)}>
          {words.delete}
        </Button>
      )}
    </li>
  );
}
