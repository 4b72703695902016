// Settings: the pair the app starts with, what computes it, and the defaults of chats.

import { h } from "../../shared/dom.js";
import { field } from "../../shared/form/fields.js";
import { Settings } from "../../shared/form/settings.js";
import { pairKey, status } from "../../shared/frame/status.js";
import { say } from "./words.js";

const PREFIX = "own-";

// Device, threads, compiled step.
export class Computing {
  constructor(page) {
    this.page = page;
    const made = (name, kind, label, info) => field({ name, kind, label, info, id: PREFIX + name, choices: [] }, "", (value, done) => done && this.keep(name, value));
    this.fields = {
      start: made("start", "choice", say.start),
      device: made("device", "choice", say.device),
      threads: made("threads", "choice", say.threads, say.threadsInfo),
      native: made("native", "check", say.native, say.nativeInfo),
    };
    this.notes = Object.fromEntries(Object.entries(this.fields).map(([name, each]) => {
      const note = h("p", { class: "hint fixed", id: `${PREFIX}${name}-fixed`, hidden: true });
      each.node.append(note);
      return [name, note];
    }));
    this.told = h("span", { class: "grow" });
    this.button = h("button", { class: "ft-button small", type: "button", dataset: { act: "reload" }, on: { click: () => page.reload() } }, say.reloadNow);
    this.again = h("div", { class: "reload", role: "status", hidden: true }, this.told, this.button);
    this.why = h("p", { class: "hint", dataset: { why: "device" }, hidden: true });
    this.fields.device.node.append(this.why);
    this.node = h("section", { class: "panel", dataset: { part: "computing" } }, h("h2", {}, say.computing), h("p", { class: "hint" }, say.startHint),
      h("div", { class: "columns" }, ...Object.values(this.fields).map((each) => each.node)), this.again, page.loading.node);
  }

  async refresh() {
    const view = await this.page.ask("computing");
    if (view) this.show(view);
  }

  async keep(name, value) {
    const view = await this.page.ask("keep_computing", { name, value: name === "threads" ? Number(value) || null : value });
    if (view) this.show(view);
    else if (this.view) this.show(this.view); // refused: show what is stored
  }

  show(view) {
    this.view = view;
    const { start, device, threads, native, fixed } = view;
    this.fields.start.set(start.value, start.choices.map(({ id, pair }) => ({ id, label: say.starts[id](pair) })));
    this.fields.device.set(device.value, device.choices.map(({ id, why }) => ({ id, label: why ? say.notHere(say.devices[id]) : say.devices[id], disabled: Boolean(why) && id !== device.value })));
    const missing = device.choices.map(({ why }) => why).filter(Boolean);
    this.why.textContent = missing.join(" ");
    this.why.hidden = !missing.length;
    const counts = Array.from({ length: threads.most }, (_, i) => ({ id: String(i + 1), label: String(i + 1) }));
    this.fields.threads.set(threads.value === null ? "" : String(threads.value), [{ id: "", label: say.threadsDefault(threads.default) }, ...counts]);
    this.fields.native.set(native.value);
    for (const [name, each] of Object.entries(this.fields)) {
      const options = fixed[name];
      each.enable(!options, options ? say.fixed(options) : "");
      this.notes[name].hidden = !options;
      this.notes[name].textContent = options ? say.fixed(options) : "";
    }
    this.again.hidden = !view.reload;
    this.told.textContent = view.reload ? say.reload(view.loaded) : "";
  }

  // Refreshes after a load: the pair may now have the current settings.
  status({ loaded, opening }) {
    this.button.disabled = Boolean(opening);
    const known = JSON.stringify([loaded?.detail, Boolean(opening)]);
    if (known !== this.known && this.page.seen) this.refresh();
    this.known = known;
  }
}

// The default settings of chats.
export class ChatDefaults {
  constructor(page) {
    this.settings = new Settings((name, data) => page.ask(name, data), (view) => this.show(view), [], "own-");
    this.method = field({ name: "method", kind: "choice", id: "own-method", label: say.method, choices: [] }, "", (name) => this.choose(name));
    this.about = h("p", { class: "hint" });
    this.method.node.append(this.about);
    this.node = h("section", { class: "panel", dataset: { part: "chats" } }, h("h2", {}, say.chats), h("p", { class: "hint" }, say.chatsHint), this.method.node, this.settings.node);
  }

  refresh() {
    return this.settings.refresh();
  }

  // Refreshes if another page or tab changed the settings, or another pair was loaded.
  status(latest) {
    const known = pairKey(latest.loaded);
    const other = known !== this.known || this.settings.version !== latest.settings;
    this.known = known;
    if (other && this.settings.values && !this.settings.keeping) this.refresh();
  }

  async choose(name) {
    await this.settings.choose(name);
    status.refresh(); // update the chat
  }

  show({ methods, settings }) {
    const own = methods.filter((each) => !each.why);
    const chosen = own.find((each) => each.name === settings.proposer);
    this.method.set(settings.proposer, own.map((each) => ({ id: each.name, label: each.default ? say.methodDefault(each.name) : each.name })));
    this.method.enable(own.length > 0, say.noMethod);
    this.about.textContent = own.length ? [chosen?.about, chosen?.speed].filter(Boolean).join(" · ") : say.noMethod;
  }
}
