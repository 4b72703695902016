// The Models page: what is loaded, and tabs for all models, the hub, files, servers and storage.

import { useState } from "preact/hooks";
import { Power, X } from "lucide";
import {
  Button,
  ErrorNote,
  Info,
  LoadProgress,
  PageFrame,
  PageLink,
  Panel,
  register,
  Tabs,
  usePage,
} from "../../shared/components";
import { Folders } from "./files/folders";
import { Hub } from "./hub";
import { OpenFile } from "./files/open";
import { Servers } from "./servers";
import { Models, useModels, useModelsState } from "./state";
import { Storage } from "./storage";
import { Table } from "./table/table";
import { words } from "./words";

function ModelsPage() {
  const shown = usePage() === "models";
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
    title: words.tabs[id as keyof typeof words.tabs],
    pane: <div class="models-pane ft-stack ft-gap-3">{pane}</div>,
  }));
  return (
    <Models.Provider value={state}>
      <PageFrame title={words.title} intro={words.intro}>
        <Now />
        <News />
        <Tabs name="models" label={words.title} tabs={tabs} shown={tab} onShow={setTab} keep />
      </PageFrame>
    </Models.Provider>
  );
}

// The loaded model.
function Now() {
  const { status: latest, change, busy } = useModels();
  const loaded = latest?.loaded;
  return (
    <Panel class="now ft-spread">
      <div class="ft-row">
        <span class="ft-hint">{words.loaded}</span>
        <span class="now-name">{loaded ? loaded.label : latest?.opening ? "…" : words.noModel}</span>
        {loaded && (
          <Info>
            {loaded.detail.split("\n").map((line: string) => (
              <p key={line}>{line}</p>
            ))}
          </Info>
        )}
      </div>
      {loaded && (
        <div class="ft-row">
          <PageLink page="chat" class="ft-button small">
            {words.chat}
          </PageLink>
          <Button small icon={Power} disabled={busy} title={words.unloadHint} onClick={() => change("unload")}>
            {words.unload}
          </Button>
        </div>
      )}
    </Panel>
  );
}

// How far a load is, that it is done, or why it failed: in sight wherever the page is scrolled to.
function News() {
  const { status: latest, error, setError, finished, dismiss, ask } = useModels();
  return (
    <div class="news">
      <LoadProgress status={latest} ask={ask} />
      {finished && !latest?.opening && (
        <div class="done" role="status">
          <span>{words.loadedNotice(finished)}</span>
          <PageLink page="chat" class="ft-button small primary">
            {words.chat}
          </PageLink>
          <Button kind="quiet" small icon={X} label={words.dismiss} onClick={dismiss} />
        </div>
      )}
      <ErrorNote text={error} onDismiss={() => setError("")} />
    </div>
  );
}

register("models", ModelsPage);
