// Requests of the user: they go to Python now, after the current reply, or once the model is loaded. Until one is
// answered it is stored, also over a reload; a message that is refused goes back into the message box.

import { address } from "../../../shared/addresses";
import { drafts } from "../../../shared/form/drafts";
import { answered, away, reason } from "../../../shared/frame/server";
import { status } from "../../../shared/frame/status";
import type { ChatPage } from "./page";
import { BUSY, type Message, NOTHING, type Request, type Written } from "../types";

// Returns several texts with their files as one.
const joined = (...parts: (Partial<Written> | null)[]) => ({
  text: parts
    .map((each) => each?.text)
    .filter(Boolean)
    .join("\n\n"),
  files: parts.flatMap((each) => each?.files ?? []),
});

// Returns a draft without `sent`, with which it begins.
function without(draft: Written, sent: Written) {
  if (!draft.text.startsWith(sent.text)) return draft; // another tab has changed it
  return { text: draft.text.slice(sent.text.length).replace(/^\n\n/, ""), files: draft.files.slice(sent.files.length) };
}

export class Sending {
  given: Request | null = null; // the request that is not answered yet
  waited = false; // whether what is queued waits for a model
  kept = ""; // what this page stored last, and of which chat

  constructor(readonly page: ChatPage) {}

  // Sends what is in the message box, after the current reply if there is one.
  send() {
    const { draft } = this.page.state;
    if (this.unfinished(draft)) return;
    this.page.set({ draft: NOTHING });
    this.request({ action: "send", ...draft });
  }

  // Returns whether a message cannot be sent yet, and says why.
  unfinished({ text, files }: Written) {
    const { page } = this;
    if (page.state.reading.length) page.fail("Wait until the files are read.");
    else if (!text.trim() && !files.length) page.fail("The message is empty.");
    else return false;
    return true;
  }

  // Asks for a reply: a retry, an edit, a continuation. Refuses it while another reply is requested or written.
  act(data: Request) {
    const { running, queued } = this.page.state;
    if (running !== null || queued || this.given) this.page.fail(BUSY);
    else this.request(data);
  }

  request(data: Request) {
    const { page } = this;
    const { chat, preset, queued, toolsOff } = page.state;
    const asked = { chat, preset, off: toolsOff, ...data };
    if (queued && queued.chat !== chat) {
      page.fail("A message of another chat is waiting. Cancel it, or send this one after it.");
      return this.putBack(asked);
    }
    const more = queued?.action === "send" && data.action === "send" ? { ...queued, ...joined(queued, data) } : asked;
    const ticket = `${Date.now()} ${Math.random()}`;
    page.set({ queued: { ...more, ticket }, error: null, told: "" });
    this.release();
  }

  // Sends what is queued, if nothing is in its way any more.
  release() {
    const { queued, ready, running, status: latest } = this.page.state;
    if (!queued || !ready || running !== null || this.given || latest?.waits) return this.keep();
    if (this.waited && !latest?.loaded) return this.unloaded(latest?.failed);
    this.page.set({ queued: null });
    this.deliver(queued);
  }

  async deliver(data: Request) {
    const { page } = this;
    this.given = data;
    this.keep();
    let answer;
    try {
      await page.renewing; // the settings of a pair that was loaded just now
      await page.choosing; // the system prompt, which the request must find
      answer = await answered(page.server.act({ ...data, ...page.settings.sent }));
    } catch (error) {
      return this.refused(away(error) ? "" : reason(error));
    }
    if (answer.full) {
      if (data.chat !== page.state.chat) return this.refused(`${answer.full} The message is in the box of its chat.`);
      this.refused("");
      return page.leavingOut.full(data, answer.full);
    }
    this.given = null;
    if (answer.waits) return this.wait(data, answer.starting);
    drafts.send(null);
    if (data.action === "edit") drafts.forget(`edit-${data.message}`);
    const { action, chat = null } = data;
    if (action === "send" && chat !== page.state.chat) drafts.keep(chat, without(drafts.of(chat), joined(data)));
    page.beginReply(answer, chat);
  }

  // Waits for a load that Python knew of before this page, or for servers of tools that are being started.
  async wait(data: Request, starting?: string[]) {
    this.page.set({ queued: data, ...(starting ? { told: `Starting ${starting.join(", ")} …` } : {}) });
    if (starting) await new Promise((over) => setTimeout(over, 500));
    else await status.refresh();
    this.release();
  }

