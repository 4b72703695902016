// The files in which the catalog has a model, the default one marked, and the drafters published for it.

import { Button, Tag, useFound } from "../../../shared/components";
import { Gated } from "../hub";
import { useModels, type Row } from "../state";
import { words } from "../words";

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

type FilesView = { files: File[]; drafters: File[]; whole: string };

export function Files({ row }: { row: Row }) {
  const { ask, table } = useModels();
  const found = useFound<FilesView>(ask, "files", { target: row.id }, [row.id, table]);
  const group = (title: string, files: File[] = []) =>
    files.length > 0 && (
      <div>
        <h3>{title}</h3>
        <ul class="lines">
          {files.map((one) => (
            <FileLine key={one.key} one={one} whole={found?.whole ?? ""} />
          ))}
        </ul>
      </div>
    );
  return (
    <section class="model-files" aria-label={words.files}>
      {group(words.files, found?.files)}
      {group(words.publishedDrafters, found?.drafters)}
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
          <Tag text={one.size} />
          {one.fits && (
            <Tag title={one.fit} look={one.fits === "yes" ? "good" : "warn"} text={words.fileFits[one.fits]} />
          )}
          {one.gated && <Gated />}
          {one.chosen && <Tag look="place" text={one.here ? words.loadTakes : words.downloadTakes(whole)} />}
        </span>
      </span>
      {!one.here && (
        <Button small aria-label={words.downloadNamed(one.name)} onClick={() => download({ id: one.id })}>
          {words.download(one.size)}
        </Button>
      )}
      {one.here && (one.head || one.chosen) && <span class="ft-hint">{words.here}</span>}
      {one.here && !one.head && !one.chosen && (
        <Button small text={words.load} disabled={busy} onClick={() => open({ target: one.id })} />
      )}
    </li>
  );
}
