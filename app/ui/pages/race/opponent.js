// What the base of a race runs on: the loaded pair, another pair of this machine, or a server.

import { linked } from "../../shared/addresses.js";
import { h } from "../../shared/dom.js";
import { field } from "../../shared/figures/measuring.js";
import { answered, reason } from "../../shared/frame/server.js";
import { say } from "./words.js";

const ADDRESS = "address";
const BETWEEN = "::"; // a target and its draft, as they are written in one text
const AGAIN_MS = 700;
const USUAL = { methods: [{ name: "" }], rules: ["auto"] };

// The press that leaves the address field may be on a button below: change nothing that moves it until the press ends.
let pressing = Promise.resolve();
let release = () => {};
window.addEventListener("pointerdown", () => (pressing = new Promise((done) => (release = done))), true);
for (const type of ["pointerup", "pointercancel"]) window.addEventListener(type, () => setTimeout(release), true);

export class Opponent {
  // `places` as Python offers them; `loaded` names what is loaded. `onMethods({methods, rules})` is called with what can
  // be raced there, and with null for what is loaded.
  // A single model may be drafted for by another one; which fit is found out behind the answer.
  constructor(server, { places, loaded }, onMethods) {
    this.server = server;
    this.onMethods = onMethods;
    const of = (kind) => places.filter((each) => each.kind === kind).map(({ id, name }) => h("option", { value: id }, name));
    const groups = ["pair", "model", "server"].map((kind) => [kind, of(kind)]).filter(([, options]) => options.length);
    this.select = h("select", { name: "place", on: { change: () => this.chosen() } }, h("option", { value: "" }, say.onLoaded(loaded)),
      ...groups.map(([kind, options]) => h("optgroup", { label: say.placeKinds[kind] }, ...options)), h("option", { value: ADDRESS }, say.address));
    this.address = h("input", { type: "text", name: "address", placeholder: say.addressHint, spellcheck: "false", autocapitalize: "off", on: { input: () => this.forget(), change: () => pressing.then(() => this.look()) } });
    this.addressField = field(say.addressOf, this.address, "wide");
    this.addressField.hidden = true;
    this.draft = h("select", { name: "draft", on: { change: () => this.look() } });
    this.draftField = field(say.draft, this.draft, "wide");
    this.drafts([], "");
    this.told = h("p", { class: "hint", role: "status", hidden: true });
    this.node = h("div", { class: "race-place" }, field(say.runsOn, this.select, "wide"), this.addressField, this.draftField, this.told);
  }

  // The chosen place; null: the loaded pair.
  get place() {
    if (!this.select.value) return null;
    if (this.select.value === ADDRESS) return this.address.value;
    return this.draft.value ? `${this.select.value}${BETWEEN}${this.draft.value}` : this.select.value;
  }

  // Shows the place of a race that was started.
  set place(text) {
    const listed = (id) => [...this.select.options].some(({ value }) => value === id);
    const [target, draft = ""] = listed(text) ? [text] : text.split(BETWEEN);
    this.select.value = listed(target) ? target : ADDRESS;
    if (this.select.value === ADDRESS) this.address.value = text;
    this.addressField.hidden = this.select.value !== ADDRESS;
    this.drafts([], listed(target) ? draft : "");
    this.onMethods(USUAL);
    this.look();
  }

  // Offers drafts, and the one that is `chosen` already.
  drafts(found, chosen = this.draft.value) {
    const offered = !chosen || found.some(({ id }) => id === chosen) ? found : [{ id: chosen, name: chosen }, ...found];
    this.draft.replaceChildren(h("option", { value: "" }, say.noDraft), ...offered.map(({ id, name }) => h("option", { value: id, selected: id === chosen }, name)));
    this.draftField.hidden = !offered.length;
  }

  // Says where the chosen place runs.
  get hint() {
    const far = this.select.value === ADDRESS || this.select.selectedOptions[0].parentElement.label === say.placeKinds.server;
    return far ? say.farHint : say.elsewhereHint;
  }

  chosen() {
    this.addressField.hidden = this.select.value !== ADDRESS;
    this.forget();
    if (this.select.value === ADDRESS && !this.address.value) this.address.focus();
    else if (this.place !== null) this.look();
  }

  // Forgets the facts about another place.
  forget() {
    this.drafts([], "");
    this.say("");
    this.onMethods(this.place === null ? null : USUAL);
  }

  // Asks what can be raced at the place; a race may begin before the answer.
  // `again`: only the list of drafts can be new.
  async look(again = false) {
    clearTimeout(this.timer);
    const { place } = this;
    if (place === null || !place.trim()) return;
    if (!again) this.say(say.asking);
    try {
      const found = await answered(this.server.look({ place }));
      if (place !== this.place || !this.node.isConnected) return;
      this.drafts(found.drafts);
      if (found.pending) this.timer = setTimeout(() => this.look(true), AGAIN_MS);
      if (again) return;
      this.onMethods(found);
      this.say(found.told);
    } catch (error) {
      if (place === this.place) this.say(reason(error), true);
    }
  }

  say(text, wrong = false) {
    this.told.replaceChildren(...linked(text));
    this.told.className = wrong ? "ft-error" : "hint";
    this.told.hidden = !text;
  }
}
