// What the chat page knows and does. Its components draw `state` and call these methods.
//
// Python is reached through `server.*`, which also brings a reply's rounds.

import { address } from "../../../shared/addresses";
import { drafts } from "../../../shared/form/drafts";
import { SettingsStore } from "../../../shared/form/settings_store";
import { answered, away, reason, type Endpoints, upload } from "../../../shared/frame/server";
import { pairKey, status } from "../../../shared/frame/status";
import { Reply } from "../../../shared/reply";
import { Store } from "../../../shared/store";
import { CurrentChat } from "./current";
import { Deletions } from "./deletions";
import { LeavingOut, Sending } from "./sending";
import { Stream } from "./stream";
import { BUSY, NOTHING, PageState, type Listing, type Message, type Written } from "../types";
import type { Follow } from "../../../shared/follow";
import type { Call } from "../tools/calls";

const narrow = matchMedia("(max-width: 699px)"); // the drawer lies over the chat
const overlaid = matchMedia("(max-width: 1079px)"); // the list of chats lies over the chat
const drawerKept = "foretoken.drawer";
const opensDrawer = () => !narrow.matches && localStorage.getItem(drawerKept) !== "closed";

const GONE = "This chat no longer exists.";
const LOADS = ["load_pair", "load_written"]; // endpoints

export class ChatPage extends Store<PageState> {
  current = new CurrentChat();
  sending = new Sending(this);
  stream = new Stream(this);
  deletions = new Deletions(this);
  leavingOut = new LeavingOut(this);
  follow: Follow | null = null; // keeps the conversation at its end
  settings = new SettingsStore((name, data) => this.ask(name, data));
  renewing: Promise<void> | undefined = undefined;
  choosing: Promise<unknown> | undefined = undefined; // of this chat's system prompt
  wanted: number | null = null; // the chat that was chosen last, which may still be on its way
  written: any = undefined; // counts the messages that Python has stored

  constructor(readonly server: Endpoints) {
    super({ ...new PageState(), drawer: opensDrawer() });
    this.ask = this.ask.bind(this);
  }

  // Begins once everything is drawn; the page stays as long as its document.
  begin() {
    window.addEventListener("foretoken-forgotten", () => this.forgotten());
    window.addEventListener("foretoken-tour", () => {
      address.go(address.of("chat"));
      this.set({ tour: 0 });
    });
    narrow.addEventListener("change", () => this.set({ drawer: opensDrawer() }));
    this.settings.watch(() => {
      const { view, values } = this.settings;
      if (view) this.set({ view: { ...view, settings: values } });
    });
    status.watch((latest) => this.showStatus(latest));
    status.contact.watch((gone) => void (gone || this.back()));
    this.current.watch((chat) => this.arrive(chat));
    address.watch((name) => name === "chat" || this.set({ pairOpen: false }));
    this.boot();
  }

  // ---- what Python knows

  // Calls an endpoint. Returns null if that failed, and says why; while the app is away the bar on top says that.
  async ask(name: string, data: object = {}) {
    try {
      return await answered(this.server[name](data));
    } catch (error) {
      if (!away(error)) this.fail(reason(error), LOADS.includes(name));
      return null;
    }
  }

  async boot() {
    const answer = await this.ask("boot", { chat: this.current.first, ticket: drafts.unanswered?.asked.ticket });
    if (!answer) return;
    const missed = address.chat !== null && !answer.chat;
    this.set({ ...listing(answer), prompts: answer.prompts });
    this.showChat(answer.chat, { replace: true });
    this.set({ ready: true });
    if (missed) this.fail(GONE);
    else if (answer.notice) this.fail(answer.notice);
    this.sending.goOn(answer);
    this.sending.release();
  }

  // Asks, once the app answers again, what it could not be asked meanwhile.
  back() {
    const { chat, ready, running } = this.state;
    if (!ready) this.boot();
    else if (running !== null && !this.stream.following && chat !== null) this.reload();
    if (!this.settings.values) this.settings.refresh();
  }

  showStatus(latest: any) {
    const { error, status: before } = this.state;
    const pair = latest.loaded;
    const other = !before || (pair && pairKey(pair) !== pairKey(before.loaded));
    const ended = Boolean(before && !latest.opening && (before.opening || before.loads !== latest.loads));
    this.set({ status: latest, ...(ended && error?.ofLoading ? { error: null } : {}) });
    if (ended && this.state.choosing) {
      const chats = other && this.state.pairOpen; // it was loaded here, to chat with it
      this.set({ choosing: false, ...(chats ? { pairOpen: false } : {}) });
      if (chats) this.focusBox();
    }
    const changed = this.settings.version !== latest.settings && !this.settings.keeping;
    if (other || changed) this.renewing = this.renewSettings(Boolean(before && other));
    if (latest.failed && !latest.opening && (ended || latest.failed !== before?.failed)) this.fail(latest.failed, true);
    this.sending.release();
    this.catchUp(latest.written);
  }

