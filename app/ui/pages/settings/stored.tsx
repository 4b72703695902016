// What the app stores: its folders, the chat history, and diagnostics.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button, CopyButton, ErrorNote, PageLink, Panel, useAnswer, useServer } from "../../shared/components";
import { toClipboard } from "../../shared/browser";
import { drafts } from "../../shared/form/drafts";
import { status } from "../../shared/frame/status";
import { words } from "./words";

type Folder = { name: keyof typeof words.folderNames; path: string; size: string; there: boolean };

// `moved`: what chose it.
type FoldersView = { folders: Folder[]; free: string; moved: Record<string, string | null> };

export function Folders({ shown }: { shown: boolean }) {
  const { ask, answer, error } = useAnswer("folders", shown);
  const view: FoldersView | null = answer;
  return (
    <Panel title={words.folders} data-part="folders">
      <ErrorNote text={error} />
      {!view && !error && <p class="ft-hint">{words.measuring}</p>}
      {view && (
        <ul class="places ft-list">
          {view.folders.map(({ name, path, size, there }) => (
            <li key={name} data-place={name}>
              <div>
                <b>{words.folderNames[name]}</b> <span class="ft-hint">{there ? size : words.absent}</span>{" "}
                {name === "models" && <PageLink page="models">{words.toModels}</PageLink>}
              </div>
              <code>{path}</code>
              <span class="ft-hint">
                {view.moved[name] ? words.moved(view.moved[name]) : words.folderHints[name]}
                {name === "models" && ` ${words.free(view.free)}`}
              </span>
              <div class="ft-row">
                <CopyButton text={path} label={words.copyPath(words.folderNames[name])} />
                <Button
                  kind="link"
                  disabled={!there}
                  aria-label={words.openNamed(words.folderNames[name])}
                  onClick={() => ask("open_folder", { name })}>
                  {words.open}
                </Button>
              </div>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

// Deletes the chat history, after a question.
export function History({ shown }: { shown: boolean }) {
  const { ask, answer: data, setAnswer: setData, error } = useAnswer("asked", shown);
  const [asked, setAsked] = useState(false);
  const [deleted, setDeleted] = useState<{ held: boolean } | null>(null); // held: in memory
  const first = useRef<HTMLButtonElement>(null);
  const touched = useRef(false);
  useLayoutEffect(() => void (touched.current && first.current?.focus()), [asked]); // Enter alone deletes nothing
  const turn = (on: boolean) => {
    touched.current = true;
    setAsked(on);
  };
  const forget = async () => {
    const left = await ask("forget");
    turn(false);
    if (!left) return;
    drafts.forgetAll();
    window.dispatchEvent(new Event("foretoken-forgotten"));
    setData(left);
    setDeleted(left);
    status.refresh();
  };
  const reload = async () => {
    await ask("reload");
    setDeleted({ held: false });
    status.refresh();
  };
  return (
    <Panel title={words.history} data-part="history">
      {data && <p>{words.historyInfo(data)}</p>}
      <p class="ft-hint">{words.historyStays}</p>
      <ErrorNote text={error} />
      <div class="ft-row">
        {asked && <Button key="no" ref={first} text={words.cancel} onClick={() => turn(false)} />}
        {asked ? (
          <Button key="sure" kind="danger" text={words.deleteSure} data-act="forget-sure" onClick={forget} />
        ) : (
          <Button key="ask" ref={first} kind="danger" data-act="forget" onClick={() => turn(true)}>
            {words.delete}
          </Button>
        )}
      </div>
      <div role="status">
        {deleted && (
          <div class="reload ft-row ft-box">
            <span>
              {words.deleted} {deleted.held && words.held}
            </span>
            {deleted.held && <Button small text={words.reloadNow} onClick={reload} />}
          </div>
        )}
      </div>
    </Panel>
  );
}

// A report for a bug report, which can be read before it is sent.
export function Diagnostics() {
  const { ask, error } = useServer();
  const [text, setText] = useState("");
  const [copied, setCopied] = useState(false);
  const report = async () => (await ask("diagnostics"))?.text ?? "";
  const copy = async () => {
    const fresh = await report();
    if (fresh) await toClipboard(fresh).then(() => setCopied(true));
  };
  const show = async () => setText(text ? "" : await report());
  return (
    <Panel title={words.diagnostics} data-part="diagnostics">
      <p class="ft-hint">{words.diagnosticsHint}</p>
      <ErrorNote text={error} />
      <div class="ft-row">
        <Button data-act="copy-diagnostics" onClick={copy}>
          {copied ? words.diagnosticsCopied : words.copyDiagnostics}
        </Button>
        <Button kind="quiet" data-act="show-diagnostics" onClick={show}>
          {text ? words.hideDiagnostics : words.showDiagnostics}
        </Button>
      </div>
      {text && (
        <pre class="report ft-pre" tabIndex={0} aria-label={words.diagnostics}>
          {text}
        </pre>
      )}
    </Panel>
  );
}
