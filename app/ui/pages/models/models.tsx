// The Models page: what is loaded, and tabs for all models, the hub, files, servers and storage.

import { useState } from "preact/hooks";
import { Power, X } from "lucide";
import * as ui from "../../shared/components";
import { several } from "../../shared/format";
import { Folders, OpenFile } from "./files";
import { Hub } from "./hub";
import { Servers } from "./servers";
import { Models, useModels, useModelsState } from "./state";
import { Table } from "./table";

const TABS = { all: "All models", hub: "Hugging Face", open: "Open a file", servers: "Servers", storage: "Storage" };

function ModelsPage() {
  const shown = ui.usePage() === "models";
  const state = useModelsState(shown);
  const [tab, setTab] = useState("all");
  const panes = {
    all: <Table />,
    hub: <Hub />,
    open: (
      <>
        <OpenFile />
        <Folders />
      </>
    ),
    servers: <Servers shown={shown && tab === "servers"} />,
    storage: <Storage shown={shown && tab === "storage"} />,
  };
  const tabs = Object.entries(panes).map(([id, pane]) => ({
    id,
    title: TABS[id as keyof typeof TABS],
    pane: <div class="models-pane ft-stack ft-gap-3">{pane}</div>,
  }));
  return (
    <Models.Provider value={state}>
      <ui.PageFrame title="Models" intro="Download, load and compare models, with drafts that make them faster.">
        <Now />
        <News />
        <ui.Tabs name="models" label="Models" tabs={tabs} shown={tab} onShow={setTab} keep />
      </ui.PageFrame>
    </Models.Provider>
  );
}

// The loaded model.
function Now() {
  const { status: latest, change, busy } = useModels();
  const loaded = latest?.loaded;
  return (
    <ui.Panel class="now ft-spread">
      <div class="ft-row">
        <span class="ft-hint">Loaded</span>
        <span class="now-name">{loaded ? loaded.label : latest?.opening ? "…" : "No model is loaded"}</span>
        {loaded && (
          <ui.Info>
            {loaded.detail.split("\n").map((line: string) => (
              <p key={line}>{line}</p>
            ))}
          </ui.Info>
        )}
      </div>
      {loaded && (
        <div class="ft-row">
          <ui.PageLink page="chat" class="ft-button small">
            Chat with it
          </ui.PageLink>
          <ui.Button
            small
            icon={Power}
            disabled={busy}
            title="Free its memory. The next message loads it again."
            onClick={() => change("unload")}>
            Unload
          </ui.Button>
        </div>
      )}
    </ui.Panel>
  );
}

// How far a load is, that it is done, or why it failed: in sight wherever the page is scrolled to.
function News() {
  const { status: latest, error, dismissError, finished, dismiss, ask } = useModels();
  return (
    <div class="news">
      <ui.LoadProgress status={latest} ask={ask} />
      {finished && !latest?.opening && (
        <div class="done" role="status">
          <span>
            {finished.title} is loaded{finished.label !== finished.title && ", without a draft"}.
          </span>
          <ui.PageLink page="chat" class="ft-button small primary">
            Chat with it
          </ui.PageLink>
          <ui.IconButton icon={X} label="Dismiss" onClick={dismiss} />
        </div>
      )}
      <ui.ErrorNote text={error} onDismiss={dismissError} />
    </div>
  );
}

// ---- what downloads take on the disk, deleting them, the access token, and files that cannot be run

type Kept = { path: string; name: string; size: string; unfinished: boolean; in_use: boolean };
type Disk = { folder: string; free: string; total: string; kept: Kept[]; token: string; own_token: boolean };

function Storage({ shown }: { shown: boolean }) {
  const { ask, change, table } = useModels();
  const disk = ui.useFound<Disk>(ask, "disk", {}, [table], shown);
  if (!disk) return null;
  return (
    <ui.Panel class="disk">
      <p>
        {disk.total} used, {disk.free} free · {disk.folder}
      </p>
      <ul class="ft-list lines kept">
        {disk.kept.map((one) => (
          <li key={one.path} data-kept={one.name}>
            <span>
              <b>{one.name}</b> <ui.Tag text={one.size} /> {one.unfinished && <ui.Tag look="warn" text="unfinished" />}
              {one.in_use && <ui.Tag look="good" text="in use" />}
              <span class="source block ft-fine">{one.path}</span>
            </span>
            <ui.SureButton
              small
              disabled={one.in_use}
              aria-label={`Delete ${one.name}`}
              text="Delete"
              sure={`Delete ${one.size}?`}
              onSure={() => change("delete", { path: one.path })}
            />
          </li>
        ))}
      </ul>
      <p class="ft-hint">
        {disk.token}{" "}
        {disk.own_token && <ui.Button kind="link" text="Delete token" onClick={() => change("forget_token")} />}
      </p>
      {table && table.unusable.length > 0 && (
        <div class="unusable">
          <ui.Disclosure summary={several(table.unusable.length, "unsupported file")}>
            <ul class="ft-list">
              {table.unusable.map((each) => (
                <li key={`${each.place} ${each.name}`}>
                  <b>{each.name}</b> ({each.place}): {each.reason}
                </li>
              ))}
            </ul>
          </ui.Disclosure>
        </div>
      )}
    </ui.Panel>
  );
}

ui.register("models", ModelsPage);
