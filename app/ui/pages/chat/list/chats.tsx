// The list of chats: folders, then days, newest first; search, rename, move, export, import and delete.

import {
  ChevronDown,
  ChevronRight,
  Ellipsis,
  FileDown,
  FolderPlus,
  Pencil,
  SquarePen,
  Trash2,
  Upload,
  X,
  type IconNode,
} from "lucide";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { saveFile } from "../../../shared/browser";
import { Button, IconButton, Dialog, Icon, SearchBox, Select, useFound } from "../../../shared/components";
import { memo } from "../../../shared/store";
import type { Chat, ChatPage, Folder } from "../types";
import { type ComponentChildren, toChildArray } from "preact";

const months = new Intl.DateTimeFormat("en", { month: "long", year: "numeric" });

// Returns [name, chats] for each day or span.
// `chats` have the newest first.
function byDay(chats: Chat[], now: Date) {
  const midnight = (days: number) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - days).getTime();
  const spans: [number, string][] = [
    [0, "Today"],
    [1, "Yesterday"],
    [7, "Previous 7 days"],
    [30, "Previous 30 days"],
  ];
  const name = (at: number) => spans.find(([days]) => at >= midnight(days))?.[1] ?? months.format(at);
  const days = new Map<string, Chat[]>();
  for (const chat of chats) {
    const day = name(1000 * chat.updated);
    days.set(day, [...(days.get(day) ?? []), chat]);
  }
  return [...days];
}

type ChatListProps = { page: ChatPage; chats: Chat[]; folders: Folder[]; current: number | null };
export const ChatList = memo(({ page, chats, folders, current }: ChatListProps) => {
  const [text, setText] = useState("");
  const [naming, setNaming] = useState<{ chat: number | null } | null>(null); // of a new folder
  const [summary, setSummary] = useState<string[]>([]); // of an import
  const file = useRef<HTMLInputElement>(null);
  const sought = text.trim();
  const ids = useFound<number[]>(page.ask, "search_chats", { text: sought }, [sought, chats], sought !== "");
  const found = sought && ids && new Set(ids);
  const take = async (input: HTMLInputElement) => {
    const chosen = [...(input.files ?? [])];
    input.value = "";
    if (chosen.length) setSummary(await page.importFiles(chosen));
  };
  const newFolder = async (name: string | null) => {
    setNaming(null);
    if (name) await page.change("new_folder", { name, chat: naming?.chat ?? null });
  };
  const shown = found ? chats.filter(({ id }) => found.has(id)) : chats;
  const known = new Set(folders.map(({ id }) => id));
  const loose = shown.filter(({ folder }) => folder === null || !known.has(folder));
  const item = (chat: Chat) => (
    <ChatItem
      key={chat.id}
      page={page}
      chat={chat}
      folders={folders}
      current={chat.id === current}
      onNewFolder={() => setNaming({ chat: chat.id })}
    />
  );
  return (
    <>
      <div class="ft-row ft-spread">
        <h2>Chats</h2>
        <IconButton class="side-close" icon={X} label="Close" onClick={() => page.setSide(false)} />
        <Button small icon={SquarePen} text="New chat" data-action="new" title="Alt+N" onClick={() => page.newChat()} />
      </div>
      <SearchBox label="Search chats" value={text} onChange={setText} />
      <div class="chat-list ft-stack" {...dropping(page, null)}>
        {naming && <NameInput label="Folder name" onDone={newFolder} />}
        {folders
          .map((folder) => ({ folder, own: shown.filter((chat) => chat.folder === folder.id) }))
          .filter(({ own }) => own.length || !found)
          .map(({ folder, own }) => (
            <ChatFolder key={folder.id} page={page} folder={folder} folded={folder.folded && !found}>
              {own.map(item)}
            </ChatFolder>
          ))}
        {byDay(loose, new Date()).map(([day, own]) => (
          <section class="day" key={day}>
            <h3>{day}</h3>
            <ul class="ft-list">{own.map(item)}</ul>
          </section>
        ))}
        {!shown.length && (
          <p class="none ft-hint">{found ? "No matches." : "Chats are stored on the machine that runs Foretoken."}</p>
        )}
      </div>
      <input
        type="file"
        accept=".json,.zip,application/json,application/zip"
        multiple
        hidden
        ref={file}
        onChange={({ currentTarget }) => take(currentTarget)}
      />
      <Dialog class="imported" title="Import" open={summary.length > 0} onClose={() => setSummary([])}>
        {summary.map((line) => (
          <p key={line} dir="auto">
            {line}
          </p>
        ))}
      </Dialog>
      <div class="ft-row ft-spread">
        <Button kind="link" icon={FolderPlus} data-action="new-folder" onClick={() => setNaming({ chat: null })}>
          New folder
        </Button>
        <Button
          kind="link"
          icon={Upload}
          class="import"
          title="Import chats: exported here (JSON), from ChatGPT (the zip of its export) or LM Studio"
          onClick={() => file.current?.click()}>
          Import
        </Button>
      </div>
    </>
  );
});

// What can be done with a chat or a folder.
type ToolProps = { icon: IconNode; label: string; of: string; onClick: () => void };
const Tool = ({ label, of, ...rest }: ToolProps) => <IconButton {...rest} title={label} label={`${label}: ${of}`} />;