  // Fetches the settings of the loaded pair; `tell` says what could not be kept of the choices.
  async renewSettings(tell: boolean) {
    await this.settings.refresh(tell);
    document.body.dataset.controls = "ready";
    if (tell) this.set({ told: (this.settings.view?.news ?? []).join(" ") });
  }

  // Shows the messages that another page has written in this chat.
  async catchUp(written: any) {
    const idle = () => this.state.running === null && !this.sending.given;
    if (this.written === written || !idle()) return;
    const first = this.written === undefined;
    this.written = written;
    const { chat } = this.state;
    if (first || chat === null) return;
    const answer = await this.ask("open_chat", { chat });
    if (!answer?.chat || answer.chat.id !== this.wanted || !idle()) return;
    this.set(listing(answer));
    const ids = (messages: Message[]) => messages.map(({ id }) => id).join();
    if (ids(answer.chat.messages) !== ids(this.state.messages)) this.showChat(answer.chat);
  }

  // Clears the page after all chats were deleted for good.
  forgotten() {
    this.set({ toasts: [], draft: NOTHING, chats: [], folders: [] });
    this.showChat(null);
  }

  // Calls an endpoint that changes the list of chats, and shows the list.
  async change(name: string, data: object) {
    const answer = await this.ask(name, data);
    if (answer) this.set(listing(answer));
    return answer;
  }

  // ---- notices

  // Says what went wrong; that of a load goes when the load has ended.
  fail(text: string, ofLoading = false) {
    this.set({ error: text ? { text, ofLoading } : null });
  }

  // ---- the chat that is shown

  find(id: number) {
    return this.state.messages.find((each) => each.id === id);
  }

  // Returns the last message of the user or of the model.
  last(role: Message["role"]) {
    return this.state.messages.findLast((each) => each.role === role);
  }

  patch(id: number, change: Partial<Message>) {
    this.set({ messages: this.state.messages.map((each) => (each.id === id ? { ...each, ...change } : each)) });
  }

  // Returns a message with the reply that draws its text: the one it had, if it is shown already.
  dressed(message: any): Message {
    const known = this.find(message.id);
    const reply = known?.reply ?? new Reply();
    reply.until = message.calls?.at ?? null;
    if (message.role === "assistant" && !(known && known.status === message.status && reply.text === message.text))
      reply.set(message.text ?? "", message.marks, message.thought);
    return { ...message, reply, stage: "" };
  }

  // Shows the chat that the address names.
  arrive(chat: number | null) {
    if (!this.state.ready) return;
    if (chat === null) this.showChat(null);
    else this.open(chat);
  }

  // Shows a chat as Python has it; null shows a new one.
  showChat(chat: any, { replace = false } = {}) {
    const id = chat?.id ?? null;
    const other = !this.current.entered || id !== this.state.chat;
    this.wanted = id;
    if (other) this.leave(id);
    this.current.enter(id, replace);
    this.set({
      messages: (chat?.messages ?? []).map((each: any) => this.dressed(each)),
      system: chat?.system ?? null,
      toolsOff: [],
      preset: "",
      running: null,
      editing: null,
      error: null,
      told: "",
    });
    if (other) this.follow?.toEnd();
    const last = this.last("assistant");
    if (chat?.running) this.stream.attach(chat.running.run, chat.running.message);
    else if (last) this.stream.showRounds(last);
    else this.stream.show(null);
    this.sending.release();
  }

  // Goes to another chat, whose draft comes into the message box.
  leave(chat: number | null) {
    const { draft, queued, ready, running } = this.state;
    if (ready && queued && running !== null) this.sending.giveBack(); // nobody here would see the end of that reply
    // Keep what was written or sent before the first chat was shown.
    const early = !this.current.entered && Boolean(queued || draft.text || draft.files.length);
    if (early && chat !== null) drafts.forget(null);
    const own = early ? { queued: queued && { ...queued, chat } } : { draft: this.sending.draftOf(chat) };
    this.set({ chat, overflow: null, ...own });
  }

  // Chooses the system prompt or the tools of a new chat, also for its message that waits.
  choose(choice: Partial<PageState>) {
    this.set(choice);
    const { chat, preset, queued, toolsOff } = this.state;
    if (queued?.chat === chat) this.set({ queued: { ...queued, preset, off: toolsOff } });
  }

  newChat() {
    this.showChat(null);
    this.uncover();
    this.focusBox();
  }

  open(id: number) {
    this.wanted = id;
    return this.reload();
  }

  // Shows the chat that was chosen last as Python has it by now.
  async reload() {
    const { wanted } = this;
    const answer = await this.ask("open_chat", { chat: wanted });
    if (wanted !== this.wanted) return; // another one was chosen meanwhile
    if (!answer) return void (this.wanted = this.state.chat);
    this.take(answer);
    this.set({ side: false });
    if (!answer.chat) this.fail(GONE);
  }

