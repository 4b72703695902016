// The chat page: conversation, composer, chats and rounds around one stream of events.
//
// Python is reached through `server.*`, which also brings a reply's rounds.

import { address } from "../../shared/addresses.js";
import { Follow, h } from "../../shared/dom.js";
import { follow } from "../../shared/feed.js";
import { Loading } from "../../shared/loading.js";
import { ContextMeter } from "../../shared/meter.js";
import { register } from "../../shared/pages.js";
import { answered, away, reason } from "../../shared/server.js";
import { status } from "../../shared/status.js";
import { words } from "../../shared/words.js";
import { ChatList } from "./chats.js";
import { Composer } from "./composer.js";
import { drafts } from "./drafts.js";
import { Drawer } from "./drawer.js";
import { Fitting } from "./fitting.js";
import { AssistantMessage, UserMessage } from "./messages.js";
import { PairChip } from "./pair.js";
import { RoundsView } from "./rounds.js";
import { Settings } from "./settings.js";
import { SystemChoice } from "./system.js";
import { Tour } from "./tour.js";
import { Undo } from "./undo.js";
import { welcome } from "./welcome.js";
import { say } from "./words.js";

const remembered = "foretoken.chat";
const typing = (node) => node?.matches?.("input, textarea, select, [contenteditable]");
const samePair = (one, other) => ["target", "draft", "proposers"].every((key) => String(one[key]) === String(other?.[key])); // names are not unique

class ChatPage {
  constructor({ element, server }) {
    this.server = server;
    this.chat = null; // id, null for a new one
    this.listed = { chats: [], folders: [] };
    this.messages = [];
    this.running = null; // run id of the open chat
    this.sending = false;
    this.held = null; // what waits for the model
    this.given = null; // what was asked and is not answered yet
    this.preset = ""; // the system prompt of a chat that is to be
    this.loaded = undefined; // not known yet
    this.ask = this.ask.bind(this);
    this.build(element.querySelector(".ft-chat"));
    this.list();
    document.addEventListener("keydown", (event) => this.shortcut(event));
    status.watch((latest) => this.showStatus(latest), server.status);
    status.watchAway((gone) => !gone && this.back());
    // What is sent before the last chat is shown waits for it, or the chat would be drawn over it.
    this.booted = this.boot();
    address.watch((page) => this.arrive(page));
  }

  build(root) {
    this.root = root;
    const clear = h("button", { class: "ft-button small", type: "button", dataset: { action: "clear" }, on: { click: () => this.clear() } }, words.clear);
    this.stack = h("div", { class: "stack" });
    this.log = h("div", { class: "messages", role: "log", "aria-label": words.messages, tabindex: "0" }, this.stack);
    const pill = h("button", { class: "newest", type: "button", hidden: true }, words.newest);
    this.alert = h("div", { class: "ft-error notice", role: "alert", hidden: true });
    this.told = h("div", { class: "notice told", role: "status", hidden: true });
    this.composer = new Composer({
      send: () => this.send(),
      stop: () => this.stop(),
      up: () => this.editLast(),
      changed: () => this.keepDraft(),
      refused: (why) => this.notice(why),
    });
    this.undo = new Undo();
    this.fitting = new Fitting({ oldest: () => this.dropOldest(), leave: (ids) => this.leaveOut(ids) });
    this.tour = new Tour();
    const rounds = h("div", { class: "rounds" });
    this.system = new SystemChoice(this.ask, (name) => this.useSystem(name), () => this.settings.values?.system ?? "");
    this.settings = new Settings(this.ask, (view) => this.pair.showMethods(view), this.system.node);
    this.loading = new Loading(() => this.pair.cancel());
    this.pair = new PairChip(this.ask, (proposer) => this.settings.choose(proposer));
    this.drawer = new Drawer(root, { rounds, settings: this.settings.node });
    this.log.addEventListener("click", () => this.drawer.openChats(false));
    const side = h("nav", { class: "side", "aria-label": words.chats });
    this.meter = new ContextMeter();
    this.choose = h("button", { class: "ft-link", type: "button", dataset: { act: "choose-dropped" }, on: { click: () => this.fitting.open(words.context.nearly, this.turns, false) } }, say.chooseDropped);
    this.meter.node.append(this.choose);
    this.announce = h("div", { class: "sr-only", role: "status" });
    root.replaceChildren(side,
      h("section", { class: "conversation", "aria-label": words.conversation },
        h("header", { class: "bar" }, this.drawer.chats, this.pair.node, h("span", { class: "grow" }), clear, this.drawer.toggle),
        h("div", { class: "messages-frame" }, this.log, pill),
        this.told, this.alert, this.undo.node, this.composer.node, this.meter.node, this.announce),
      this.drawer.node, this.fitting.node, this.tour.node);
    this.composer.attached.take(this.log);
    this.rounds = new RoundsView(rounds, this.ask);
    this.scroll = new Follow(this.log, pill);
    this.list_ = new ChatList(side, this);
  }

