// The system prompt of one chat: a named one, or the one in the settings of all chats.

import { h } from "../../../shared/dom.js";
import { say } from "../words.js";

export class SystemChoice {
  // `chosen(name)` is called with "" for the prompt of all chats, which `written()` returns.
  constructor(ask, chosen, written) {
    this.ask = ask;
    this.chosen = chosen;
    this.written = written;
    this.prompts = [];
    this.own = null; // the prompt of this chat: {name, text}
    this.select = h("select", { id: "field-chat-system", on: { change: () => this.choose() } });
    this.text = h("p", { class: "hint system-text", hidden: true });
    this.name = h("input", { type: "text", maxlength: "80", "aria-label": say.promptName, placeholder: say.promptName });
    this.form = h("form", { class: "field-row", hidden: true, on: { submit: (event) => (event.preventDefault(), this.save()) } },
      this.name, h("button", { class: "ft-button small", type: "submit" }, say.savePrompt));
    this.add = h("button", { class: "ft-link", type: "button", dataset: { act: "name-prompt" }, on: { click: () => this.ask_() } }, say.namePrompt);
    this.remove = h("button", { class: "ft-link", type: "button", hidden: true, dataset: { act: "delete-prompt" }, on: { click: () => this.forget() } }, say.deletePrompt);
    this.node = h("div", { class: "field chat-system" },
      h("label", { for: "field-chat-system" }, say.chatSystem),
      h("span", { class: "field-row" }, this.select), this.text,
      h("div", { class: "prompt-actions" }, this.add, this.remove), this.form);
  }

  offer(prompts) {
    this.prompts = prompts;
    this.show(this.own);
  }

  // Shows the prompt of the chat; null: it has none of its own.
  show(own) {
    this.own = own;
    const known = this.prompts.map((each) => each.name);
    const names = own && !known.includes(own.name) ? [...known, own.name] : known;
    this.select.replaceChildren(h("option", { value: "" }, say.systemOfAll), ...names.map((name) => h("option", { value: name }, name)));
    this.select.value = own?.name ?? "";
    this.text.textContent = own?.text ?? "";
    this.text.hidden = !own;
    this.remove.hidden = !this.prompts.some((each) => each.own && each.name === own?.name);
  }

  choose() {
    const name = this.select.value;
    this.show(this.prompts.find((each) => each.name === name) ?? null);
    this.chosen(name);
  }

  ask_() {
    this.form.hidden = false;
    this.name.focus();
  }

  async save() {
    const name = this.name.value.trim();
    const prompts = await this.ask("keep_prompt", { name, text: this.written() });
    if (!prompts) return;
    this.form.hidden = true;
    this.name.value = "";
    this.prompts = prompts;
    this.show(prompts.find((each) => each.name === name) ?? this.own);
    this.chosen(name);
    this.select.focus();
  }

  async forget() {
    const prompts = await this.ask("delete_prompt", { name: this.own.name });
    if (prompts) this.offer(prompts);
  }
}
