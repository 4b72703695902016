// A model opened by its path: typed, browsed for, or dropped; and the user's own folders of models.

import { useEffect, useRef, useState } from "preact/hooks";
import { ArrowUp, Box, Folder, X } from "lucide";
import * as ui from "../../shared/components";
import { several } from "../../shared/format";
import { useModels } from "./state";

type Entry = { kind: "folder" | "model"; name: string; path: string; size: string };
type Listing = { path: string; parent: string | null; entries: Entry[]; more: number };
type Name = "folder" | "draft";

export function OpenFile() {
  const { open, busy } = useModels();
  const { ask, error } = ui.useServer();
  const [paths, setPaths] = useState({ folder: "", draft: "" });
  const [over, setOver] = useState(false);
  const [browsed, setBrowsed] = useState<{ name: Name; listing: Listing } | null>(null);
  const set = (name: Name, path: string) => setPaths((before) => ({ ...before, [name]: path }));

  const browse = async (name: Name, folder: string) => {
    // It may be no folder: then begin at home.
    const listing = (await ask("browse", { folder })) ?? (folder && (await ask("browse", { folder: "" })));
    if (listing) setBrowsed({ name, listing });
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
    if (answer) set(name, answer.path);
  };
  const close = () => {
    setBrowsed(null);
    document.querySelector<HTMLElement>(`.folder [name=${browsed?.name}]`)?.focus();
  };
  const field = (name: Name, label: string, hint: string) => (
    <div class="line-form ft-row">
      <ui.TextInput
        label={label}
        name={name}
        value={paths[name]}
        onChange={(path) => set(name, path)}
        placeholder={hint}
      />
      <ui.Button text="Browse" aria-label={`Browse for ${label}`} onClick={() => browse(name, paths[name])} />
    </div>
  );
  return (
    <ui.Form
      class={over ? "ft-panel ft-stack ft-gap-3 folder over" : "ft-panel ft-stack ft-gap-3 folder"}
      onSubmit={() => open(paths, ask)}
      onDragOver={(event) => (event.preventDefault(), setOver(true))}
      onDragLeave={() => setOver(false)}
      onDrop={drop}>
      <p class="ft-hint">A GGUF file, or a folder with safetensors weights. Type a path, browse, or drop a file.</p>
      {field("folder", "Model", "/path/to/model or file.gguf")}
      {field("draft", "Draft or head (optional)", "/path/to/draft, file.gguf or head")}
      <ui.ErrorNote text={error} />
      {browsed && (
        <Browser
          listing={browsed.listing}
          onGo={(path) => browse(browsed.name, path)}
          onPick={(path) => (set(browsed.name, path), close())}
          onClose={close}
        />
      )}
      <div class="ft-row">
        <ui.Button kind="primary" type="submit" text="Open" disabled={busy} />
      </div>
    </ui.Form>
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
        <ui.Button small icon={ArrowUp} disabled={!listing.parent} onClick={() => onGo(listing.parent ?? "")}>
          Up
        </ui.Button>
        <span class="source ft-fine grow" aria-label="Folder">
          {listing.path}
        </span>
        <ui.IconButton icon={X} label="Close" onClick={onClose} />
      </div>
      <ul class="ft-list">
        {listing.entries.map((each) => (
          <li key={each.path}>
            <button
              type="button"
              class={`entry ft-bare ft-row ${each.kind}`}
              onClick={() => (each.kind === "model" ? onPick(each.path) : onGo(each.path))}>
              <ui.Icon of={each.kind === "model" ? Box : Folder} size={15} /> {each.name}{" "}
              <span class="ft-hint">{each.size}</span>
            </button>
          </li>
        ))}
      </ul>
      {!listing.entries.length && <p class="ft-hint">No models or folders here.</p>}
      {listing.more > 0 && <p class="ft-hint">{listing.more} more not shown.</p>}
    </div>
  );
}

export function Folders() {
  const { table, change } = useModels();
  const { ask, error } = ui.useServer();
  const [folder, setFolder] = useState("");
  const [known, setKnown] = useState<string[] | null>(null); // before the last one was added
  const add = async () => {
    setKnown(table?.folders.map(({ path }) => path) ?? []);
    if (await change("add_folder", { folder }, ask)) setFolder("");
  };
  const newest = known && table?.folders.find(({ path }) => !known.includes(path));
  return (
    <ui.Panel title="Model folders" class="places">
      <p class="ft-hint">
        Models from LM Studio, Ollama, llama.cpp, the Hugging Face cache and your downloads are found automatically.
      </p>
      <ui.Form class="add-place line-form ft-row" onSubmit={add}>
        <ui.TextInput
          label="Add a folder"
          name="place"
          value={folder}
          onChange={setFolder}
          placeholder="/path/to/models"
        />
        <ui.Button type="submit">Add</ui.Button>
      </ui.Form>
      <ui.ErrorNote text={error} />
      <div class="ft-hint" role="status">
        {newest &&
          (table?.looking
            ? "scanning …"
            : `${newest.models ? several(newest.models, "model") : "No model"} found in ${newest.path}.`)}
        {newest && !table?.looking && newest.unusable.length > 0 && (
          <>
            {" "}
            {newest.unusable.length} not supported:
            <ul class="ft-list">
              {newest.unusable.map((each) => (
                <li key={each.name}>
                  <b>{each.name}</b>: {each.reason}
                </li>
              ))}
            </ul>
          </>
        )}
      </div>
      <ul class="ft-list lines own-folders">
        {table?.folders.map(({ path, there, models, unusable }) => (
          <li key={path}>
            <span>
              <span class="source ft-fine">{path}</span>{" "}
              <ui.Tag look={there ? "" : "warn"} text={there ? several(models, "model") : "missing"} />{" "}
              {unusable.length > 0 && <ui.Tag look="warn" text={`${unusable.length} not supported`} />}
            </span>
            <ui.Button
              kind="link"
              text="Remove"
              aria-label={`Remove ${path}`}
              onClick={() => change("remove_folder", { folder: path }, ask)}
            />
          </li>
        ))}
      </ul>
    </ui.Panel>
  );
}