  // ---- what Python knows

  async ask(name, data = {}) {
    try {
      return await answered(this.server[name](data));
    } catch (error) {
      this.notice(reason(error));
      return null;
    }
  }

  async boot() {
    const kept = Number(localStorage.getItem(remembered)) || null;
    const chat = address.chat ?? (address.open || address.page !== "chat" ? kept : null);
    const answer = await this.ask("boot", { chat });
    this.known = Boolean(answer);
    if (!answer) return;
    this.list(answer);
    this.system.offer(answer.prompts);
    const missed = address.chat !== null && !answer.chat;
    this.showChat(answer.chat, { replace: true });
    if (missed) this.notice(say.gone);
    else if (answer.notice) this.notice(answer.notice);
    this.goOn(answer);
  }

  // What this page had sent before it was reloaded: it waits on, or is given back. It may have been answered.
  goOn({ chat, waits }) {
    if (this.given) return this.keepDraft(); // it was sent just now
    const { asked, rest } = drafts.unanswered ?? {};
    if (!asked || (asked.chat ?? null) !== this.chat) return drafts.send(null);
    const last = this.messages.findLast((m) => m instanceof UserMessage);
    if (chat && last?.text === asked.text) {
      this.composer.set(rest);
      drafts.send(null);
      return this.keepDraft();
    }
    if (!waits) return drafts.send(null); // its text is the draft of this chat
    this.composer.set(rest);
    this.sending = true;
    this.given = asked;
    this.hold(asked);
  }

  // The app is there again: what it could not be asked is asked now.
  back() {
    if (!this.known) this.booted = this.boot();
    else if (this.running && !this.following) this.open(this.chat);
    if (!this.settings.values) this.settings.refresh();
    if (this.alert.textContent === words.lost) this.notice("");
  }

  // The address names another chat, by Back, Forward or a link.
  arrive(page) {
    if (page !== "chat" || !this.known || this.leading) return;
    if (address.chat === this.chat) return;
    if (address.chat === null) this.showChat(null);
    else this.open(address.chat);
  }

  showStatus(latest) {
    const { loaded, opening, failed, found, looking } = latest;
    if (this.opening && !opening && this.noticeOfLoading) this.notice("");
    this.opening = opening;
    const first = this.loaded === undefined;
    const other = first || (loaded && !samePair(loaded, this.loaded));
    const changed = this.settings.version !== latest.settings && !this.settings.keeping;
    this.loaded = loaded;
    this.pair.show(latest);
    this.loading.show(latest);
    this.meter.setLimit(loaded?.context);
    if (other || changed) this.renewing = this.renewSettings(other && !first);
    if (!this.pair.popover.hidden && (other || (this.wasOpening && !opening))) this.pair.refresh();
    else if (!looking && found !== this.found) this.pair.again();
    this.wasOpening = Boolean(opening);
    if (!looking) this.found = found;
    if (failed && !opening) this.notice(failed, true);
    if (!this.messages.length) this.showEmpty();
    if (this.held && !latest.waits) this.release();
    else if (this.held) this.hold(this.held);
  }

