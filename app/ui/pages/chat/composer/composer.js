// The message box: its text, its files, and the buttons that send and stop.

import { address } from "../../../shared/addresses.js";
import { h } from "../../../shared/dom.js";
import { words } from "../../../shared/words.js";
import { Attachments } from "./attachments.js";

export class Composer {
  // `on` has send(), stop(), up() for the arrow in an empty box, changed(), think(how much), and refused(why).
  constructor(on) {
    this.on = on;
    this.input = h("textarea", { rows: 1, placeholder: words.placeholder, "aria-label": words.placeholder, title: words.hint, on: {
      input: () => (this.fit(), on.changed()),
      keydown: (event) => this.key(event),
    } });
    this.attached = new Attachments(() => on.changed(), (why) => on.refused(why));
    this.attached.take(this.input);
    this.thinking = h("select", { class: "thinking", hidden: true, title: words.thought.choice, "aria-label": words.thought.choice, on: { change: () => on.think(this.thinking.value) } });
    this.send = h("button", { class: "ft-button primary send", type: "submit" }, words.send);
    this.stop = h("button", { class: "ft-button stop", type: "button", hidden: true, on: { click: () => on.stop() } }, words.stop);
    this.node = h("form", { class: "composer", on: { submit: (event) => (event.preventDefault(), on.send()) } },
      this.attached.node, this.attached.button, this.attached.input, this.thinking, this.input, this.send, this.stop);
    address.watch(() => this.fit());
  }

  get value() {
    return { text: this.input.value, files: this.attached.files };
  }

  get empty() {
    return !this.input.value.trim() && !this.attached.files.length;
  }

  set({ text, files = [] }) {
    if (this.input.value !== text) this.input.value = text;
    this.attached.set(files);
    this.fit();
  }

  clear() {
    this.set({ text: "" });
  }

  // Offers how much to think, if the model has the choice.
  offerThinking(choices, chosen) {
    this.thinking.hidden = !choices.length;
    this.thinking.replaceChildren(...choices.map((each) => h("option", { value: each.id }, each.label)));
    this.thinking.value = chosen;
  }

  // Puts back what was not sent, before what was written since.
  giveBack({ text = "", files = [] }) {
    const since = this.value;
    this.set({ text: [text, since.text].filter(Boolean).join("\n\n"), files: [...files, ...since.files] });
  }

  running(on) {
    this.send.hidden = on;
    this.stop.hidden = !on;
  }

  focus() {
    this.input.focus();
  }

  fit() {
    if (!this.input.offsetParent) return; // another page is shown: it has no height there
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight + 2, 220)}px`;
  }

  key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.on.send();
    } else if (event.key === "ArrowUp" && !this.input.value && this.on.up()) {
      event.preventDefault();
    }
  }
}
