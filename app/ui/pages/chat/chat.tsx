// The chat page: the list of chats, one chat, and the drawer.

import { Eraser, Menu as MenuIcon, PanelRight } from "lucide";
import { useContext, useEffect, useMemo } from "preact/hooks";
import { Button, register, useListener } from "../../shared/components";
import { Server } from "../../shared/frame/hooks";
import { typing } from "../../shared/frame/topbar";
import { useStore } from "../../shared/store";
import { Composer, ContextMeter, Overflow } from "./composer/composer";
import { AddPage } from "./composer/attachments";
import { Conversation } from "./conversation/conversation";
import { Tour } from "./conversation/welcome";
import { Drawer } from "./drawer/drawer";
import { ChatList } from "./list/chats";
import { Notices } from "./notices";
import { PairChip } from "./chip/chip";
import { ChatPage } from "./state/page";

function Chat() {
  const server = useContext(Server);
  const page = useMemo(() => new ChatPage(server), [server]);
  const state = useStore(page);
  useEffect(() => page.begin(), [page]);
  useListener(document, "keydown", (event) => onKey(page, event));
  const { chats, drawer, messages, running, side } = state;
  const title = chats.find(({ id }) => id === state.chat)?.title || "New chat";
  const look = ["chat-frame", drawer && "drawer-open", side && "side-open", running !== null && "is-running"];
  return (
    <div class={look.filter(Boolean).join(" ")}>
      <nav class="side ft-stack" aria-label="Chats">
        <ChatList page={page} chats={chats} folders={state.folders} current={state.chat} />
      </nav>
      {side && <div class="scrim" onClick={() => page.setSide(false)} />}
      <section class="conversation ft-stack" aria-label="Conversation">
        <header class="bar ft-row">
          <Button
            small
            icon={MenuIcon}
            data-toggle="side"
            label="Chats"
            aria-expanded={side}
            onClick={() => page.setSide(!side)}
          />
          <PairChip page={page} state={state} />
          <span class="grow" />
          {messages.length > 0 && (
            <Button small icon={Eraser} label="Clear chat" data-action="clear" onClick={() => page.deletions.clear()} />
          )}
          <Button
            small
            icon={PanelRight}
            data-toggle="drawer"
            title="Rounds and settings"
            aria-expanded={drawer}
            onClick={() => page.setDrawer(!drawer)}>
            Rounds
          </Button>
        </header>
        {messages.length > 0 && <h1 class="sr-only">{title}</h1>}
        <Conversation page={page} state={state} />
        <div class="foot-of-chat ft-stack">
          <Notices page={page} state={state} />
          <Composer page={page} state={state} />
          <ContextMeter page={page} state={state} />
        </div>
        <div class="sr-only" role="status">
          {state.finished ? "Reply finished" : ""}
        </div>
      </section>
      <Drawer page={page} state={state} />
      <Overflow page={page} overflow={state.overflow} />
      <AddPage page={page} onAdded={state.addingPage} />
      {state.tour !== null && <Tour page={page} step={state.tour} />}
    </div>
  );
}

// Focuses an element once it is drawn.
const focusDrawn = (where: string) => requestAnimationFrame(() => document.querySelector<HTMLElement>(where)?.focus());

// With Alt.
const SHORTCUTS: Record<string, (page: ChatPage) => void> = {
  KeyN: (page) => page.newChat(),
  KeyK: (page) => {
    page.setSide(true);
    focusDrawn(".side .chat-search");
  },
  KeyM: (page) => {
    const pairOpen = !page.state.pairOpen;
    page.set({ pairOpen });
    focusDrawn(pairOpen ? "#pair-popover .chat-search" : ".badge");
  },
  KeyS: (page) => page.setDrawer(!page.state.drawer),
};

// Escape, Ctrl+Z, and Alt with a letter.
function onKey(page: ChatPage, event: KeyboardEvent) {
  if (document.documentElement.dataset.page !== "chat") return;
  if (event.key === "Escape" && !document.querySelector("dialog[open], :popover-open")) page.escape();
  const plain = !event.shiftKey && !event.altKey && (event.ctrlKey || event.metaKey);
  if (plain && event.key.toLowerCase() === "z" && !typing(event.target) && page.deletions.undoLast())
    event.preventDefault();
  // The key with the letter, wherever the layout has it; with Alt, macOS writes signs.
  const code = /^[a-z]$/i.test(event.key) ? `Key${event.key.toUpperCase()}` : event.code;
  const act = event.altKey && !event.ctrlKey && SHORTCUTS[code];
  if (!act) return;
  event.preventDefault();
  act(page);
}

register("chat", Chat);
