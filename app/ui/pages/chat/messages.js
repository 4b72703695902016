// One message of the conversation, with its actions.

import { Dial } from "../../shared/dial.js";
import { copy, h } from "../../shared/dom.js";
import { Reply, figures } from "../../shared/reply.js";
import { words } from "../../shared/words.js";
import { Attachments, fileChip } from "./attachments.js";
import { drafts } from "./drafts.js";
import { say } from "./words.js";

const action = (name, label, f) => h("button", { class: "ft-link", type: "button", dataset: { action: name }, on: { click: f } }, label);

// Arrows between the messages that could stand in this place; null where there is one.
function branches({ id, beside }, page) {
  if (!(beside?.length > 1)) return null;
  const here = beside.indexOf(id);
  const arrow = (step, sign, label) => {
    const goal = beside[here + step];
    return h("button", { class: "ft-link", type: "button", "aria-label": label, title: label, disabled: goal === undefined, dataset: { branch: step < 0 ? "before" : "after" }, on: { click: () => page.showBranch(goal, step) } }, sign);
  };
  return h("span", { class: "branches", role: "group", "aria-label": say.versions },
    arrow(-1, "‹", say.versionBefore), h("span", {}, `${here + 1}/${beside.length}`), arrow(1, "›", say.versionAfter));
}

// `page` does what a message's buttons ask for: act(data), showBranch(id, step), openRounds(message),
// giveAgain(message) and removeMessage(message). It shows notice(why), and is told when a reply has grown().
class Message {
  constructor(message, page) {
    this.id = message.id;
    this.page = page;
    this.role = message.role;
    this.beside = message.beside ?? [];
  }

  // Whether models are given it; `again` gives it to them again.
  leaveOut(out) {
    this.leftOut = out;
    this.node.classList.toggle("left-out", out);
    this.note?.remove();
    this.note = null;
    if (!out || this.role !== "user") return;
    this.note = h("div", { class: "left-note" }, say.leftOut, " ", action("give", say.giveAgain, () => this.page.giveAgain(this)));
    this.node.append(this.note);
  }
}

export class UserMessage extends Message {
  constructor(message, page) {
    super(message, page);
    this.text = message.text;
    this.files = message.files ?? [];
    const files = this.files.length ? h("div", { class: "files" }, ...this.files.map(fileChip)) : null;
    this.body = h("div", { class: "body plain", dir: "auto", hidden: !message.text }, message.text);
    this.shown = [files, this.body].filter(Boolean);
    this.foot = h("div", { class: "user-foot" }, branches(this, page),
      h("div", { class: "actions" },
        action("edit", words.edit, () => this.edit()),
        action("copy", words.copy, (event) => copy(this.text, event.currentTarget, words.copied)),
        action("delete", words.remove, () => page.removeMessage(this))));
    this.node = h("article", { class: "msg user", dataset: { id: String(message.id ?? "") } }, ...this.shown, this.foot);
    this.leaveOut(Boolean(message.left_out));
  }

  // `given`: what was written here before, and is not sent yet.
  edit(given = null) {
    if (!this.foot.isConnected) return; // it is being edited
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
    const close = () => form.replaceWith(...this.shown, this.foot);
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
    this.body = h("div", { class: "body markdown", dir: "auto" });
    this.state = h("div", { class: "state", role: "status" });
    this.error = h("div", { class: "ft-error", role: "alert", hidden: true });
    this.figures = h("div", { class: "figures" });
    this.saved = h("div", { class: "saved", hidden: true });
    this.dial = new Dial();
    this.actions = h("div", { class: "actions" },
      action("retry", words.retry, () => page.act({ action: "retry", message: this.id })),
      action("copy", words.copy, (event) => copy(this.reply.text, event.currentTarget, words.copied)),
      action("rounds", words.showRounds, () => page.openRounds(this)),
      action("delete", words.remove, () => page.removeMessage(this)));
    const writer = message.writer && h("span", { class: "writer", title: say.writer }, message.writer);
    this.node = h("article", { class: "msg assistant", dataset: { id: String(message.id) } }, this.body, this.state, this.error, this.dial.node,
      h("div", { class: "foot" }, branches(this, page), this.figures, writer || null, this.actions), this.saved);
    this.reply = new Reply(this.body);
    this.reply.onDrawn = () => page.grown();
    if (message.text) this.reply.set(message.text, message.marks);
    this.finish(message.status, message.stats, message.error);
    this.leaveOut(Boolean(message.left_out));
  }

  // `status`: running, done, length, cancelled, failed or interrupted.
  finish(status, stats, error) {
    const running = status === "running";
    this.node.classList.toggle("running", running);
    this.node.dataset.status = status;
    this.node.setAttribute("aria-busy", String(running)); // the log reads it out when it is whole
    this.say(words.reasons[status] ?? "");
    this.error.hidden = !error;
    this.error.textContent = error ?? "";
    this.dial.hide();
    if (!running) this.dial.node.remove(); // a long chat has many
    this.stats = stats ?? null;
    const predicted = running ? null : stats?.predicted;
    this.saved.hidden = !predicted;
    this.saved.textContent = predicted ? say.saved(predicted.accepted, predicted.drafted) : "";
    if (stats && !running && stats.completion_tokens) this.figures.replaceChildren(...figures(stats));
  }

  // The figures while it is being written.
  measure(stats) {
    if (this.node.dataset.status === "running") this.dial.show(stats);
  }

  say(text) {
    this.state.textContent = text;
    this.state.hidden = !text;
  }

  add(events) {
    for (const event of events) {
      if (event.t === "queued") this.say(words.queued(event.ahead));
      else if (event.t === "started") this.say(words.reading(event.prompt));
      else if (event.t === "prefilled") this.say(words.thinking);
      else if (event.t === "round" || event.t === "text") this.say("");
    }
    return this.reply.add(events);
  }
}
