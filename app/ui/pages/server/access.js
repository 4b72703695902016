// Access to the API: its key, and pages of other origins.

import { copy, h } from "../../shared/dom.js";
import { words } from "../../shared/words.js";
import { say } from "./words.js";

export class Access {
  // `ask(name, data)` calls an endpoint and returns whether it succeeded. `opened(on)`: the key is shown, or hidden.
  constructor(ask, opened) {
    this.ask = ask;
    this.opened = opened;
    this.open = false;
    this.key = h("div", { class: "access-row", dataset: { access: "key" } });
    this.keyInput = h("input", { type: "text", class: "access-input", "aria-label": say.newKey, placeholder: say.newKey, autocomplete: "off", spellcheck: "false" });
    this.keyForm = this.form("key", this.keyInput, say.setKey, (key) => ask("set_key", { key }));
    this.list = h("ul", { class: "origins" });
    this.originInput = h("input", { type: "text", class: "access-input", "aria-label": say.origin, placeholder: say.originExample, inputmode: "url", spellcheck: "false" });
    this.originForm = this.form("origin", this.originInput, say.allow, (origin) => ask("allow_origin", { origin }));
    this.node = h("section", { class: "access", "aria-label": say.access }, h("h2", {}, say.access),
      h("h3", {}, say.key), this.key, this.keyForm,
      h("h3", {}, say.origins), h("p", { class: "hint" }, say.originsHint), this.list, this.originForm);
  }

  form(name, input, label, send) {
    const form = h("form", { class: "access-form", dataset: { form: name }, on: { submit: async (event) => {
      event.preventDefault();
      if (await send(input.value)) input.value = "";
    } } }, input, h("button", { class: "ft-button small", type: "submit" }, label));
    return form;
  }

  show(state) {
    this.keyForm.hidden = state.key_given;
    this.key.replaceChildren(...this.keyRow(state));
    this.list.hidden = !state.origins.length;
    this.list.replaceChildren(...state.origins.map(([origin, given]) => h("li", {}, h("code", {}, origin),
      given ? h("span", { class: "hint" }, say.originGiven) : this.button("forbid", say.remove, () => this.ask("forbid_origin", { origin }), say.forbid(origin)))));
  }

  keyRow(state) {
    const { key, key_given: given, needs_key: needed } = state;
    const make = given ? null : this.button("make-key", key ? say.makeAnother : say.make, () => this.ask("make_key", {}));
    if (!key) return [h("span", { class: "key-state" }, needed ? say.keyNeeded : say.keyNone), make];
    const copied = this.button("copy-key", words.copy, (event) => copy(key, event.currentTarget, words.copied));
    const seen = this.button("show-key", this.open ? say.hide : say.reveal, () => this.reveal(!this.open));
    const remove = given || needed ? null : this.button("remove-key", say.remove, () => this.ask("remove_key", {}), say.removeKey);
    return [h("span", { class: "key-state" }, given ? say.keyGiven : say.keySet), this.open ? h("code", {}, key) : null, seen, copied, make, remove].filter(Boolean);
  }

  reveal(open) {
    this.open = open;
    this.opened(open);
    this.key.querySelector("[data-act=show-key]")?.focus();
  }

  button(act, label, click, name = null) {
    return h("button", { class: "ft-link", type: "button", dataset: { act }, "aria-label": name, on: { click } }, label);
  }
}
