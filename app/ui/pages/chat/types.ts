// What Python answers, and what the page keeps; see app/ui/pages/chat/backend.py.

import type { ShownReply } from "./drawer/rounds";
import type { Stats } from "../../shared/figures/figures";
import type { Status as Loading } from "../../shared/frame/status";
import type { Reply } from "../../shared/reply";
import type { Calls } from "./tools/calls";

export type { ChatPage } from "./state/page";

export type Chat = { id: number; title: string; updated: number; folder: number | null };

export type Folder = { id: number; name: string; folded: boolean };

export type Listing = { chats: Chat[]; folders: Folder[] };

export interface Attached {
  id?: number;
  name: string;
  text: string; // of documents it is asked for when it is shown
  kind?: "text" | "document" | "image";
  size?: number; // characters
  tokens?: number;
  pages?: number;
  choice?: string; // the pages that the user typed
  said?: string; // on the pages that are given
  source?: string; // the address of a web page
  notes?: string[]; // what could not be read
}

export type Written = { text: string; files: Attached[] };

export const BUSY = "Stop the current reply first."; // says why a request is refused

export const NOTHING: Written = Object.freeze({ text: "", files: [] });

export type Status = "running" | "done" | "length" | "cancelled" | "failed" | "interrupted";

export interface Message {
  id: number;
  role: "user" | "assistant";
  text: string;
  marks: string;
  thought: { from: number; to: number | null; answer: number | null } | null;
  status: Status;
  error: string | null;
  stats: any;
  beside: number[];
  left_out: boolean;
  edited: boolean;
  files: Attached[];
  writer: string;
  model: string;
  pair: any;
  absent?: boolean; // the model that wrote it is not here
  calls: Calls | null; // of tools
  reply: Reply; // of an answer: its text as it is drawn
  stage: string; // what the engine does before the first word
}

export type System = { name: string; text: string };

export interface Request {
  action: "send" | "retry" | "edit" | "continue";
  ticket?: string; // tells it from others after a reload
  chat?: number | null;
  preset?: string; // of a new chat, as `off`
  off?: string[];
  message?: number;
  text?: string;
  files?: Attached[];
  drop?: "oldest";
}

export interface Toast {
  id: number;
  text: string;
  take: () => Promise<boolean>; // undoes it; false: the app did not answer
  hidden: boolean;
}

export class PageState implements Listing {
  ready = false; // whether the first chat is shown
  chats: Chat[] = [];
  folders: Folder[] = [];
  chat: number | null = null; // null: a new one
  messages: Message[] = [];
  toolsOff: string[] = []; // servers of tools that a new chat does not use
  preset = ""; // the system prompt chosen for a new chat
  system: System | null = null;
  prompts: (System & { own: boolean })[] = [];
  running: number | null = null; // the run that writes in this chat
  live: Stats | null = null; // its figures
  shown: ShownReply | null = null; // the reply whose rounds are shown
  token: number | null = null; // of its text, under the pointer
  finished = false; // whether the last reply has just ended
  status: Loading | null = null; // what is loaded, and being loaded
  view: any = null; // the settings
  draft: Written = NOTHING;
  editing: number | null = null; // the message that is edited
  refusing: string | null = null; // the call of a tool whose refusal is written
  queued: Request | null = null; // sent after the current reply, or once the model is loaded
  error: { text: string; ofLoading: boolean } | null = null;
  told = "";
  toasts: Toast[] = [];
  addingPage: ((file: Attached) => void) | null = null; // takes the web page that is added in the dialog
  reading: File[] = []; // for the message box or an edit
  overflow: { why: string; turns: Message[][]; data: Request | null } | null = null;
  tab: "rounds" | "settings" = "rounds";
  drawer = false;
  side = false; // the list of chats lies over the chat
  pairOpen = false;
  choosing = false; // a model that was chosen there is being loaded
  tour: number | null = null;
}
