// Folders in the list of chats: folded or not, renamed, deleted; chats are dragged into them and out.

import { ChevronDown, ChevronRight, Pencil, Trash2 } from "lucide";
import { useState } from "preact/hooks";
import { toChildArray, type ComponentChildren } from "preact";
import { Button, Icon } from "../../../shared/components";
import { words } from "../words";
import { NameInput } from "./name_input";
import type { ChatPage, Folder } from "../types";

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
        <NameInput label={words.rename} name={name} onDone={rename} />
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
            <Button
              kind="quiet"
              small
              icon={Pencil}
              title={words.rename}
              label={`${words.rename}: ${name}`}
              onClick={() => setRenaming(true)}
            />
            <Button
              kind="quiet"
              small
              icon={Trash2}
              title={words.deleteFolder}
              label={`${words.deleteFolder}: ${name}`}
              onClick={() => page.change("delete_folder", { folder: id })}
            />
          </span>
        </div>
      )}
      <ul class="ft-list" hidden={folded}>
        {count ? children : <li class="none ft-hint">{words.folderEmpty}</li>}
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
