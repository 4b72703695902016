// Requests of the user: they go at once, or when the model is loaded. Until one is answered it is stored, also over a
// reload; one that is refused goes back into the message box.

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
    this.held = null; // the request that waits for the model
    this.given = null; // the request that is not answered yet
  }

  send() {
    const { composer, notices } = this.page;
    if (composer.empty) return void notices.notice(words.empty);
    const written = composer.value;
    if (!this.act({ action: "send", ...written })) return; // the text stays, to be sent later
    composer.clear();
    this.keepDraft();
  }

  // Asks Python for a reply. Returns false, and says why, while another one is requested or written.
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

  // Sends the request again with turns left out.
  again(data) {
    if (data.action === "send") this.page.composer.clear(); // it was put back into the box
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

  // Forgets the request, which is answered.
  settle() {
    const { given } = this;
    this.busy = false;
    this.given = null;
    drafts.send(null);
    if (given?.action === "edit") drafts.forget(`edit-${given.message}`);
    if (given && !this.isHere(given)) drafts.forget(given.chat);
  }

  // Shows why the request was refused, and puts its text back.
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

  // Keeps a request until the model is loaded; only then is it known how it can be drafted.
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

  // Waits for a load that Python knew of before this page.
  async wait(data) {
    this.hold(data);
    await status.refresh();
    setTimeout(() => this.held === data && !status.latest.waits && this.release(), 500);
  }

  // Takes a new status; `waits`: a model is still being loaded.
  statusChanged({ waits }) {
    if (this.held && !waits) this.release();
    else if (this.held) this.hold(this.held);
  }

  // ---- what is kept

  // Stores what is written for this chat, with the request that is not answered yet.
  keepDraft() {
    const written = this.page.composer.value;
    const sent = this.given?.action === "send" && this.isHere(this.given) ? this.given : { text: "" };
    drafts.keep(this.page.chat, {
      text: [sent.text, written.text].filter(Boolean).join("\n\n"),
      files: [...(sent.files ?? []), ...written.files],
    });
    drafts.send(this.given, written);
  }

  // Returns whether the request belongs to the chat that is shown.
  isHere({ chat = null }) {
    return chat === this.page.chat;
  }

  // Continues with the request that was sent before a reload, unless it was answered meanwhile.
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
