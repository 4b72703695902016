// What goes with a message: files and web pages, which Python reads, shown as chips with what they take of the context.

import { count, several } from "../../../shared/format";
import { FileText, Globe, Paperclip, X } from "lucide";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { FormDialog, IconButton, Icon, Menu, TextInput } from "../../../shared/components";
import { drafts } from "../../../shared/form/drafts";
import { answered, away, reason, upload } from "../../../shared/frame/server";
import type { Attached, ChatPage } from "../types";

const characters = (n: number) => (n < 1000 ? several(n, "character") : `${count(Math.round(n / 1000))} K characters`);

function toldOf({ context, exact, files, used }: any) {
  const all = files.reduce((sum: number, { tokens }: any) => sum + tokens, 0);
  const said = `${exact ? "" : "About "}${several(all, "token")} attached`;
  if (!context) return `${said}.`;
  return `${said}${used < 100 ? "" : `, ${count(used)} in this chat`}; the context holds ${count(context)}.`;
}

const LONG_PASTE = 4000; // characters from which pasted text becomes an attachment

// A chip that opens to show the text.
export function FileChip({ page, file }: { page: ChatPage; file: Attached }) {
  const [text, setText] = useState(file.text);
  const load = async ({ open }: HTMLDetailsElement) => {
    if (!open || text || !file.id) return;
    const answer = await page.ask("attachment_text", { attachment: file.id });
    if (answer) setText(answer.text);
  };
  if (file.kind === "image") return <Picture file={file} />;
  const size = file.tokens ? several(file.tokens, "token") : characters(file.size ?? file.text.length);
  return (
    <details class="file ft-box" onToggle={({ currentTarget }) => load(currentTarget)}>
      <summary class="ft-row">
        <Icon of={file.source ? Globe : FileText} size={14} />
        <span class="file-name" dir="auto">
          {file.name}
        </span>
        <span class="ft-hint">{size}</span>
        {file.said && <span class="ft-hint">{file.said}</span>}
      </summary>
      {file.source && (
        <a href={file.source} target="_blank" rel="noopener noreferrer">
          {file.source}
        </a>
      )}
      <pre class="ft-pre" tabIndex={0}>
        {text}
      </pre>
    </details>
  );
}

// Changes the files as they are by now: more may have been added since they were drawn.
type Change = (change: (files: Attached[]) => Attached[]) => void;

// The attachments of a message that is written, with what they take and what is left out.
type AttachmentRowProps = { page: ChatPage; files: Attached[]; message?: number; onChange: Change };
export function AttachmentRow({ page, files, message, onChange }: AttachmentRowProps) {
  const fit = useWeighed(page, files, message, onChange);
  if (!files.length) return null;
  const choose = (file: Attached, choice: string) =>
    onChange((now) => now.map((each) => (same(each, file) ? { ...each, choice } : each)));
  return (
    <div class="files ft-row">
      {files.map((file) => (
        <span class="attached" key={file.id}>
          <FileChip page={page} file={file} />
          {(file.pages ?? 0) > 1 && (
            <TextInput
              class="page-choice"
              aria-label={`Pages of ${file.name}`}
              title="Pages to include, such as 1-5, 12. Empty: all that fit."
              placeholder="all that fit"
              value={file.choice ?? ""}
              onChange={(choice) => choose(file, choice)}
            />
          )}
          <IconButton
            icon={X}
            label={`Remove ${file.name}`}
            onClick={() => onChange((now) => now.filter((each) => !same(each, file)))}
          />
        </span>
      ))}
      {files
        .flatMap(({ notes }) => notes ?? [])
        .map((note) => (
          <p class="ft-hint" key={note}>
            {note}
          </p>
        ))}
      <Blind page={page} files={files} />
      {fit && <p class={fit.over ? "ft-error" : "ft-hint"}>{fit.said || toldOf(fit)}</p>}
    </div>
  );
}

// Compares by the stored file, which only texts of old drafts lack.
const same = (one: Attached, other: Attached) => (one.id ? one.id === other.id : one === other);

// Asks what the files take of the context, and notes it in them. Returns the answer.
// `message` is the one that is edited.
function useWeighed(page: ChatPage, files: Attached[], message: number | undefined, onChange: Change) {
  const [fit, setFit] = useState<any>(null);
  const { chat, status } = page.state;
  const asked = files.map(({ id, name, text, choice }) => (id ? { id, choice: choice ?? "" } : { name, text }));
  useEffect(() => {
    if (!files.length) return setFit(null);
    let wanted = true;
    page.ask("weigh_files", { chat, message: message ?? null, files: asked }).then((answer: any) => {
      if (!wanted || !answer) return;
      setFit(answer);
      const weighed = (file: Attached) => answer.files[files.findIndex((each) => same(each, file))];
      onChange((now) => now.map((file) => ({ ...file, ...weighed(file), id: file.id })));
    });
    return () => void (wanted = false);
  }, [JSON.stringify(asked), chat, status?.loaded?.id]);
  return fit;
}

