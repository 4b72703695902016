// One message of the conversation, with its actions.

import { Dial } from "../../shared/dial.js";
import { copy, h } from "../../shared/dom.js";
import { Reply, figures } from "../../shared/reply.js";
import { words } from "../../shared/words.js";

const action = (name, label, f) => h("button", { class: "ft-link", type: "button", dataset: { action: name }, on: { click: f } }, label);

export class UserMessage {
  constructor(message, page) {
    this.id = message.id;
    this.text = message.text;
    this.page = page;
    this.body = h("div", { class: "body plain" }, message.text);
    this.actions = h("div", { class: "actions" },
      action("edit", words.edit, () => this.edit()),
      action("copy", words.copy, (event) => copy(this.text, event.currentTarget, words.copied)));
    this.node = h("article", { class: "msg user", dataset: { id: String(message.id ?? "") } }, this.body, this.actions);
  }

  edit(text = this.text) {
    if (!this.body.isConnected) return; // it is being edited
    const area = h("textarea", { class: "editor", rows: 3, "aria-label": words.edit });
    area.value = text;
    const close = () => form.replaceWith(this.body, this.actions);
    const form = h("form", { class: "editing", on: {
      submit: (event) => {
        event.preventDefault();
        if (!area.value.trim()) return this.page.notice(words.empty);
        if (this.page.act({ action: "edit", message: this.id, text: area.value })) close();
      },
      keydown: (event) => {
        if (event.key === "Escape") (event.stopPropagation(), close()); // it would stop the reply too
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) (event.preventDefault(), form.requestSubmit());
      },
    } }, area, h("div", { class: "editing-buttons" },
      h("button", { class: "ft-button primary", type: "submit" }, words.save),
      h("button", { class: "ft-button", type: "button", on: { click: close } }, words.cancel)));
    this.actions.remove();
    this.body.replaceWith(form);
    area.focus();
  }
}

export class AssistantMessage {
  constructor(message, page) {
    this.id = message.id;
    this.page = page;
    this.body = h("div", { class: "body markdown" });
    this.state = h("div", { class: "state", role: "status" });
    this.error = h("div", { class: "ft-error", role: "alert", hidden: true });
    this.figures = h("div", { class: "figures" });
    this.dial = new Dial();
    this.actions = h("div", { class: "actions" },
      action("retry", words.retry, () => page.act({ action: "retry", message: this.id })),
      action("copy", words.copy, (event) => copy(this.reply.text, event.currentTarget, words.copied)),
      action("rounds", words.showRounds, () => page.openRounds(this)));
    this.node = h("article", { class: "msg assistant", dataset: { id: String(message.id) } }, this.body, this.state, this.error, this.dial.node, h("div", { class: "foot" }, this.figures, this.actions));
    this.reply = new Reply(this.body);
    this.reply.onDrawn = () => page.grown();
    if (message.text) this.reply.set(message.text, message.marks);
    this.finish(message.status, message.stats, message.error);
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
    this.stats = stats ?? null;
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
