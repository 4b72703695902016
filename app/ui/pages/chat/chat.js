// The chat page: conversation, composer, chats and rounds around one stream of events.
//
// Python is reached two ways: through `server.*`, which also brings a reply's rounds, and through
// the component's event `act`, which takes a message together with the panel's settings.

import { Follow, h, percent, whenPresent } from "../../shared/dom.js";
import { follow } from "../../shared/feed.js";
import { Loading } from "../../shared/loading.js";
import { register } from "../../shared/pages.js";
import { answered, reason } from "../../shared/server.js";
import { status } from "../../shared/status.js";
import { words } from "../../shared/words.js";
import { ChatList } from "./chats.js";
import { AssistantMessage, UserMessage } from "./messages.js";
import { pipPicture } from "./pip.js";
import { RoundsView } from "./rounds.js";

const remembered = "foretoken.chat";
const patience = 30_000; // ms until a message without an answer is given back

class ChatPage {
  constructor({ element, props, trigger, server, watch }) {
    this.server = server;
    this.trigger = trigger;
    this.chat = null; // id, null for a new one
    this.chats = [];
    this.messages = [];
    this.running = null; // run id of the open chat
    this.sending = false;
    this.loaded = undefined; // not known yet
    this.build(element.querySelector(".ft-chat"));
    whenPresent("ft-chats", (node) => {
      this.list_ = new ChatList(node, this);
      this.list();
    });
    watch("value", () => this.receive(props.value));
    document.addEventListener("keydown", (event) => this.shortcut(event));
    status.watch((latest) => this.showStatus(latest), server.status);
    // What is sent before the last chat is shown waits for it, or the chat would be drawn over it.
    this.booted = this.boot(Number(localStorage.getItem(remembered)) || null);
  }