  // Shows the chat and the list of an answer.
  take(answer: any) {
    this.set(listing(answer));
    this.showChat(answer.chat);
  }

  // Leaves the conversation where it is scrolled to.
  stay() {
    if (this.follow) this.follow.stuck = false;
  }

  // Shows the chat as it is now, at the same place.
  redraw(chat: any) {
    this.stay();
    this.showChat(chat);
  }

  // Shows another version of a message.
  async showBranch(message: number) {
    const answer = await this.ask("show_branch", { chat: this.state.chat, message });
    if (!answer) return;
    this.stay();
    this.take(answer);
  }

  // Shows the reply that begins, with its question if that is new. `asked` is the chat that asked for it.
  beginReply(packet: any, asked: number | null) {
    const { chat, messages, queued } = this.state;
    this.set({ ...listing(packet), told: packet.changed.join(" ") });
    if (asked !== chat) return; // another chat is shown by now
    if (packet.chat !== chat) {
      drafts.forget(chat);
      if (this.wanted === chat) this.wanted = packet.chat;
      this.current.enter(packet.chat, true);
      this.set({ chat: packet.chat, queued: queued?.chat === chat ? { ...queued, chat: packet.chat } : queued });
    }
    this.sending.keep();
    // Another page has continued this chat, or this one was reloaded since it asked.
    if (!packet.reply || packet.kept.some((id: number) => !this.find(id))) return void this.reload();
    const kept = messages
      .filter(({ id }) => packet.kept.includes(id) && id !== packet.reply.id)
      .map((each) => (packet.left_out.includes(each.id) ? { ...each, left_out: true } : each));
    const added = [packet.user, packet.reply].filter(Boolean).map((each) => this.dressed(each));
    const editing = kept.some(({ id }) => id === this.state.editing) ? this.state.editing : null;
    this.set({ messages: [...kept, ...added], editing });
    this.stream.attach(packet.run, packet.reply.id);
  }

  // Answers for a call of a tool that waits.
  async answerCall({ id, server }: Call, answer: string, text = "") {
    const data = { run: this.state.running, call: id, name: server, answer, text };
    if ((await this.ask("answer_call", data)) === false) this.fail("This call was already answered in another window.");
  }

  // The reply of this chat has ended.
  ended() {
    this.set({ running: null, live: null, finished: true });
    this.sending.release();
  }

  write(draft: Written) {
    const { error } = this.state;
    this.set({ draft, ...(error?.text === BUSY ? { error: null } : {}) });
    this.sending.keep();
  }

  focusBox() {
    document.querySelector<HTMLElement>(".composer textarea")?.focus();
  }

  // Imports chats from files. Returns what came of them, in sentences; nothing if that is one sentence, which is told
  // above the message box.
  async importFiles(files: File[]) {
    const told = [];
    let failed = false;
    for (const file of files) {
      this.set({ told: `Importing ${file.name} …` });
      try {
        const answer = await upload("/chats/import", file);
        told.push(...answer.summary);
        this.take(answer);
      } catch (error) {
        failed = true;
        told.push(reason(error));
      }
    }
    const brief = told.length === 1 && !failed;
    this.set({ told: brief ? told[0] : "" });
    return brief ? [] : told;
  }

  // Makes a new chat of this one as far as a message.
  async fork(message: number) {
    const answer = await this.ask("fork_chat", { chat: this.state.chat, message });
    if (!answer) return;
    this.take(answer);
    this.set({ told: "This is the fork. The original chat is unchanged." });
  }

  // ---- what lies beside and over the chat

  setDrawer(drawer: boolean) {
    if (!narrow.matches) localStorage.setItem(drawerKept, drawer ? "open" : "closed");
    this.set({ drawer, side: false });
  }

  setSide(side: boolean) {
    this.set({ side: side && overlaid.matches, ...(side && narrow.matches ? { drawer: false } : {}) });
  }

  // Shows a setting in the drawer.
  openSetting(id: string) {
    this.set({ tab: "settings" });
    this.setDrawer(true);
    requestAnimationFrame(() => document.querySelector<HTMLElement>(`#${id} input`)?.focus());
  }

  openRounds(message: Message) {
    this.set({ tab: "rounds" });
    this.setDrawer(true);
    return this.stream.showRounds(message);
  }

  // Closes what covers the conversation. Returns whether anything did.
  uncover() {
    const { drawer, side } = this.state;
    const covered = side || (drawer && narrow.matches);
    this.set({ side: false, ...(narrow.matches ? { drawer: false } : {}) });
    return covered;
  }

  // Closes what is on top; stops the reply only if nothing is.
  escape() {
    if (this.state.pairOpen) this.set({ pairOpen: false });
    else if (this.state.refusing) this.set({ refusing: null });
    else if (!this.uncover()) this.stream.stop();
  }
}

const listing = ({ chats, folders }: Listing): Listing => ({ chats, folders });
