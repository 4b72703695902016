// The chat page: builds its parts and shows one chat in them.
//
// Python is reached through `server.*`, which also brings a reply's rounds.

import { address } from "../../shared/addresses.js";
import { h } from "../../shared/dom.js";
import { drafts } from "../../shared/form/drafts.js";
import { field } from "../../shared/form/fields.js";
import { Loading } from "../../shared/frame/loading.js";
import { ContextMeter } from "../../shared/figures/dial.js";
import { Page, register } from "../../shared/frame/pages.js";
import { showMarks } from "../../shared/reply.js";
import { Settings } from "../../shared/form/settings.js";
import { status } from "../../shared/frame/status.js";
import { typing } from "../../shared/frame/brand.js";
import { words } from "../../shared/words.js";
import { ChatList } from "./list/chats.js";
import { Composer } from "./composer/composer.js";
import { Conversation } from "./conversation/conversation.js";
import { CurrentChat } from "./current.js";
import { Deletions } from "./conversation/deletions.js";
import { Drawer } from "./drawer/drawer.js";
import { Advice, Notices } from "./notices.js";
import { Overflow } from "./composer/overflow.js";
import { Loaded, PairChip } from "./pair.js";
import { RoundsView } from "./drawer/rounds.js";
import { Sending } from "./composer/sending.js";
import { Stream } from "./conversation/stream.js";
import { SystemChoice } from "./composer/system.js";
import { Tour } from "./conversation/tour.js";
import { say } from "./words.js";

class ChatPage extends Page {
  constructor({ element, server }) {
    super(server);
    this.listed = { chats: [], folders: [] };
    this.preset = ""; // the system prompt chosen for a new chat
    this.ask = this.ask.bind(this);
    this.current = new CurrentChat();
    this.build(element.querySelector(".ft-chat"));
    this.list();
    watchKeys(this);
    status.watch((latest) => this.showStatus(latest), server.status);
    window.addEventListener("foretoken-forgotten", () => this.forgotten());
    // A message sent before the last chat is shown waits for it; otherwise the chat would be drawn over it.
    this.booted = this.boot();
    this.current.watch((chat) => this.arrive(chat));
  }

  // ---- its parts

  build(root) {
    this.root = root;
    this.notices = new Notices();
    this.buildConversation();
    this.buildPair();
    const rounds = h("div", { class: "rounds" });
    const side = h("nav", { class: "side", "aria-label": words.chats });
    this.drawer = new Drawer(root, { rounds, settings: this.settings.node });
    this.conversation.log.addEventListener("click", () => this.drawer.openChats(false));
    const clear = h("button", { class: "ft-button small", type: "button", dataset: { action: "clear" }, on: { click: () => this.deletions.clear() } }, words.clear);
    root.replaceChildren(side,
      h("section", { class: "conversation", "aria-label": words.conversation },
        h("header", { class: "bar" }, this.drawer.chats, this.pair.node, h("span", { class: "grow" }), clear, this.drawer.toggle),
        this.conversation.node,
        this.advice.node, this.notices.told, this.notices.alert, this.deletions.undo.node, this.composer.node, this.meter.node, this.stream.announce),
      this.drawer.node, this.overflow.dialog.node, this.tour.node);
    this.rounds = new RoundsView(rounds, this.ask);
    this.chats = new ChatList(side, this);
  }

  buildConversation() {
    this.tour = new Tour();
    this.stream = new Stream(this);
    this.sending = new Sending(this);
    this.overflow = new Overflow(this);
    this.deletions = new Deletions(this);
    this.advice = new Advice(this);
    const notice = (text) => this.notices.notice(text);
    this.conversation = new Conversation({
      act: (data) => this.sending.act(data),
      notice,
      showBranch: (message, step) => this.showBranch(message, step),
      openRounds: (message) => this.stream.openRounds(message),
      giveAgain: (message) => this.overflow.giveAgain(message),
      removeMessage: (message) => this.deletions.deleteMessage(message),
      grown: () => this.conversation.scroll.grown(),
    }, this.tour);
    this.composer = new Composer({
      send: () => this.sending.send(),
      stop: () => this.stream.stop(),
      up: () => !this.stream.running && this.conversation.editLast(),
      changed: () => (this.notices.over(words.busy), this.sending.keepDraft()),
      think: (thinking) => this.settings.change({ thinking }, true),
      refused: notice,
    });
    this.composer.attached.take(this.conversation.log);
    this.meter = new ContextMeter();
    this.meter.node.append(h("button", { class: "ft-link", type: "button", dataset: { act: "choose-dropped" }, on: { click: () => this.overflow.choose() } }, say.chooseDropped));
  }

