// What people send, or ask of a message: it goes at once, or when the model is loaded. Until it is answered it is kept,
// over a reload too, and given back where it was refused.

import { address } from "../../../shared/addresses.js";
import { drafts } from "../../../shared/form/drafts.js";
import { answered, reason } from "../../../shared/frame/server.js";
import { status } from "../../../shared/frame/status.js";
import { words } from "../../../shared/words.js";
import { say } from "../words.js";

export class Sending {
  constructor(page) {
    this.page = page;
    this.busy = false;
    this.held = null; // what waits for the model
    this.given = null; // what was asked and is not answered yet
  }

  send() {
    const { composer, notices } = this.page;
    if (composer.empty) return void notices.notice(words.empty);
    const written = composer.value;
    if (!this.act({ action: "send", ...written })) return; // the text stays, to be sent later
    composer.clear();
    this.keepDraft();
  }

  // Asks Python for a reply; false, with a word, while another one is wanted or written.
  act(data) {
    const { stream, notices } = this.page;
    if (stream.running || this.busy) {
      notices.notice(words.busy);
      return false;
    }
    this.busy = true;
    notices.clear();
    this.given = data;
    this.page.booted.then(() => {
      const asked = { ...data, chat: this.page.chat, preset: this.page.preset };
      this.given = asked;
      if (status.latest?.waits) this.hold(asked);
      else this.deliver(asked);
    });
    return true;
  }

  // Once more, with less before it.
  again(data) {
    if (data.action === "send") this.page.composer.clear(); // it was given back
    this.act(data);
  }

  async deliver(data) {
    const { loaded, server, settings } = this.page;
    let answer;
    try {
      await loaded.renewing; // the settings of a pair that was loaded just now
      answer = await answered(server.act({ ...data, ...settings.sent }));
    } catch (error) {
      return this.refused(reason(error));
    }
    if (answer.waits) return this.wait(data);
    if (answer.full) return (this.refused(""), this.page.overflow.full(data, answer.full));
    this.settle();
    this.page.begin(answer);
  }

  // It is answered: nothing of it is kept.
  settle() {
    const { given } = this;
    this.busy = false;
    this.given = null;
    drafts.send(null);
    if (given?.action === "edit") drafts.forget(`edit-${given.message}`);
    if (given && !this.isHere(given)) drafts.forget(given.chat);
  }

  // Says why, and gives the text back where it was written.
  refused(why) {
    const { composer, conversation, loaded, notices } = this.page;
    this.busy = false;
    notices.notice(why, Boolean(loaded.opening));
    const given = this.given ?? {};
    this.given = null;
    const edited = given.action === "edit" && conversation.find(given.message);
    if (edited) return void edited.edit(given);
    if (given.action === "send" && this.isHere(given)) composer.giveBack(given); // else it is its chat's draft
    this.keepDraft();
    if (address.page === "chat") composer.focus();
  }

  // ---- what waits for the model

  // A message for a model that is still being loaded waits here: what it is drafted with is not known before.
  hold(data) {
    const { loaded, notices } = this.page;
    this.held = data;
    notices.tell(say.held(data.text || say.heldAction, loaded.opening ?? ""), () => this.withhold());
  }

  withhold() {
    this.held = null;
    this.page.notices.tell("");
    this.refused("");
  }

  release() {
    const data = this.held;
    this.held = null;
    this.page.notices.tell("");
    if (this.page.loaded.pair) this.deliver(data);
    else this.refused(status.latest.failed ?? say.heldOver);
  }

  // Python knew of a load before this page did.
  async wait(data) {
    this.hold(data);
    await status.refresh();
    setTimeout(() => this.held === data && !status.latest.waits && this.release(), 500);
  }

  // The status is another one: `waits` says whether a model is still being loaded.
  statusChanged({ waits }) {
    if (this.held && !waits) this.release();
    else if (this.held) this.hold(this.held);
  }

  // ---- what is kept

  // What is written is kept for this chat, with what is sent and not answered yet.
  keepDraft() {
    const written = this.page.composer.value;
    const sent = this.given?.action === "send" && this.isHere(this.given) ? this.given : { text: "" };
    drafts.keep(this.page.chat, {
      text: [sent.text, written.text].filter(Boolean).join("\n\n"),
      files: [...(sent.files ?? []), ...written.files],
    });
    drafts.send(this.given, written);
  }

  // Whether what was asked belongs to the chat that is shown; another may be by now.
  isHere({ chat = null }) {
    return chat === this.page.chat;
  }

  // What this page had sent before it was reloaded: it waits on, or is given back. It may have been answered.
  goOn({ chat, waits }) {
    const { composer, conversation } = this.page;
    if (this.given) return this.keepDraft(); // it was sent just now
    const { asked, rest } = drafts.unanswered ?? {};
    if (!asked || (asked.chat ?? null) !== this.page.chat) return drafts.send(null);
    if (chat && conversation.lastQuestion?.text === asked.text) {
      composer.set(rest);
      drafts.send(null);
      return this.keepDraft();
    }
    if (!waits) return drafts.send(null); // its text is the draft of this chat
    composer.set(rest);
    this.busy = true;
    this.given = asked;
    this.hold(asked);
  }
}
