// How chats are answered where nobody chose otherwise: the settings that stand beside each chat, and who drafts.

import { h } from "../../shared/dom.js";
import { field } from "../../shared/form/fields.js";
import { Settings } from "../../shared/form/settings.js";
import { pairKey, status } from "../../shared/frame/status.js";
import { say } from "./words.js";

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

  // Another page, or another tab, has changed them; or another pair is loaded.
  status(latest) {
    const known = pairKey(latest.loaded);
    const other = known !== this.known || this.settings.version !== latest.settings;
    this.known = known;
    if (other && this.settings.values && !this.settings.keeping) this.refresh();
  }

  async choose(name) {
    await this.settings.choose(name);
    status.refresh(); // the chat learns of it
  }

  show({ methods, settings }) {
    const own = methods.filter((each) => !each.why);
    const chosen = own.find((each) => each.name === settings.proposer);
    this.method.set(settings.proposer, own.map((each) => ({ id: each.name, label: each.default ? say.methodDefault(each.name) : each.name })));
    this.method.enable(own.length > 0, say.noMethod);
    this.about.textContent = own.length ? [chosen?.about, chosen?.speed].filter(Boolean).join(" · ") : say.noMethod;
  }
}