  buildPair() {
    this.system = new SystemChoice(this.ask, (name) => this.useSystem(name), () => this.settings.values?.system ?? "");
    const mark = field({ kind: "check", name: "mark", id: "mark-origins", label: say.mark, info: say.markInfo }, false, showMarks);
    this.settings = new Settings(this.ask, (view) => this.settingsShown(view), [mark.node, this.system.node]);
    this.loading = new Loading(() => this.pair.cancel());
    this.pair = new PairChip(this.ask, (proposer) => this.settings.choose(proposer));
    this.loaded = new Loaded(this);
  }

  settingsShown(view) {
    this.pair.showMethods(view);
    this.composer.offerThinking(view.thinking, view.settings.thinking);
    this.root.classList.toggle("thinks-by-choice", view.thinking.some(({ id }) => id === "off"));
  }

  // ---- what Python knows

  fail(text) {
    this.notices.notice(text);
  }

  async boot() {
    const answer = await this.ask("boot", { chat: this.current.first });
    this.known = Boolean(answer);
    if (!answer) return;
    this.list(answer);
    this.system.offer(answer.prompts);
    const missed = address.chat !== null && !answer.chat;
    this.showChat(answer.chat, { replace: true });
    if (missed) this.notices.notice(say.gone);
    else if (answer.notice) this.notices.notice(answer.notice);
    this.sending.goOn(answer);
  }

  // Repeats, once the app answers again, what it could not be asked meanwhile.
  back() {
    if (!this.known) this.booted = this.boot();
    else if (this.stream.running && !this.stream.following) this.open(this.chat);
    if (!this.settings.values) this.settings.refresh();
    this.notices.over(words.lost);
  }

  showStatus(latest) {
    this.loaded.show(latest);
    if (this.conversation.empty) this.showEmpty();
    this.sending.statusChanged(latest);
    this.advice.show();
    this.catchUp(latest.written);
  }

  // Redraws the chat if another page has continued it.
  async catchUp(written) {
    if (this.written === written || this.stream.running || this.sending.busy) return;
    const first = this.written === undefined;
    this.written = written;
    if (first || this.chat === null) return;
    const answer = await this.ask("open_chat", { chat: this.chat });
    if (!answer?.chat || answer.chat.id !== this.chat || this.stream.running || this.sending.busy) return;
    this.list(answer);
    const ids = (messages) => messages.map(({ id }) => id).join();
    if (ids(answer.chat.messages) !== ids(this.conversation.messages)) this.redraw(answer.chat);
  }

  // Clears the page after all chats were deleted for good.
  forgotten() {
    this.deletions.undo.forget();
    this.composer.clear();
    this.list({ chats: [], folders: [] });
    this.showChat(null);
  }

  // Shows the list of chats, as an answer has it.
  list(answer = null) {
    if (answer) this.listed = { chats: answer.chats, folders: answer.folders };
    this.chats.show(this.listed, this.chat);
  }

  // Calls an endpoint that changes the list of chats, and shows the list.
  async change(name, data) {
    const answer = await this.ask(name, data);
    if (answer) this.list(answer);
    return answer;
  }

  // ---- the chat that is shown

  // The id of the chat; null for a new one.
  get chat() {
    return this.current.id;
  }

  enter(chat, replace) {
    const first = !this.current.entered;
    const other = first || chat !== this.chat;
    // Keep what was written or sent before the last chat was shown.
    const early = first && (this.sending.given || !this.composer.empty);
    if (early && chat) drafts.forget(null);
    if (other && !early) this.composer.set(drafts.of(chat));
    this.current.enter(chat, replace);
  }

  // Shows the chat that the address names.
  arrive(chat) {
    if (!this.known) return;
    if (chat === null) this.showChat(null);
    else this.open(chat);
  }