// The button that adds files or a web page.
type AttachButtonProps = { page: ChatPage; onFiles: (files: File[]) => void; onAdded: (file: Attached) => void };
export function AttachButton({ page, onFiles, onAdded }: AttachButtonProps) {
  const input = useRef<HTMLInputElement>(null);
  const take = (chosen: HTMLInputElement) => {
    onFiles([...(chosen.files ?? [])]);
    chosen.value = "";
  };
  return (
    <>
      <Menu
        kind="quiet"
        class="attach"
        icon={Paperclip}
        label="Attach files or a web page"
        items={[
          { label: "Files (PDF, Word, text, pictures …)", icon: FileText, onPick: () => input.current?.click() },
          { label: "Add a web page", icon: Globe, onPick: () => page.set({ addingPage: onAdded }) },
        ]}
      />
      <input type="file" multiple hidden ref={input} onChange={({ currentTarget }) => take(currentTarget)} />
    </>
  );
}

// Returns the listeners of a node on which files are dropped, or files and long texts pasted.
export function takesFiles(onFiles: (files: File[]) => void) {
  const listen = (data: DataTransfer | null, event: Event, text: string) => {
    const long = text.length > LONG_PASTE ? [new File([text], "Pasted text.txt", { type: "text/plain" })] : [];
    const files = [...(data?.files ?? []), ...(data?.files.length ? [] : long)];
    if (!files.length) return;
    event.preventDefault();
    onFiles(files);
  };
  return {
    onDragOver: (event: DragEvent) => event.dataTransfer?.types.includes("Files") && event.preventDefault(),
    onDrop: (event: DragEvent) => listen(event.dataTransfer, event, ""),
    onPaste: (event: ClipboardEvent) =>
      listen(event.clipboardData, event, event.clipboardData?.getData("text/plain") ?? ""),
  };
}

// Has files read, one after the other, and adds each that can be; says why of each other.
export async function readFiles(page: ChatPage, chosen: File[], add: (file: Attached) => void) {
  const failed: string[] = [];
  page.fail("");
  page.set({ reading: [...page.state.reading, ...chosen] });
  for (const file of chosen) {
    try {
      add(await upload("/attachments", file));
    } catch (error) {
      if (!away(error)) failed.push(reason(error));
      page.fail(failed.join("\n"));
    }
    page.set({ reading: page.state.reading.filter((each) => each !== file) });
  }
}

// Adds something to the message box of the chat in which it was chosen.
export function adding(page: ChatPage): (file: Attached) => void {
  const { chat } = page.state;
  return (file) => {
    const here = page.state.chat === chat;
    const draft = here ? page.state.draft : drafts.of(chat);
    const more = { ...draft, files: [...draft.files, file] };
    if (here) page.write(more);
    else drafts.keep(chat, more);
  };
}

// A thumbnail that opens the picture.
export const Picture = ({ file }: { file: Attached }) => (
  <a class="picture" href={`/attachments/${file.id}`} target="_blank" rel="noopener noreferrer" title={file.name}>
    <img src={`/attachments/${file.id}`} alt={`Picture: ${file.name}`} loading="lazy" />
  </a>
);

// Says if the loaded model cannot see the pictures of a message.
function Blind({ page, files }: { page: ChatPage; files: Attached[] }) {
  const blind = page.state.status?.loaded?.blind;
  if (!blind || !files.some(({ kind }) => kind === "image")) return null;
  return (
    <p class="ft-error" role="status">
      {blind} Remove the picture, or load a model that sees images.
    </p>
  );
}

// ---- the dialog that adds a web page to a message by its address

export function AddPage({ page, onAdded }: { page: ChatPage; onAdded: ((file: Attached) => void) | null }) {
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), [onAdded]);
  const onClose = () => page.set({ addingPage: null });
  const [address, setAddress] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const submit = async () => {
    setBusy(true);
    setError("");
    try {
      const found = await answered(page.server.add_page({ address }));
      const added = found.private ? await answered(page.server.add_private_page({ address })) : found;
      if (page.state.addingPage === onAdded) {
        onAdded?.(added); // else it was cancelled meanwhile
        setAddress("");
        onClose();
      }
    } catch (why) {
      setError(reason(why));
    }
    setBusy(false);
  };
  return (
    <FormDialog
      title="Add a web page"
      open={onAdded !== null}
      onClose={onClose}
      submit={busy ? "Reading …" : "Add"}
      disabled={busy || !address.trim()}
      onSubmit={submit}
      error={error}>
      <TextInput
        label="Address"
        hint="Foretoken reads the page now and adds its text. Nothing else is fetched."
        value={address}
        onChange={setAddress}
        placeholder="https://example.org/page"
        ref={input}
      />
    </FormDialog>
  );
}