  // The settings for what is loaded now; what could not be taken over is said.
  async renewSettings(tell) {
    await this.settings.refresh();
    document.body.dataset.controls = "ready";
    const changes = this.settings.view?.changes ?? [];
    if (tell) this.tell(changes.join(" "));
  }

  // The list of chats, as an answer tells it anew.
  list(answer = null) {
    if (answer) this.listed = { chats: answer.chats, folders: answer.folders };
    this.list_?.show(this.listed, this.chat);
  }

  // What changes the list: it is drawn as the answer has it.
  async change(name, data) {
    const answer = await this.ask(name, data);
    if (answer) this.list(answer);
    return answer;
  }

  // Which chat this is stands in the address, and is remembered for a page that is opened without one.
  enter(chat, replace) {
    const first = this.entered === undefined;
    const other = first || chat !== this.chat;
    this.entered = true;
    this.chat = chat;
    // What is written, or sent, before the last chat is shown stays.
    const early = first && (this.given || !this.composer.empty);
    if (early && chat) drafts.forget(null);
    if (other && !early) this.composer.set(drafts.of(chat));
    if (chat) localStorage.setItem(remembered, chat);
    else localStorage.removeItem(remembered);
    const path = chat ? `/chat/${chat}` : "/chat";
    this.leading = true;
    if (address.page === "chat") address.go(path, { replace });
    else address.latest.chat = path;
    this.leading = false;
  }

  showChat(chat, { replace = false } = {}) {
    this.enter(chat?.id ?? null, replace);
    this.notice("");
    this.tell("");
    this.preset = "";
    this.system.show(chat?.system ?? null);
    this.messages = [];
    this.stack.replaceChildren();
    for (const message of chat?.messages ?? []) this.append(message);
    if (!this.messages.length) this.showEmpty();
    this.list();
    this.setRunning(null);
    if (this.messages.length) this.scroll.toEnd();
    const running = chat?.running;
    const last = this.messages.findLast((m) => m instanceof AssistantMessage);
    this.meter.show(last?.stats);
    if (running) {
      this.attach(running.run, running.message);
    } else {
      if (last) this.showRounds(last);
      else this.rounds.clear();
    }
  }

  append(message) {
    this.stack.querySelector(".empty")?.remove();
    const shown = message.role === "user" ? new UserMessage(message, this) : new AssistantMessage(message, this);
    this.messages.push(shown);
    this.stack.append(shown.node);
    return shown;
  }

  showEmpty() {
    const opening = status.latest?.opening;
    const shown = JSON.stringify([this.loaded, !this.loaded && Boolean(opening)]);
    if (this.welcomed === shown && this.stack.querySelector(".empty")) return; // people may be choosing in it
    this.welcomed = shown;
    this.stack.replaceChildren(welcome(this.loaded, opening && this.loading.node, (text) => this.act({ action: "send", text }), this.tour));
    this.log.scrollTop = 0;
    this.scroll.stuck = false; // it is read from its heading on
  }

  // One that is about loading goes away when loading ends.
  notice(text, ofLoading = false) {
    this.noticeOfLoading = ofLoading;
    this.alert.textContent = text;
    this.alert.hidden = !text;
  }

  // What is no mistake; `undo` takes it back, where it can be.
  tell(text, undo = null) {
    this.told.hidden = !text;
    if (this.told.firstChild?.textContent === text) return; // it is not said again
    const button = undo && h("button", { class: "ft-link", type: "button", on: { click: () => undo.call(this) } }, say.heldCancel);
    this.told.replaceChildren(...(text ? [h("span", {}, text), button ?? ""] : []));
  }

