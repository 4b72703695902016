// What the parts of the Models page share: the table, the downloads, what is loaded, and the actions on them.

import { createContext } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import { useBack, useServer, useStatus, useTimer, type Ask } from "../../shared/components";
import { status as feed, type Status } from "../../shared/frame/status";

const TABLE_MS = 700; // while models are searched for or compared
const DOWNLOADS_MS = 400; // while one runs

// A model; see `Rows` of the backend.
export interface Row {
  id: string;
  name: string;
  file: string;
  note: string;
  pair: string | null;
  pair_name: string | null;
  pairs: string[];
  source: string;
  place: string;
  path: string | null;
  recent: boolean;
  parameters_text: string;
  bytes: number;
  size: string;
  context: string;
  architecture: string;
  type: string;
  licence: string;
  gated: boolean;
  here: boolean;
  missing: string | null; // the size of what would be downloaded
  broken: boolean; // some of it cannot be downloaded
  downloads: string[]; // keys
  files: string[]; // keys
  fits: "yes" | "part" | "no" | null;
  largest: number;
  held: string;
  fit: string;
  draft: { name: string; id: string; known: boolean };
  speed: number | null;
  speed_text: string;
}

type Unusable = { name: string; place: string; reason: string };

// What ModelsBackend.table answers.
interface TableView {
  rows: Row[];
  looking: boolean;
  comparing: boolean;
  problems: string[];
  unusable: Unusable[];
  folders: { path: string; there: boolean; models: number; unusable: Unusable[] }[];
}

// What TransfersBackend.downloads answers of each.
export interface Download {
  name: string;
  source: string;
  state: "waiting" | "running" | "paused" | "failed";
  done: string;
  arrived: boolean;
  total: string;
  share: number | null;
  speed: string | null;
  eta: string | null;
  waiting: string;
  error: string | null;
  needs_token: boolean;
  unusable: boolean;
  page: string;
}

interface ModelsState {
  table: TableView | null;
  downloads: Record<string, Download>; // by key
  status: Status | null;
  busy: boolean; // a model is being loaded
  finished: any; // the model that this page has loaded
  error: string;
  dismissError: () => void;
  dismiss: () => void; // hides `finished`
  ask: Ask;
  change: (name: string, data?: object, by?: Ask) => Promise<any>; // asks, and refreshes
  refresh: (data?: object) => Promise<void>;
  open: (data: object, by?: Ask) => Promise<void>; // loads a model
  download: (data: object) => Promise<void>;
  follow: () => Promise<void>; // refreshes the downloads
}

export const Models = createContext(null as unknown as ModelsState);
export const useModels = () => useContext(Models);

// `shown`: whether the page is visible.
export function useModelsState(shown: boolean): ModelsState {
  const { ask, error: failure, setError: setFailure } = useServer(); // until the user's next question
  const { ask: poll, error: lost } = useServer(); // until the next poll
  const [error, setError] = useState("");
  const status = useStatus();
  const [table, setTable] = useState<TableView | null>(null);
  const { downloads, finished: ended, follow } = useDownloads(poll, shown);
  const refresh = useCallback(
    async (data = {}) => {
      const answer = await poll("table", data);
      if (answer) setTable(answer);
      if (answer?.looking) feed.refresh(); // it repeats by itself
    },
    [poll],
  );
  const { finished, dismiss, expect } = useFinished(status);
  const loadedKey = JSON.stringify([status?.loaded?.target, status?.loaded?.draft, status?.found, status?.opening]);
  useEffect(() => void (shown && (refresh({ look: true }), follow())), [shown, loadedKey, ended]);
  useTimer(shown && (table?.looking || table?.comparing) && TABLE_MS, () => void refresh(), [shown, table]);
  useBack(() => void (refresh(), follow()));
  useEffect(() => setError(status?.opening ? "" : (status?.failed ?? "")), [status?.opening, status?.failed]);
  const change = async (name: string, data = {}, by = ask) => {
    const answer = await by(name, data);
    feed.refresh();
    await refresh();
    return answer;
  };
  return {
    table,
    downloads,
    status,
    busy: Boolean(status?.opening),
    finished,
    dismiss,
    error: error || failure || lost,
    dismissError() {
      setError("");
      setFailure("");
    },
    ask,
    change,
    refresh,
    follow,
    async open(data, by = ask) {
      expect();
      if (!(await by("open", data))) dismiss();
      feed.refresh();
    },
    async download(data) {
      await ask("download", data);
      await follow();
    },
  };
}

// Follows the downloads while some run.
function useDownloads(ask: Ask, shown: boolean) {
  const [view, setView] = useState({ downloads: {} as Record<string, Download>, finished: 0, working: false });
  const follow = useCallback(async () => {
    const answer = await ask("downloads");
    if (answer) setView(answer);
  }, [ask]);
  useTimer(view.working && shown && DOWNLOADS_MS, follow, [view, shown]);
  useEffect(() => void (view.finished && feed.refresh()), [view.finished]); // other pages offer the new models
  return { ...view, follow };
}

// Tells which model this page has loaded, once it is; `expect()` begins to wait for one, `dismiss()` ends that.
function useFinished(status: Status | null) {
  const [finished, setFinished] = useState<any>(null);
  const waits = useRef<{ key: string; failed?: string | null; began: boolean }>(null);
  const key = JSON.stringify([status?.loaded?.target, status?.loaded?.draft]);
  useEffect(() => {
    if (!waits.current || !status) return;
    if (status.opening) waits.current.began = true;
    else if (status.failed && (waits.current.began || waits.current.failed !== status.failed)) waits.current = null;
    else if (status.loaded && (waits.current.began || waits.current.key !== key)) {
      waits.current = null;
      setFinished(status.loaded);
    }
  }, [status]);
  return {
    finished,
    expect() {
      waits.current = { key, failed: status?.failed, began: false }; // an earlier load may have failed
      setFinished(null);
    },
    dismiss() {
      waits.current = null;
      setFinished(null);
    },
  };
}
