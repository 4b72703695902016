// The list of chats: folders, then days, newest first; search, rename, move, export, import and delete.

import { FileDown, FolderPlus, Pencil, SquarePen, Trash2, Upload, Ellipsis, X } from "lucide";
import { useRef, useState } from "preact/hooks";
import { saveFile } from "../../../shared/browser";
import { Button, Dialog, SearchBox, Select, useFound } from "../../../shared/components";
import { memo } from "../../../shared/store";
import { words } from "../words";
import { ChatFolder, dragging, dropping } from "./folders";
import { NameInput } from "./name_input";
import type { Chat, ChatPage, Folder } from "../types";

const DAY = 86_400_000;
const months = new Intl.DateTimeFormat("en", { month: "long", year: "numeric" });

// Returns [name, chats] for each day or span.
// `chats` have the newest first.
function byDay(chats: Chat[], now: Date) {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const spans: [number, string][] = [
    [0, words.today],
    [1, words.yesterday],
    [7, words.week],
    [30, words.month],
  ];
  const name = (at: number) => spans.find(([days]) => at >= midnight - days * DAY)?.[1] ?? months.format(at);
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
        <h2>{words.chats}</h2>
        <Button
          class="side-close"
          kind="quiet"
          small
          icon={X}
          label={words.close}
          onClick={() => page.setSide(false)}
        />
        <Button small icon={SquarePen} data-action="new" title="Alt+N" onClick={() => page.newChat()}>
          {words.newChat}
        </Button>
      </div>
      <SearchBox label={words.search} value={text} onChange={setText} />
      <div class="chat-list ft-stack" {...dropping(page, null)}>
        {naming && <NameInput label={words.folderName} onDone={newFolder} />}
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
        {!shown.length && <p class="none ft-hint">{found ? words.noneFound : words.noChats}</p>}
      </div>
      <input
        type="file"
        accept=".json,.zip,application/json,application/zip"
        multiple
        hidden
        ref={file}
        onChange={({ currentTarget }) => take(currentTarget)}
      />
      <Dialog class="imported" title={words.importChat} open={summary.length > 0} onClose={() => setSummary([])}>
        {summary.map((line) => (
          <p key={line} dir="auto">
            {line}
          </p>
        ))}
      </Dialog>
      <div class="ft-row ft-spread">
        <Button kind="link" icon={FolderPlus} data-action="new-folder" onClick={() => setNaming({ chat: null })}>
          {words.newFolder}
        </Button>
        <Button kind="link" icon={Upload} class="import" title={words.importHint} onClick={() => file.current?.click()}>
          {words.importChat}
        </Button>
      </div>
    </>
  );
});

type ChatItemProps = { page: ChatPage; chat: Chat; folders: Folder[]; current: boolean; onNewFolder: () => void };
function ChatItem({ page, chat, folders, current, onNewFolder }: ChatItemProps) {
  const [open, setOpen] = useState<"" | "menu" | "name">("");
  const title = chat.title || words.untitled;
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
  const tool = (icon: any, label: string, run: () => void) => (
    <Button kind="quiet" small icon={icon} title={label} label={`${label}: ${title}`} onClick={run} />
  );
  if (open === "name")
    return (
      <li class={current ? "current" : undefined}>
        <NameInput label={words.rename} name={chat.title} onDone={rename} />
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
        {tool(Pencil, words.rename, () => setOpen("name"))}
        {tool(Ellipsis, words.more, () => setOpen(open === "menu" ? "" : "menu"))}
        {tool(Trash2, words.remove, () => page.deletions.deleteChat(chat))}
      </span>
      {open === "menu" && (
        <div class="menu ft-stack">
          <Select
            label={words.moveTo}
            value={String(folders.some(({ id }) => id === chat.folder) ? chat.folder : "")}
            options={[
              { value: "", label: words.noFolder },
              ...folders.map(({ id, name }) => ({ value: String(id), label: name })),
              { value: "new", label: `${words.newFolder}…` },
            ]}
            onChange={move}
          />
          {["markdown", "json"].map((form) => (
            <Button key={form} kind="link" icon={FileDown} data-export={form} onClick={() => exported(form)}>
              {words.exports[form]}
            </Button>
          ))}
        </div>
      )}
    </li>
  );
}
