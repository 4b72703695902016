// The messages of a conversation, with their actions: what people wrote, and what models answered.

import { Dial } from "../../../shared/figures/dial.js";
import { copy, h, repeats } from "../../../shared/dom.js";
import { drafts } from "../../../shared/form/drafts.js";
import { Reply, figures } from "../../../shared/reply.js";
import { words } from "../../../shared/words.js";
import { Attachments, fileChip } from "../composer/attachments.js";
import { Message, action, branches } from "./message.js";
import { say } from "../words.js";

export class UserMessage extends Message {
  constructor(message, page) {
    super(message, page);
    this.text = message.text;
    this.files = message.files ?? [];
    this.editing = false;
  }

  get wanted() {
    return this.editing;
  }

  fill() {
    const files = this.files.length ? h("div", { class: "files" }, ...this.files.map(fileChip)) : null;
    const body = h("div", { class: "body plain", dir: "auto", hidden: !this.text }, this.text);
    this.shown = [files, body].filter(Boolean);
    this.foot = h("div", { class: "user-foot" }, branches(this, this.page),
      h("div", { class: "actions" },
        action("edit", words.edit, () => this.edit()),
        action("copy", words.copy, (event) => copy(this.text, event.currentTarget, words.copied)),
        action("delete", words.remove, () => this.page.removeMessage(this))));
    this.node.replaceChildren(...this.shown, this.foot);
  }

  empty() {
    [this.shown, this.foot, this.note] = [null, null, null];
  }

  // `given`: an edit that was written before and not sent.
  edit(given = null) {
    if (this.editing) return;
    this.draw();
    this.editing = true;
    const place = `edit-${this.id}`;
    const kept = drafts.of(place);
    const from = given ?? (kept.text ? kept : { text: this.text, files: this.files });
    const area = h("textarea", { class: "editor", rows: 3, "aria-label": words.edit, dir: "auto" });
    area.value = from.text;
    const value = () => ({ text: area.value, files: attached.files });
    const keep = () => drafts.keep(place, value());
    const attached = new Attachments(keep, (why) => this.page.notice(why));
    attached.set(from.files ?? []);
    attached.take(area);
    area.addEventListener("input", keep);
    const close = () => {
      form.replaceWith(...this.shown, this.foot);
      this.editing = false;
    };
    const cancel = () => (drafts.forget(place), close());
    const form = h("form", { class: "editing", on: {
      submit: (event) => {
        event.preventDefault();
        if (!area.value.trim() && !attached.files.length) return this.page.notice(words.empty);
        if (this.page.act({ action: "edit", message: this.id, ...value() })) close();
      },
      keydown: (event) => {
        if (event.key === "Escape") (event.stopPropagation(), cancel()); // it would stop the reply too
        if (event.target === area && event.key === "Enter" && !event.shiftKey && !event.isComposing) (event.preventDefault(), form.requestSubmit());
      },
    } }, attached.node, area, h("div", { class: "editing-buttons" }, attached.button, attached.input,
      h("button", { class: "ft-button primary", type: "submit" }, words.save),
      h("button", { class: "ft-button", type: "button", on: { click: cancel } }, words.cancel)));
    this.foot.replaceWith(form);
    for (const node of this.shown) node.remove();
    area.focus();
  }
}

export class AssistantMessage extends Message {
  constructor(message, page) {
    super(message, page);
    this.writer = message.writer;
    this.reply = new Reply();
    this.reply.onDrawn = () => page.grown();
    this.reply.set(message.text ?? "", message.marks, message.thought);
    this.pair = message.pair;
    this.model = message.model;
    this.told = ""; // the stage of the reply while it is written
    this.finish(message.status, message.stats, message.error);
  }

  get text() {
    return this.reply.answer;
  }

  get wanted() {
    return this.status === "running";
  }

  fill() {
    const body = h("div", { class: "body markdown", dir: "auto" });
    this.state = h("div", { class: "state", role: "status" });
    this.error = h("div", { class: "ft-error", role: "alert", hidden: true });
    this.figures = h("div", { class: "figures" });
    this.saved = h("div", { class: "saved", hidden: true });
    const actions = h("div", { class: "actions" },
      action("retry", words.retry, () => this.page.act({ action: "retry", message: this.id }), words.retryHint),
      action("copy", words.copy, (event) => copy(this.text, event.currentTarget, words.copied)),
      action("rounds", words.showRounds, () => this.page.openRounds(this)),
      action("delete", words.remove, () => this.page.removeMessage(this)));
    const writer = this.writer ? h("span", { class: "writer", title: say.writer }, this.writer) : null;
    this.foot = h("div", { class: "foot" }, branches(this, this.page), this.figures, writer, actions);
    this.more = h("button", { class: "ft-button small go-on", type: "button", title: words.goOnHint, dataset: { action: "continue" }, on: { click: () => this.page.act({ action: "continue", message: this.id }) } }, words.goOn);
    this.node.replaceChildren(body, this.state, this.more, this.error, this.foot, this.saved);
    this.reply.drawIn(body);
    this.show();
  }

  empty() {
    this.reply.leave();
    [this.state, this.more, this.error, this.figures, this.saved, this.foot, this.dial, this.note] = [];
  }

  // `status`: running, done, length, cancelled, failed or interrupted.
  finish(status, stats, error) {
    this.status = status;
    this.stats = stats ?? null;
    this.failure = error ?? "";
    const end = status === "length" && stats?.full ? "full" : status;
    this.unanswered = this.reply.place?.to === null ? say.unanswered[end] : null; // it was still thinking
    this.told = words.reasons[end] ?? "";
    const running = status === "running";
    this.node.classList.toggle("running", running);
    this.node.dataset.status = status;
    this.node.setAttribute("aria-busy", String(running)); // screen readers announce it once it is complete
    if (this.drawn) this.show();
  }

  // Draws status, error and figures.
  show() {
    const { stats, status } = this;
    const running = status === "running";
    this.showState();
    this.more.hidden = !(status in words.reasons) || !stats?.rounds;
    this.error.hidden = !this.failure;
    this.error.textContent = this.failure;
    this.dial?.hide();
    this.dial?.node.remove();
    this.dial = null;
    const predicted = running ? null : stats?.predicted;
    this.saved.hidden = !predicted;
    this.saved.textContent = predicted ? [say.saved(predicted.accepted, predicted.drafted), repeats(stats) ? say.copied : ""].join(" ") : "";
    if (stats && !running && stats.completion_tokens) this.figures.replaceChildren(...figures(stats));
  }

  // Shows the figures while the reply is written.
  measure(stats) {
    if (!this.wanted || !this.drawn) return;
    if (!this.dial) {
      this.dial = new Dial();
      this.foot.before(this.dial.node);
    }
    this.dial.show(stats);
  }

  say(text) {
    if (text === this.told) return;
    this.told = text;
    if (this.drawn) this.showState();
  }

  showState() {
    this.state.replaceChildren(...(this.unanswered ? [this.unanswered, h("span", { class: "may-not-think" }, say.thinkNot), "."] : [this.told]));
    this.state.hidden = !this.unanswered && !this.told;
  }

  add(events, place) {
    for (const event of events) {
      if (event.t === "queued") this.say(words.queued(event.ahead));
      else if (event.t === "started") this.say(words.reading(event.prompt));
      else if (event.t === "prefilled") this.say(words.thinking);
      else if (event.t === "round" || event.t === "text") this.say("");
    }
    return this.reply.add(events, place);
  }
}