  build(root) {
    this.root = root;
    // Until the first answer comes, nothing is known to be loaded.
    this.badge = h("span", { class: "badge opening", role: "status" });
    const toggle = (name, label) => {
      const button = h("button", { class: "ft-button small", type: "button", dataset: { toggle: name }, on: { click: () => this.togglePane(name, button) } }, label);
      return button;
    };
    this.loading = new Loading(() => this.cancelLoading());
    const clear = h("button", { class: "ft-button small", type: "button", dataset: { action: "clear" } }, words.clear);
    clear.addEventListener("click", () => this.confirmClear(clear));
    this.stack = h("div", { class: "stack" });
    this.log = h("div", { class: "messages", role: "log", "aria-label": words.messages, tabindex: "0" }, this.stack);
    const pill = h("button", { class: "newest", type: "button", hidden: true }, words.newest);
    this.alert = h("div", { class: "ft-error notice", role: "alert", hidden: true });
    this.input = h("textarea", { rows: 1, placeholder: words.placeholder, "aria-label": words.placeholder, title: words.hint });
    this.send_ = h("button", { class: "ft-button primary send", type: "submit" }, words.send);
    this.stop_ = h("button", { class: "ft-button stop", type: "button", hidden: true, on: { click: () => this.stop() } }, words.stop);
    const form = h("form", { class: "composer", on: { submit: (event) => (event.preventDefault(), this.send()) } }, this.input, this.send_, this.stop_);
    this.input.addEventListener("input", () => this.fit());
    this.input.addEventListener("keydown", (event) => this.composerKey(event));
    this.log.addEventListener("click", () => document.body.classList.remove("show-side"));
    const rounds = h("aside", { class: "rounds", "aria-label": words.rounds });
    this.announce = h("div", { class: "sr-only", role: "status" });
    root.replaceChildren(
      h("section", { class: "conversation", "aria-label": words.conversation },
        h("header", { class: "bar" }, toggle("side", words.settings), this.badge, h("span", { class: "grow" }), toggle("rounds", words.rounds), clear),
        this.loading.node,
        h("div", { class: "messages-frame" }, this.log, pill),
        this.alert, form, this.announce),
      rounds);
    this.rounds = new RoundsView(rounds);
    this.scroll = new Follow(this.log, pill);
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

  async boot(chat) {
    const answer = await this.ask("boot", { chat });
    if (!answer) return;
    this.chats = answer.chats;
    this.showChat(answer.chat);
    if (answer.notice) this.notice(answer.notice);
  }

  showStatus(latest) {
    const { loaded, opening, progress, failed, found, looking } = latest;
    if (this.opening && !opening && this.noticeOfLoading) this.notice("");
    this.opening = opening;
    const first = this.loaded === undefined;
    if (first || (loaded && loaded.label !== this.loaded?.label)) this.trigger("ready", { first });
    this.loaded = loaded;
    this.loading.show(latest);
    if (!first && !looking && found !== this.found) this.trigger("listed");
    if (!looking) this.found = found;
    this.badge.classList.toggle("off", !loaded);
    this.badge.classList.toggle("opening", Boolean(opening));
    this.badge.textContent = opening ? (progress && progress.share !== null ? `${opening}, ${percent(progress.share)}` : opening) : loaded ? loaded.label : words.noModel;
    this.badge.title = loaded ? loaded.detail : "";
    if (failed && !opening) this.notice(failed, true);
    if (!this.messages.length) this.showEmpty(opening);
  }

  async cancelLoading() {
    await this.ask("cancel_loading");
    status.refresh();
  }

  list() {
    this.list_?.show(this.chats, this.chat);
  }

  showChat(chat) {
    this.chat = chat?.id ?? null;
    if (this.chat) localStorage.setItem(remembered, this.chat);
    else localStorage.removeItem(remembered);
    this.notice("");
    this.messages = [];
    this.stack.replaceChildren();
    for (const message of chat?.messages ?? []) this.append(message);
    if (!this.messages.length) this.showEmpty();
    this.list();
    this.setRunning(null);
    this.scroll.toEnd();
    const running = chat?.running;
    if (running) {
      this.attach(running.run, running.message);
    } else {
      const last = this.messages.findLast((m) => m instanceof AssistantMessage);
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

  showEmpty(opening = status.latest?.opening) {
    const loaded = this.loaded;
    if (!loaded && opening) {
      const waiting = h("p", { class: "waiting" }, h("span", { class: "spinner", "aria-hidden": true }), opening);
      return void this.stack.replaceChildren(h("div", { class: "empty" }, pipPicture(), waiting));
    }
    const pip = loaded?.pip;
    const title = !loaded ? words.noModel : pip ? words.pip.title : words.other.title(loaded.name);
    const body = !loaded ? words.noModelBody : pip ? words.pip.body : words.other.body;
    const examples = words.examples.map(({ label, text }) =>
      h("button", { class: "example", type: "button", on: { click: () => this.act({ action: "send", text }) } }, h("b", {}, label), h("span", {}, text)));
    this.stack.replaceChildren(h("div", { class: "empty" }, pipPicture(), h("h1", {}, title), h("p", {}, body), loaded ? h("div", { class: "examples" }, ...examples) : null));
  }

  // One that is about loading goes away when loading ends.
  notice(text, ofLoading = false) {
    this.noticeOfLoading = ofLoading;
    this.alert.textContent = text;
    this.alert.hidden = !text;
  }

  // ---- actions

  async newChat() {
    this.showChat(null);
    this.input.focus();
  }

  async open(id) {
    const answer = await this.ask("open_chat", { chat: id });
    if (!answer) return;
    this.chats = answer.chats;
    this.showChat(answer.chat);
  }

  async rename(id, title) {
    this.chats = (await this.ask("rename_chat", { chat: id, title })) ?? this.chats;
    this.list();
  }

  async remove(id) {
    this.chats = (await this.ask("delete_chat", { chat: id })) ?? this.chats;
    if (id === this.chat) this.showChat(null);
    this.list();
  }

  confirmClear(button) {
    if (!this.messages.length) return;
    if (button.classList.contains("sure")) {
      button.classList.remove("sure");
      button.textContent = words.clear;
      this.clear();
      return;
    }
    button.classList.add("sure");
    button.textContent = words.clearSure;
    setTimeout(() => (button.classList.remove("sure"), (button.textContent = words.clear)), 3000);
  }

  async clear() {
    const answer = await this.ask("clear_chat", { chat: this.chat });
    if (answer) this.showChat(answer);
  }

  send() {
    const text = this.input.value;
    if (!text.trim()) return void this.notice(words.empty);
    if (!this.act({ action: "send", text })) return; // the text stays, to be sent later
    this.input.value = "";
    this.fit();
  }

  // Asks Python for a reply; false, with a word, while another one is wanted or written.
  act(data) {
    if (this.running || this.sending) {
      this.notice(words.busy);
      return false;
    }
    this.setSending(true);
    this.notice("");
    this.given = data;
    this.booted.then(() => this.deliver({ ...data, chat: this.chat }));
    return true;
  }

  // An event says nothing when the app is away; a question does, and the text is given back at once.
  async deliver(data) {
    this.trigger("act", data);
    try {
      await answered(this.server.status({}));
    } catch (error) {
      if (this.sending) this.refused(reason(error));
    }
  }

  // An answer that never comes must not lock the page.
  setSending(sending) {
    this.sending = sending;
    clearTimeout(this.overdue);
    if (sending) this.overdue = setTimeout(() => this.refused(words.lost), patience);
  }

  stop() {
    if (this.running) this.ask("stop", { run: this.running });
  }

  async showRounds(message) {
    const asked = (this.asked = Symbol("rounds"));
    const number = this.messages.filter((m) => m instanceof AssistantMessage).indexOf(message) + 1;
    const answer = await this.ask("rounds", { message: message.id });
    if (!answer || asked !== this.asked || this.running) return;
    this.rounds.clear(words.roundsOf(number), words.roundsNone);
    this.rounds.add(answer.rounds);
    this.rounds.total(answer.stats);
  }

  // ---- the stream

  receive(value) {
    if (!value) return;
    const answer = JSON.parse(value);
    if (answer.refused) this.refused(answer.refused);
    else this.begin(answer);
  }

  begin(packet) {
    this.setSending(false);
    this.chats = packet.chats;
    if (packet.chat !== this.chat) {
      if (this.chat !== null || this.messages.length) return void this.list();
      this.chat = packet.chat;
      localStorage.setItem(remembered, this.chat);
    }
    this.list();
    const here = new Set(this.messages.map((m) => m.id));
    // Another page has gone on with this chat: what was said there belongs to the answer.
    if (packet.kept.some((id) => !here.has(id))) return void this.open(packet.chat);
    const kept = new Set(packet.kept);
    this.messages = this.messages.filter((m) => kept.has(m.id) || (m.node.remove(), false));
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
    this.scroll.toEnd();
    try {
      await follow((from) => this.server.follow({ run, from }), () => this.running === run, (events, stats, done) => this.advance(shown, events, stats, done));
    } catch (error) {
      this.notice(reason(error));
      this.setRunning(null);
    }
  }

  advance(shown, events, stats, done) {
    this.rounds.add(shown.add(events));
    if (stats) this.rounds.total(stats);
    if (!done) return;
    this.setRunning(null);
    const { end } = shown.reply; // its packet may have come before the one that says "done"
    if (!end) return void this.open(this.chat); // the reply is over and its feed is gone
    const failed = end.t === "failed";
    shown.finish(failed ? "failed" : end.reason === "stop" ? "done" : end.reason, stats, failed ? end.message : null);
    this.announce.textContent = words.finished;
  }

  // Says why, and gives the text back where it was written.
  refused(why) {
    this.setSending(false);
    this.notice(why, Boolean(this.opening));
    const { action, message, text } = this.given ?? {};
    this.given = null;
    const edited = action === "edit" && this.messages.find((m) => m.id === message);
    if (edited) return void edited.edit(text);
    if (text && !this.input.value) {
      this.input.value = text;
      this.fit();
    }
    this.input.focus();
  }

  setRunning(run) {
    this.running = run;
    this.send_.hidden = run !== null;
    this.stop_.hidden = run === null;
    this.root.classList.toggle("is-running", run !== null);
    if (run !== null) return;
    this.scroll.grown();
    if (this.alert.textContent === words.busy) this.notice("");
  }

  grown() {
    this.scroll.grown();
  }

  // ---- keys and panes

  fit() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight + 2, 220)}px`;
  }

  composerKey(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!this.running) this.send();
    } else if (event.key === "ArrowUp" && !this.input.value && !this.running) {
      const last = this.messages.findLast((m) => m instanceof UserMessage);
      if (last) (event.preventDefault(), last.edit());
    }
  }

  shortcut(event) {
    if (!this.root.offsetParent) return; // another page is shown
    if (event.key === "Escape") {
      document.body.classList.remove("show-side");
      if (this.running) this.stop();
    }
    if (event.altKey && event.code === "KeyN") (event.preventDefault(), this.newChat());
  }

  // A pane is shown by default or not, as the window's width has it; the reader's choice wins.
  togglePane(name, button) {
    const pane = name === "side" ? document.getElementById("side") : this.root.querySelector(".rounds");
    const hide = getComputedStyle(pane).display !== "none";
    document.body.classList.toggle(`hide-${name}`, hide);
    document.body.classList.toggle(`show-${name}`, !hide);
    button.setAttribute("aria-expanded", String(!hide));
  }
}

register("chat", ChatPage);
