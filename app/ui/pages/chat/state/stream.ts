// Follows the reply that is written, and shows the rounds of this reply or of an earlier one.

import { several } from "../../../shared/format";
import { saveFile } from "../../../shared/browser";
import { follow } from "../../../shared/feed";
import { away, reason } from "../../../shared/frame/server";
import { status } from "../../../shared/frame/status";
import type { ShownReply } from "../drawer/rounds";
import type { Round } from "../../../shared/replay/timeline";
import type { ChatPage, Message } from "../types";

const FILE_TYPES = { html: "text/html", jsonl: "application/jsonl" };

export class Stream {
  following: object | null = null; // identifies one request for the events of a run
  asked: symbol | null = null;
  message: Message | null = null; // the one whose rounds are shown
  rounds: Round[] = [];
  shows = 0;

  constructor(readonly page: ChatPage) {}

  stop() {
    const { running } = this.page.state;
    if (running !== null) this.page.ask("stop", { run: running });
  }

  // Shows a reply while it is written, from its beginning.
  async attach(run: number, message: number) {
    const { page } = this;
    const shown = page.find(message);
    if (!shown) return; // deleted from another page meanwhile
    shown.reply.until = null;
    shown.reply.set("", "");
    page.set({ running: run, live: null, finished: false });
    this.asked = null;
    this.show(shown);
    page.follow?.toEnd();
    const mine = (this.following = {});
    const wanted = () => page.state.running === run && this.following === mine;
    try {
      await follow(
        (from: number) => page.server.follow({ run, from }),
        wanted,
        (events: any[], stats: any, done: boolean) => this.advance(shown, events, stats, done),
      );
    } catch (error) {
      if (!away(error)) page.fail(reason(error)); // Python goes on writing; the page catches up later
    }
    if (this.following !== mine) return; // another reply is followed by now
    this.following = null;
    if (page.state.running === run && !status.away && page.state.chat !== null) page.reload();
  }

  advance({ id, reply }: Message, events: any[], stats: any, done: boolean) {
    const { page } = this;
    if (stats?.shown !== undefined) reply.until = stats.shown;
    this.rounds.push(...reply.add(events, stats?.thought));
    const calls = events.findLast(({ t }) => t === "calls");
    if (calls) page.patch(id, { calls });
    const written = stats?.calling ? `Calling ${stats.calling}` : stageAfter(events, reply.text !== "");
    const stage = reply.end ? null : written;
    if (stage !== null && stage !== page.find(id)?.stage) page.patch(id, { stage });
    page.set({ live: stats ?? page.state.live });
    this.update({ stats: page.state.live, running: !done && !reply.end });
    const { end } = reply; // its packet may have come before the one that says "done"
    if (end && page.find(id)?.status === "running") page.patch(id, ended(end, stats));
    if (!done || page.find(id)?.calls) return; // after calls of tools attach() looks for the reply to their results
    page.ended();
    if (!end && page.state.chat !== null) page.reload(); // it is over and its feed is gone
  }

  async showRounds(message: Message) {
    const { page } = this;
    const asked = (this.asked = Symbol("rounds"));
    const answer = await page.ask("rounds", { message: message.id });
    if (!answer || asked !== this.asked || page.state.running !== null) return;
    this.show(message);
    this.rounds.push(...answer.rounds);
    this.update({ stats: answer.stats, running: false });
  }

  // Shows the rounds of a message, of which there are none yet: its words and its rounds highlight each other.
  show(message: Message | null) {
    const { page } = this;
    if (this.message) {
      this.message.reply.onToken = null;
      this.message.reply.light(0, 0);
    }
    this.message = message;
    this.rounds = [];
    if (message) message.reply.onToken = (token) => page.set({ token });
    const shown = { id: (this.shows += 1), rounds: this.rounds, stats: null, running: true };
    page.set({ shown: message && shown, token: null });
  }

  update(change: Partial<ShownReply>) {
    const { shown } = this.page.state;
    if (shown) this.page.set({ shown: { ...shown, ...change } });
  }

  // Saves the reply whose rounds are shown.
  async save(form: "html" | "jsonl") {
    const file = this.message && (await this.page.ask("export_reply", { message: this.message.id, form }));
    if (file) saveFile(file.name, file.text, FILE_TYPES[form]);
  }
}

// Returns what the engine does after these events; "" once it writes, null if they do not say.
function stageAfter(events: any[], writes: boolean) {
  let stage = null;
  for (const event of events) {
    if (event.t === "queued") stage = `Waiting: ${several(event.ahead, "request")} ahead`;
    else if (event.t === "started")
      stage = `Reading the prompt${event.prompt === null ? "" : ` (${several(event.prompt, "token")})`}`;
    else if (event.t === "prefilled") stage = writes ? "" : "Writing";
    else if (event.t === "round" || event.t === "text") stage = "";
  }
  return stage;
}

// Returns what changes of a message by the event that ended its reply.
function ended(end: any, stats: any): Partial<Message> {
  const failed = end.t === "failed";
  const status = failed ? "failed" : end.reason === "stop" ? "done" : end.reason;
  return { status, stats: stats ?? null, error: failed ? end.message : null, stage: "" };
}
