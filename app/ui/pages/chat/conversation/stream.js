// Follows the reply that is written, and shows the rounds of this reply or of an earlier one.

import { h } from "../../../shared/dom.js";
import { follow } from "../../../shared/feed.js";
import { reason } from "../../../shared/frame/server.js";
import { status } from "../../../shared/frame/status.js";
import { words } from "../../../shared/words.js";

export class Stream {
  constructor(page) {
    this.page = page;
    this.running = null; // run id of the open chat
    this.following = null; // identifies one request for the events of a run
    this.announce = h("div", { class: "sr-only", role: "status" });
  }

  setRunning(run) {
    const { root, composer, conversation, notices } = this.page;
    this.running = run;
    composer.running(run !== null);
    root.classList.toggle("is-running", run !== null);
    this.page.advice.show();
    if (run !== null) return;
    conversation.scroll.grown();
    notices.over(words.busy);
  }

  stop() {
    if (this.running) this.page.ask("stop", { run: this.running });
  }

  // Shows a reply while it is written, from its beginning.
  async attach(run, message) {
    const { server, conversation, rounds, notices } = this.page;
    const shown = conversation.find(message);
    if (!shown) return; // deleted from another page meanwhile
    shown.reply.set("", "");
    this.setRunning(run);
    this.asked = null;
    rounds.clear();
    rounds.of(shown);
    conversation.toEnd();
    const mine = (this.following = { run });
    const wanted = () => this.running === run && this.following === mine;
    try {
      await follow((from) => server.follow({ run, from }), wanted, (events, stats, done) => this.advance(shown, events, stats, done));
    } catch (error) {
      notices.notice(reason(error)); // Python goes on writing; the page catches up later
    }
    if (this.following !== mine) return; // the chat was drawn anew meanwhile
    this.following = null;
    if (this.running === run && !status.away) this.page.open(this.page.chat);
  }

  advance(shown, events, stats, done) {
    const { rounds, meter } = this.page;
    rounds.add(shown.add(events, stats?.thought));
    if (stats) {
      rounds.total(stats);
      meter.show(stats);
      shown.measure(stats);
    }
    if (!done) return;
    rounds.finish();
    this.setRunning(null);
    const { end } = shown.reply; // its packet may have come before the one that says "done"
    if (!end) return void this.page.open(this.page.chat); // the reply is over and its feed is gone
    const failed = end.t === "failed";
    shown.finish(failed ? "failed" : end.reason === "stop" ? "done" : end.reason, stats, failed ? end.message : null);
    this.announce.textContent = words.finished;
  }

  // Opens the drawer at the rounds of a message.
  openRounds(message) {
    this.page.drawer.show("rounds");
    return this.showRounds(message);
  }

  async showRounds(message) {
    const { conversation, rounds } = this.page;
    const asked = (this.asked = Symbol("rounds"));
    const number = conversation.replies.indexOf(message) + 1;
    const answer = await this.page.ask("rounds", { message: message.id });
    if (!answer || asked !== this.asked || this.running) return;
    rounds.clear(words.roundsOf(number), words.roundsNone);
    rounds.of(message);
    rounds.add(answer.rounds);
    rounds.total(answer.stats);
    rounds.finish();
  }
}