  showChat(chat, { replace = false } = {}) {
    const { conversation, stream } = this;
    this.enter(chat?.id ?? null, replace);
    this.notices.clear();
    this.preset = "";
    this.system.show(chat?.system ?? null);
    conversation.show(chat?.messages ?? []);
    if (conversation.empty) this.showEmpty();
    this.list();
    stream.setRunning(null);
    if (!conversation.empty) conversation.toEnd();
    const last = conversation.replies.at(-1);
    this.meter.show(last?.stats);
    if (chat?.running) stream.attach(chat.running.run, chat.running.message);
    else if (last) stream.showRounds(last);
    else this.rounds.clear();
  }

  showEmpty() {
    const { pair, opening, waits } = this.loaded;
    this.conversation.showEmpty(waits ? null : pair, opening && this.loading.node);
  }

  newChat() {
    this.showChat(null);
    this.drawer.uncover();
    this.composer.focus();
  }

  async open(id) {
    const answer = await this.ask("open_chat", { chat: id });
    if (!answer) return;
    this.take(answer);
    this.drawer.openChats(false);
    if (!answer.chat) this.notices.notice(say.gone);
  }

  // Shows the chat and the list of an answer.
  take(answer) {
    this.listed = { chats: answer.chats, folders: answer.folders };
    this.showChat(answer.chat);
  }

  // Shows the chat as it is now, at the same scroll position.
  redraw(chat) {
    this.conversation.inPlace(() => this.showChat(chat));
  }

  // Shows another version of a message; the arrow that was pressed keeps the focus.
  async showBranch(message, step) {
    const chat = await this.ask("show_branch", { chat: this.chat, message });
    if (!chat) return;
    this.redraw(chat);
    const arrows = this.conversation.find(message)?.node.querySelectorAll(".branches button:not(:disabled)") ?? [];
    arrows[step < 0 ? 0 : arrows.length - 1]?.focus();
  }

  async useSystem(name) {
    if (this.chat === null) this.preset = name;
    else await this.ask("use_system", { chat: this.chat, name });
  }

  // Shows the reply that begins, with its question if that is new.
  begin(packet) {
    const { conversation } = this;
    if (packet.changed.length) this.notices.tell(packet.changed.join(" "));
    if (packet.chat !== this.chat) {
      if (this.chat !== null || !conversation.empty) return void this.list(packet);
      drafts.forget(null);
      const written = this.composer.value;
      this.enter(packet.chat, true);
      this.composer.set(written);
    }
    this.sending.keepDraft();
    this.list(packet);
    // Another page has continued this chat, so reload it.
    if (packet.kept.some((id) => !conversation.find(id))) return void this.open(packet.chat);
    conversation.keep(packet.kept);
    for (const m of conversation.messages) if (packet.left_out.includes(m.id)) m.leaveOut(true);
    if (packet.user) conversation.add(packet.user);
    const goesOn = conversation.find(packet.reply.id);
    if (goesOn) goesOn.finish("running");
    else conversation.add(packet.reply);
    this.stream.attach(packet.run, packet.reply.id);
  }
}

// ---- keys: Escape, Ctrl+Z, and Alt with N, K, M and S

function watchKeys(page) {
  document.addEventListener("keydown", (event) => {
    if (!page.root.offsetParent) return; // another page is shown
    if (event.key === "Escape" && !document.querySelector("dialog[open]")) onEscape(page);
    const back = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "z";
    if (back && !typing(event.target) && page.deletions.undo.last()) event.preventDefault();
    const act = event.altKey && !event.ctrlKey && shortcuts(page)[event.code];
    if (act) (event.preventDefault(), act());
  });
}

// Closes what lies on top; stops the reply only if nothing does.
function onEscape({ pair, drawer, stream }) {
  if (!pair.popover.hidden) pair.turn(false);
  else if (!drawer.uncover()) stream.stop();
}

// The actions of Alt and a key, by the key's code.
const shortcuts = (page) => ({
  KeyN: () => page.newChat(),
  KeyK: () => (page.drawer.openChats(true), page.chats.search.focus()),
  KeyM: () => (page.pair.turn(page.pair.popover.hidden), page.pair.chip.focus()),
  KeyS: () => (page.drawer.shown ? page.drawer.hide() : page.drawer.open()),
});

register("chat", ChatPage);
