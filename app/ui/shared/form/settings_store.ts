// The settings of the chat. A change is stored by Python as soon as it is made, and a message is sent with the current
// values.

import { Store } from "../store";

const drafting = ["proposer", "controller", "depth"];
const unkept = "foretoken.unkept"; // what is being typed, for a reload before it is stored
const typed = () => JSON.parse(localStorage.getItem(unkept) ?? "{}") as Record<string, any>;

type Ask = (name: string, data?: object) => Promise<any>;

export class SettingsStore extends Store<{ view: any; values: any; fields: any[]; undoes: boolean }> {
  asked = 0;
  keeping = 0; // until the answer, Python has newer settings than this page
  typing = typed(); // what is not stored yet
  last: Promise<any> = Promise.resolve();

  constructor(readonly ask: Ask) {
    super({ view: null, values: null, fields: [], undoes: false });
  }

  // The settings by name; null until they are known.
  get values() {
    return this.state.values;
  }

  get view() {
    return this.state.view;
  }

  get version() {
    return this.state.view?.version;
  }

  // What is sent with a message: the settings, and the pair that they are for.
  get sent() {
    return this.values ? { settings: this.values, pair: this.view.pair } : {};
  }

  // Fetches the settings of the loaded pair; `other`: it was loaded just now.
  async refresh(other = false) {
    await this.send("panel", { first: !this.state.fields.length, other });
  }

  async send(name: string, data: object) {
    const mine = (this.asked += 1);
    this.keeping += 1;
    const { typing } = this;
    // One after the other: requests in flight may overtake each other, and the last change must win.
    const view = await (this.last = this.last.then(() => this.ask(name, data)));
    this.keeping -= 1;
    if (view && name !== "panel" && this.typing === typing) {
      this.typing = {};
      localStorage.removeItem(unkept);
    }
    if (view && mine === this.asked) this.show(view, name === "keep_settings"); // else a later answer is newer
  }

  // Shows an answer, which must not overwrite what is being typed. `own`: it answers a change of this page.
  show(view: any, own: boolean) {
    const again = !this.values && Object.keys(this.typing).length > 0;
    this.set({
      view,
      undoes: view.forgotten,
      ...(view.fields ? { fields: view.fields } : {}),
      ...(own ? {} : { values: { ...structuredClone(view.settings), ...this.typing } }),
    });
    if (again) this.keep(false);
  }

  // Changes settings; `done`: the value is final.
  change(change: Record<string, any>, done: boolean) {
    if (!this.values) return;
    this.set({ values: { ...this.values, ...change }, undoes: false });
    if (done) this.keep(drafting.some((name) => name in change));
    else localStorage.setItem(unkept, JSON.stringify((this.typing = { ...this.typing, ...change })));
  }

  // Changes an option of the chosen proposer.
  changeOption(name: string, value: any, done: boolean) {
    const { options, proposer } = this.values;
    this.set({
      values: { ...this.values, options: { ...options, [proposer]: { ...options[proposer], [name]: value } } },
    });
    if (done) this.keep(false);
  }

  // Stores all values; `chosen`: the user chose how to draft.
  keep(chosen = false) {
    return this.send("keep_settings", { settings: this.values, pair: this.view.pair, chosen });
  }

  // Goes back to the defaults, or undoes that.
  toggleDefaults() {
    return this.send(this.state.undoes ? "restore_settings" : "forget_settings", {});
  }
}