  // ---- actions

  async newChat() {
    this.showChat(null);
    this.drawer.uncover();
    this.composer.focus();
  }

  async open(id) {
    const answer = await this.ask("open_chat", { chat: id });
    if (!answer) return;
    this.take(answer);
    this.drawer.openChats(false);
    if (!answer.chat) this.notice(say.gone);
  }

  // A chat, with the list that it is in.
  take(answer) {
    this.listed = { chats: answer.chats, folders: answer.folders };
    this.showChat(answer.chat);
  }

  // The chat as it is now, read on from where it was.
  redraw(chat) {
    const { scrollTop } = this.log;
    this.showChat(chat);
    this.scroll.stuck = false;
    this.log.scrollTop = scrollTop;
  }

  async remove(chat) {
    const answer = await this.change("delete_chat", { chat: chat.id });
    if (!answer) return;
    if (chat.id === this.chat) this.showChat(null);
    this.undo.offer(say.chatDeleted(chat.title || words.untitled), () => this.restore(answer.deleted));
  }

  async removeMessage(message) {
    const following = this.messages.length - 1 - this.messages.indexOf(message);
    const answer = await this.ask("delete_message", { chat: this.chat, message: message.id });
    if (!answer) return;
    this.redraw(answer.chat);
    this.undo.offer(say.messageDeleted(following), () => this.restore(answer.deleted));
  }

  async clear() {
    if (!this.messages.length) return;
    const answer = await this.ask("clear_chat", { chat: this.chat });
    if (!answer) return;
    this.showChat(answer.chat);
    this.undo.offer(say.cleared, () => this.restore(answer.deleted));
  }

  async restore(deleted) {
    const answer = await this.ask("restore", { deleted });
    if (answer) this.take(answer);
  }

  // Another version of a message; the arrow that led there keeps the focus.
  async showBranch(message, step) {
    const chat = await this.ask("show_branch", { chat: this.chat, message });
    if (!chat) return;
    this.redraw(chat);
    const arrows = this.messages.find((m) => m.id === message)?.node.querySelectorAll(".branches button:not(:disabled)") ?? [];
    arrows[step < 0 ? 0 : arrows.length - 1]?.focus();
  }

  async useSystem(name) {
    if (this.chat === null) this.preset = name;
    else await this.ask("use_system", { chat: this.chat, name });
  }

  // ---- a chat that is longer than the context

  // Questions with their replies, as far as models are given them.
  get turns() {
    const found = [];
    for (const message of this.messages.filter((m) => !m.leftOut)) {
      if (message instanceof UserMessage || !found.length) found.push([]);
      found.at(-1).push(message);
    }
    return found.map((turn) => turn.map(({ id, text, reply }) => ({ id, text: text ?? reply.text })));
  }

  // Nothing was sent: what is to be left out is asked first.
  full(data, why) {
    this.refused("");
    this.overfull = data;
    const place = data.message ? this.messages.findIndex((m) => m.id === data.message) : Infinity;
    const ahead = new Set(this.messages.slice(0, place).map((m) => m.id));
    if (data.action === "retry") ahead.delete(this.messages[place - 1]?.id); // its question is needed
    const turns = this.turns.map((turn) => turn.filter(({ id }) => ahead.has(id))).filter((turn) => turn.length);
    this.fitting.open(why, turns, true);
  }

  dropOldest() {
    this.again({ ...this.overfull, drop: "oldest" });
  }

  async leaveOut(messages, out = true) {
    const chat = await this.ask("leave_out", { chat: this.chat, messages, out });
    const again = this.overfull;
    if (!chat) return;
    this.redraw(chat);
    if (again && out) this.again(again);
  }

  again(data) {
    this.overfull = null;
    if (data.action === "send") this.composer.clear(); // it was given back
    this.act(data);
  }

