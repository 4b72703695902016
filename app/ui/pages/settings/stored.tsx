// What the app stores: its folders, the chat history, and diagnostics.

import { useState } from "preact/hooks";
import * as ui from "../../shared/components";
import { toClipboard } from "../../shared/browser";
import { drafts } from "../../shared/form/drafts";
import { status } from "../../shared/frame/status";
import { several } from "../../shared/format";

type Folder = { name: keyof typeof FOLDERS; path: string; size: string; there: boolean };

// `moved`: what chose it.
type FoldersView = { folders: Folder[]; free: string; packed: string; moved: Record<string, string | null> };

const FOLDERS = {
  data: ["Chats and settings", "Change with --data-dir."],
  models: ["Downloaded models", "Change with the variable FORETOKEN_MODELS."],
  cache: ["Compiled kernels and packed weights", "Safe to delete."],
  hub: ["Hugging Face cache", "Shared with other programs."],
};

export function Folders({ shown }: { shown: boolean }) {
  const { ask, answer: view, error } = ui.useAnswer<FoldersView>("folders", shown);
  return (
    <ui.Panel title="Folders" data-part="folders">
      <ui.ErrorNote text={error} />
      {!view && !error && <p class="ft-hint">Measuring …</p>}
      {view && (
        <ul class="places ft-list">
          {view.folders.map(({ name, path, size, there }) => {
            const [label, hint] = FOLDERS[name];
            return (
              <li key={name} data-place={name}>
                <div>
                  <b>{label}</b> <span class="ft-hint">{there ? size : "not created yet"}</span>{" "}
                  {name === "models" && <ui.PageLink page="models">Manage downloads</ui.PageLink>}
                </div>
                <code>{path}</code>
                <span class="ft-hint">
                  {view.moved[name] ? `Set by ${view.moved[name]}.` : hint}
                  {name === "models" && ` ${view.free} free on this disk.`}
                  {name === "cache" && ` ${view.packed}`}
                </span>
                <div class="ft-row">
                  <ui.CopyButton text={path} label={`Copy the path of ${label}`} />
                  <ui.Button
                    kind="link"
                    text="Open"
                    aria-label={`Open ${label}`}
                    disabled={!there}
                    onClick={() => ask("open_folder", { name })}
                  />
                </div>
              </li>
            );
          })}
        </ul>
      )}
    </ui.Panel>
  );
}

// Sizes as text.
type UserData = { chats: number; chat_bytes: string; remembered_bytes: string; recorded_bytes: string };

// Deletes the chat history, after a question.
export function History({ shown }: { shown: boolean }) {
  const { ask, answer: data, setAnswer: setData, error } = ui.useAnswer<UserData>("asked", shown);
  const [deleted, setDeleted] = useState<{ held: boolean } | null>(null); // held: in memory
  const forget = async () => {
    const left = await ask("forget");
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
    <ui.Panel title="Delete chat history" data-part="history">
      {data && (
        <p>
          Deletes {several(data.chats, "chat")} ({data.chat_bytes}), past replies used for drafting (
          {data.remembered_bytes}), training recordings ({data.recorded_bytes}), and unsent messages in this browser.
        </p>
      )}
      <p class="ft-hint">
        Also deletes what drafters learned from chats: stored replies and learned versions. Settings, system prompts,
        models, published drafters, drafters that you trained, and files that you exported stay.
      </p>
      <ui.ErrorNote text={error} />
      <div class="ft-row">
        <ui.SureButton kind="danger" text="Delete…" sure="Delete permanently" data-act="forget" onSure={forget} />
      </div>
      <div role="status">
        {deleted && (
          <div class="reload ft-row ft-box">
            <span>
              Chat history deleted.{" "}
              {deleted.held && "The loaded model may still reuse old text from memory until you reload it."}
            </span>
            {deleted.held && <ui.Button small text="Reload now" onClick={reload} />}
          </div>
        )}
      </div>
    </ui.Panel>
  );
}

// A report for a bug report, which can be read before it is sent.
export function Diagnostics() {
  const { ask, error } = ui.useServer();
  const [text, setText] = useState("");
  const [copied, setCopied] = useState(false);
  const report = async () => (await ask("diagnostics"))?.text ?? "";
  const copy = async () => {
    const fresh = await report();
    if (fresh) await toClipboard(fresh).then(() => setCopied(true));
  };
  const show = async () => setText(text ? "" : await report());
  return (
    <ui.Panel title="Diagnostics" data-part="diagnostics">
      <p class="ft-hint">For bug reports. Contains no chats and no keys.</p>
      <ui.ErrorNote text={error} />
      <div class="ft-row">
        <ui.Button text={copied ? "Copied" : "Copy"} data-act="copy-diagnostics" onClick={copy} />
        <ui.Button kind="quiet" text={text ? "Hide" : "Show"} data-act="show-diagnostics" onClick={show} />
      </div>
      {text && (
        <pre class="report ft-pre" tabIndex={0} aria-label="Diagnostics">
          {text}
        </pre>
      )}
    </ui.Panel>
  );
}
