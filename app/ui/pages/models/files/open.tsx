// A model opened by its path: typed, browsed for, or dropped.

import { useEffect, useRef, useState } from "preact/hooks";
import { ArrowUp, Box, Folder, X } from "lucide";
import { Button, ErrorNote, Form, Icon, TextInput } from "../../../shared/components";
import { useModels } from "../state";
import { words } from "../words";

type Entry = { kind: "folder" | "model"; name: string; path: string; size: string };
type Listing = { path: string; parent: string | null; entries: Entry[]; more: number; error: string | null };
type Name = "folder" | "draft";

export function OpenFile() {
  const { ask, open, busy } = useModels();
  const [paths, setPaths] = useState({ folder: "", draft: "" });
  const [error, setError] = useState("");
  const [over, setOver] = useState(false);
  const [browsed, setBrowsed] = useState<{ name: Name; listing: Listing } | null>(null);
  const set = (name: Name, path: string) => setPaths((before) => ({ ...before, [name]: path }));

  const browse = async (name: Name, folder: string) => {
    let listing = await ask("browse", { folder });
    if (listing?.error && folder) listing = await ask("browse", { folder: "" }); // it is no folder: begin at home
    setError(listing?.error ?? "");
    if (listing && !listing.error) setBrowsed({ name, listing });
  };
  // Some file managers send the path; otherwise Python looks for the file by its name and size.
  const drop = async (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const name = (event.target as HTMLInputElement).name === "draft" ? "draft" : "folder";
    const transfer = event.dataTransfer as DataTransfer;
    const told = (transfer.getData("text/uri-list") || transfer.getData("text/plain")).split(/\r?\n/)[0];
    const file = transfer.files[0];
    if (told.startsWith("file://")) return set(name, decodeURIComponent(told.replace(/^file:\/\/[^/]*/, "")));
    if (!file) return set(name, told);
    const answer = await ask("dropped", { name: file.name, size: file.size });
    setError(answer?.error ?? "");
    if (answer?.path) set(name, answer.path);
  };
  const field = (name: Name, label: string, hint: string) => (
    <div class="line-form ft-row">
      <TextInput
        label={label}
        name={name}
        value={paths[name]}
        onChange={(path) => set(name, path)}
        placeholder={hint}
      />
      <Button text={words.browse} aria-label={words.browseFor(label)} onClick={() => browse(name, paths[name])} />
    </div>
  );
  return (
    <Form
      class={over ? "ft-panel ft-stack ft-gap-3 folder over" : "ft-panel ft-stack ft-gap-3 folder"}
      onSubmit={() => open(paths, setError)}
      onDragOver={(event) => (event.preventDefault(), setOver(true))}
      onDragLeave={() => setOver(false)}
      onDrop={drop}>
      <p class="ft-hint">{words.openInfo}</p>
      {field("folder", words.target, words.targetHint)}
      {field("draft", words.draft, words.draftHint)}
      <ErrorNote text={error} />
      {browsed && (
        <Browser
          listing={browsed.listing}
          onGo={(path) => browse(browsed.name, path)}
          onPick={(path) => (set(browsed.name, path), setBrowsed(null))}
          onClose={() => setBrowsed(null)}
        />
      )}
      <div class="ft-row">
        <Button kind="primary" type="submit" text={words.open} disabled={busy} />
      </div>
    </Form>
  );
}

type BrowserProps = {
  listing: Listing;
  onGo: (path: string) => void;
  onPick: (path: string) => void;
  onClose: () => void;
};
function Browser({ listing, onGo, onPick, onClose }: BrowserProps) {
  const node = useRef<HTMLDivElement>(null);
  useEffect(
    () => (node.current?.querySelector("ul button, button:not(:disabled)") as HTMLElement | null)?.focus(),
    [listing],
  );
  return (
    <div ref={node} class="browser ft-box" onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <div class="browser-head ft-row">
        <Button small icon={ArrowUp} disabled={!listing.parent} onClick={() => onGo(listing.parent ?? "")}>
          {words.up}
        </Button>
        <span class="source ft-fine grow" aria-label={words.folder}>
          {listing.path}
        </span>
        <Button kind="quiet" small icon={X} label={words.close} onClick={onClose} />
      </div>
      <ul>
        {listing.entries.map((each) => (
          <li key={each.path}>
            <button
              type="button"
              class={`entry ft-bare ft-row ${each.kind}`}
              onClick={() => (each.kind === "model" ? onPick(each.path) : onGo(each.path))}>
              <Icon of={each.kind === "model" ? Box : Folder} size={15} /> {each.name}{" "}
              <span class="ft-hint">{each.size}</span>
            </button>
          </li>
        ))}
      </ul>
      {!listing.entries.length && <p class="ft-hint">{words.emptyFolder}</p>}
      {listing.more > 0 && <p class="ft-hint">{words.moreEntries(listing.more)}</p>}
    </div>
  );
}