  // Shows why the request was refused, and puts its text back into the box; an edit is still open.
  refused(why: string) {
    const { given, page } = this;
    this.given = null;
    if (why) page.fail(why, Boolean(page.state.status?.opening));
    this.putBack(given);
  }

  // Takes back what is queued.
  giveBack() {
    const { queued } = this.page.state;
    this.page.set({ queued: null });
    this.putBack(queued);
  }

  // Takes back what waited for a load that failed or, without `failed`, was cancelled.
  unloaded(failed?: string | null) {
    this.giveBack();
    if (failed) this.page.fail(failed, true);
    else this.page.set({ told: "Loading was cancelled, so the message was not sent." });
  }

  putBack(data: Request | null) {
    const { page } = this;
    page.set({ told: "" }); // that servers of tools are being started
    // In another chat it stays that chat's draft.
    if (data?.action === "send" && (data.chat ?? null) === page.state.chat)
      page.set({ draft: joined(data, page.state.draft) });
    this.keep();
    if (address.page === "chat" && data?.action === "send") page.focusBox();
  }

  // Returns what was sent in a chat and is not answered yet.
  unanswered(chat: number | null) {
    const all = [this.given, this.page.state.queued];
    return joined(...all.filter((each) => each?.action === "send" && (each.chat ?? null) === chat));
  }

  // Returns what is written for a chat that is shown again.
  draftOf(chat: number | null) {
    return without(drafts.of(chat), this.unanswered(chat));
  }

  // Stores what is written for this chat, behind what is not answered yet.
  keep() {
    const { chat, draft, queued, ready } = this.page.state;
    if (!ready) return; // what is stored is not known yet
    const written = joined(this.unanswered(chat), draft);
    const kept = JSON.stringify([chat, written]);
    if (kept !== this.kept) drafts.keep(chat, written); // else another tab's newer draft would be lost
    this.kept = kept;
    drafts.send(this.given ?? queued, draft);
    this.waited = Boolean(queued && this.page.state.status?.waits);
  }

  // Goes on with the request that was sent before a reload: its reply was begun in the chat `begun`, or it is sent again.
  goOn({ begun }: { begun: number | null }) {
    const { page } = this;
    const { asked, rest } = drafts.unanswered ?? {};
    if (page.state.queued || !asked) return;
    if (begun) drafts.forget(asked.chat ?? null);
    if ((begun ?? asked.chat ?? null) === page.state.chat) page.set({ draft: rest, queued: begun ? null : asked });
  }
}

// ---- leaves messages out of what the model is given, for a request that does not fit, and includes them again

export class LeavingOut {
  constructor(readonly page: ChatPage) {}

  // Questions with their replies, without messages that are left out.
  get turns() {
    const found: Message[][] = [];
    for (const message of this.page.state.messages.filter((each) => !each.left_out)) {
      if (message.role === "user" || !found.length) found.push([]);
      found.at(-1)?.push(message);
    }
    return found;
  }

  // Asks what to leave out, because `data` did not fit.
  full(data: Request, why: string) {
    const { messages } = this.page.state;
    const place = data.message ? messages.findIndex(({ id }) => id === data.message) : messages.length;
    const ahead = new Set(messages.slice(0, place));
    if (data.action !== "edit" && data.action !== "send") ahead.delete(messages[place - 1]); // its question is needed
    const turns = this.turns.map((turn) => turn.filter((each) => ahead.has(each))).filter((turn) => turn.length);
    this.page.set({ overflow: { why, turns, data } });
  }

  // Sends again what did not fit.
  again(data: Request) {
    if (data.action === "send") this.page.set({ draft: NOTHING }); // it was put back into the box
    this.page.sending.request(data);
  }

  // `then` is sent afterwards.
  async leaveOut(messages: number[], out = true, then: Request | null = null) {
    const chat = await this.page.ask("leave_out", { chat: this.page.state.chat, messages, out });
    if (!chat) return;
    this.page.redraw(chat);
    if (then) this.again(then);
  }

  // Includes a question again, with the replies up to the next one.
  includeAgain({ id }: Message) {
    const { messages } = this.page.state;
    const rest = messages.slice(messages.findIndex((each) => each.id === id) + 1);
    const end = rest.findIndex(({ role }) => role === "user");
    const replies = end < 0 ? rest : rest.slice(0, end);
    return this.leaveOut([id, ...replies.map((each) => each.id)], false);
  }
}