  giveAgain(message) {
    this.overfull = null;
    const reply = this.messages[this.messages.indexOf(message) + 1];
    return this.leaveOut([message.id, ...(reply?.role === "assistant" ? [reply.id] : [])], false);
  }

  // ---- sending

  editLast() {
    const last = !this.running && this.messages.findLast((m) => m instanceof UserMessage);
    if (last) last.edit();
    return Boolean(last);
  }

  // What is written is kept for this chat, with what is sent and not answered yet.
  keepDraft() {
    const written = this.composer.value;
    const sent = this.given?.action === "send" && this.isHere(this.given) ? this.given : { text: "" };
    drafts.keep(this.chat, {
      text: [sent.text, written.text].filter(Boolean).join("\n\n"),
      files: [...(sent.files ?? []), ...written.files],
    });
    drafts.send(this.given, written);
  }

  // Whether what was asked belongs to the chat that is shown; another may be by now.
  isHere({ chat = null }) {
    return chat === this.chat;
  }

  send() {
    if (this.composer.empty) return void this.notice(words.empty);
    const written = this.composer.value;
    if (!this.act({ action: "send", ...written })) return; // the text stays, to be sent later
    this.composer.clear();
    this.keepDraft();
  }

  // Asks Python for a reply; false, with a word, while another one is wanted or written.
  act(data) {
    if (this.running || this.sending) {
      this.notice(words.busy);
      return false;
    }
    this.sending = true;
    this.notice("");
    this.tell("");
    this.given = data;
    this.booted.then(() => {
      const asked = { ...data, chat: this.chat, preset: this.preset };
      this.given = asked;
      if (status.latest?.waits) this.hold(asked);
      else this.deliver(asked);
    });
    return true;
  }

  // A message for a model that is still being loaded waits here: what it is drafted with is not known before.
  hold(data) {
    this.held = data;
    this.tell(say.held(data.text || say.heldAction, this.opening ?? ""), this.withhold);
  }

  withhold() {
    this.held = null;
    this.tell("");
    this.refused("");
  }

  release() {
    const data = this.held;
    this.held = null;
    this.tell("");
    if (this.loaded) this.deliver(data);
    else this.refused(status.latest.failed ?? say.heldOver);
  }

  async deliver(data) {
    let answer;
    try {
      await this.renewing; // the settings of a pair that was loaded just now
      answer = await answered(this.server.act({ ...data, ...this.settings.sent }));
    } catch (error) {
      return this.refused(reason(error), away(error));
    }
    if (answer.waits) return this.wait(data);
    if (answer.full) return this.full(data, answer.full);
    this.begin(answer);
  }

  // Python knew of a load before this page did.
  async wait(data) {
    this.hold(data);
    await status.refresh();
    setTimeout(() => this.held === data && !status.latest.waits && this.release(), 500);
  }

  stop() {
    if (this.running) this.ask("stop", { run: this.running });
  }

  // Where people ask for them; otherwise they are brought up to date wherever they are.
  openRounds(message) {
    this.drawer.show("rounds");
    return this.showRounds(message);
  }

  async showRounds(message) {
    const asked = (this.asked = Symbol("rounds"));
    const number = this.messages.filter((m) => m instanceof AssistantMessage).indexOf(message) + 1;
    const answer = await this.ask("rounds", { message: message.id });
    if (!answer || asked !== this.asked || this.running) return;
    this.rounds.clear(words.roundsOf(number), words.roundsNone);
    this.rounds.of(message);
    this.rounds.add(answer.rounds);
    this.rounds.total(answer.stats);
    this.rounds.finish();
  }

  // ---- the stream