type ChatItemProps = { page: ChatPage; chat: Chat; folders: Folder[]; current: boolean; onNewFolder: () => void };
function ChatItem({ page, chat, folders, current, onNewFolder }: ChatItemProps) {
  const [open, setOpen] = useState<"" | "menu" | "name">("");
  const title = chat.title || "New chat";
  const go = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    page.open(chat.id);
  };
  const rename = async (name: string | null) => {
    if (name) await page.change("rename_chat", { chat: chat.id, title: name });
    setOpen("");
  };
  const exported = async (form: string) => {
    const file = await page.ask("export_chat", { chat: chat.id, form });
    if (file) saveFile(file.name, file.text);
  };
  const move = (folder: string) =>
    folder === "new"
      ? onNewFolder()
      : page.change("move_chat", { chat: chat.id, folder: folder ? Number(folder) : null });
  if (open === "name")
    return (
      <li class={current ? "current" : undefined}>
        <NameInput label="Rename" name={chat.title} onDone={rename} />
      </li>
    );
  return (
    <li class={current ? "current" : undefined} data-chat={chat.id} {...dragging(chat.id)}>
      <a
        class="open"
        href={`/chat/${chat.id}`}
        dir="auto"
        draggable={false}
        aria-current={current ? "page" : undefined}
        title={title}
        onClick={go}>
        {title}
      </a>
      <span class="tools">
        <Tool icon={Pencil} label="Rename" of={title} onClick={() => setOpen("name")} />
        <Tool icon={Ellipsis} label="More" of={title} onClick={() => setOpen(open === "menu" ? "" : "menu")} />
        <Tool icon={Trash2} label="Delete" of={title} onClick={() => page.deletions.deleteChat(chat)} />
      </span>
      {open === "menu" && (
        <div class="menu ft-stack ft-gap-1">
          <Select
            label="Move to"
            value={String(folders.some(({ id }) => id === chat.folder) ? chat.folder : "")}
            options={[
              { id: "", label: "No folder" },
              ...folders.map(({ id, name }) => ({ id: String(id), label: name })),
              { id: "new", label: `New folder…` },
            ]}
            onChange={move}
          />
          {[
            ["markdown", "Markdown"],
            ["json", "JSON"],
          ].map(([form, name]) => (
            <Button key={form} kind="link" icon={FileDown} data-export={form} onClick={() => exported(form)}>
              Export as {name}
            </Button>
          ))}
        </div>
      )}
    </li>
  );
}

// ---- folders in the list of chats: folded or not, renamed, deleted; chats are dragged into them and out

const KIND = "application/x-foretoken-chat";

type ChatFolderProps = { page: ChatPage; folder: Folder; folded: boolean; children: ComponentChildren };
export function ChatFolder({ page, folder: { id, name }, folded, children }: ChatFolderProps) {
  const [renaming, setRenaming] = useState(false);
  const rename = async (text: string | null) => {
    if (text) await page.change("change_folder", { folder: id, name: text });
    setRenaming(false);
  };
  const count = toChildArray(children).length;
  return (
    <section class="chat-folder" data-folder={id} {...dropping(page, id)}>
      {renaming ? (
        <NameInput label="Rename" name={name} onDone={rename} />
      ) : (
        <div class="folder-head">
          <button
            class="fold ft-bare ft-row"
            type="button"
            aria-expanded={!folded}
            onClick={() => page.change("change_folder", { folder: id, folded: !folded })}>
            <Icon of={folded ? ChevronRight : ChevronDown} size={15} />
            <span class="ft-cut" dir="auto">
              {name}
            </span>
            <span class="ft-hint">{count}</span>
          </button>
          <span class="tools">
            <Tool icon={Pencil} label="Rename" of={name} onClick={() => setRenaming(true)} />
            <Tool
              icon={Trash2}
              label="Delete folder, keep chats"
              of={name}
              onClick={() => page.change("delete_folder", { folder: id })}
            />
          </span>
        </div>
      )}
      <ul class="ft-list" hidden={folded}>
        {count ? children : <li class="none ft-hint">Drag a chat here, or use “Move to” in its menu.</li>}
      </ul>
    </section>
  );
}

// Returns the attributes of a chat that can be dragged into a folder.
export const dragging = (chat: number) => ({
  draggable: true,
  onDragStart: ({ dataTransfer }: any) => {
    dataTransfer.setData(KIND, String(chat));
    dataTransfer.effectAllowed = "move";
  },
});

// Returns the listeners of a place that takes chats into `folder`; null takes them out of theirs.
export function dropping(page: ChatPage, folder: number | null) {
  const ours = (event: any) => {
    if (!event.dataTransfer?.types.includes(KIND)) return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  };
  const over = (event: any, on: boolean) => event.currentTarget.classList.toggle("over", on);
  return {
    onDragOver: (event: DragEvent) => ours(event) && over(event, true),
    onDragLeave: (event: DragEvent) => over(event, false),
    onDrop: (event: any) => {
      over(event, false);
      if (ours(event)) page.change("move_chat", { chat: Number(event.dataTransfer.getData(KIND)), folder });
    },
  };
}

// ---- a name that is written in its place

// `onDone` is called once, with the new name, or with null if it is the old one or Escape was pressed.
type NameInputProps = { label: string; name?: string; onDone: (name: string | null) => void };
export function NameInput({ label, name = "", onDone }: NameInputProps) {
  const input = useRef<HTMLInputElement>(null);
  const open = useRef(true);
  // Before anything else is typed.
  useLayoutEffect(() => {
    input.current?.focus();
    input.current?.select();
  }, []);
  const close = (keep: boolean) => {
    if (!open.current) return;
    open.current = false;
    const text = input.current?.value.trim();
    onDone(keep && text && text !== name ? text : null);
  };
  const key = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.isComposing) return; // these keys are the input method's
    if (event.key === "Enter") close(true);
    if (event.key === "Escape") close(false);
  };
  return (
    <input
      class="rename ft-input"
      type="text"
      dir="auto"
      maxLength={120}
      aria-label={label}
      placeholder={label}
      defaultValue={name}
      ref={input}
      onKeyDown={key}
      onBlur={() => close(true)}
    />
  );
}