  begin(packet) {
    this.sending = false;
    const { given } = this;
    this.given = null;
    drafts.send(null);
    if (given?.action === "edit") drafts.forget(`edit-${given.message}`);
    if (given && !this.isHere(given)) drafts.forget(given.chat);
    if (packet.changed.length) this.tell(packet.changed.join(" "));
    if (packet.chat !== this.chat) {
      if (this.chat !== null || this.messages.length) return void this.list(packet);
      drafts.forget(null);
      const written = this.composer.value;
      this.enter(packet.chat, true);
      this.composer.set(written);
    }
    this.keepDraft();
    this.list(packet);
    const here = new Set(this.messages.map((m) => m.id));
    // Another page has gone on with this chat: what was said there belongs to the answer.
    if (packet.kept.some((id) => !here.has(id))) return void this.open(packet.chat);
    const kept = new Set(packet.kept);
    this.messages = this.messages.filter((m) => kept.has(m.id) || (m.node.remove(), false));
    for (const m of this.messages) if (packet.left_out.includes(m.id)) m.leaveOut(true);
    if (packet.user) this.append(packet.user);
    this.append(packet.reply);
    this.attach(packet.run, packet.reply.id);
  }

  // Shows the reply as it is written, from its beginning.
  async attach(run, message) {
    const shown = this.messages.find((m) => m.id === message);
    if (!shown) return; // deleted from another page meanwhile
    shown.reply.set("", "");
    this.setRunning(run);
    this.asked = null;
    this.rounds.clear();
    this.rounds.of(shown);
    this.scroll.toEnd();
    this.following = run;
    try {
      await follow((from) => this.server.follow({ run, from }), () => this.running === run, (events, stats, done) => this.advance(shown, events, stats, done));
    } catch (error) {
      this.notice(reason(error)); // it is written on, or was; the page goes on with it once it can
    }
    if (this.following === run) this.following = null;
    if (this.running === run && !status.away) this.open(this.chat);
  }

  advance(shown, events, stats, done) {
    this.rounds.add(shown.add(events));
    if (stats) {
      this.rounds.total(stats);
      this.meter.show(stats);
      shown.measure(stats);
    }
    if (!done) return;
    this.rounds.finish();
    this.setRunning(null);
    const { end } = shown.reply; // its packet may have come before the one that says "done"
    if (!end) return void this.open(this.chat); // the reply is over and its feed is gone
    const failed = end.t === "failed";
    shown.finish(failed ? "failed" : end.reason === "stop" ? "done" : end.reason, stats, failed ? end.message : null);
    this.announce.textContent = words.finished;
  }

  // Says why, and gives the text back where it was written.
  refused(why) {
    this.sending = false;
    this.notice(why, Boolean(this.opening));
    const given = this.given ?? {};
    this.given = null;
    const edited = given.action === "edit" && this.messages.find((m) => m.id === given.message);
    if (edited) return void edited.edit(given);
    if (given.action === "send" && this.isHere(given)) this.composer.giveBack(given); // else it is its chat's draft
    this.keepDraft();
    if (address.page === "chat") this.composer.focus();
  }

  setRunning(run) {
    this.running = run;
    this.composer.running(run !== null);
    this.root.classList.toggle("is-running", run !== null);
    if (run !== null) return;
    this.scroll.grown();
    if (this.alert.textContent === words.busy) this.notice("");
  }

  grown() {
    this.scroll.grown();
  }

  // ---- keys and panes

  shortcut(event) {
    if (!this.root.offsetParent) return; // another page is shown
    if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
      if (!this.pair.popover.hidden) this.pair.turn(false);
      else if (!this.drawer.uncover() && this.running) this.stop();
    }
    const back = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "z";
    if (back && !typing(event.target) && this.undo.last()) event.preventDefault();
    const act = event.altKey && !event.ctrlKey && {
      KeyN: () => this.newChat(),
      KeyK: () => (this.drawer.openChats(true), this.list_.search.focus()),
      KeyM: () => (this.pair.turn(this.pair.popover.hidden), this.pair.chip.focus()),
      KeyS: () => (this.drawer.shown ? this.drawer.hide() : this.drawer.open()),
    }[event.code];
    if (act) (event.preventDefault(), act());
  }
}

register("chat", ChatPage);
