// The settings page: look, start and computing, chats' defaults, folders, forgetting, diagnostics.

import { h } from "../../shared/dom.js";
import { Loading } from "../../shared/frame/loading.js";
import { choice } from "../../shared/figures/measuring.js";
import { Page, register } from "../../shared/frame/pages.js";
import { status } from "../../shared/frame/status.js";
import { theme } from "../../shared/frame/theme.js";
import { ChatDefaults, Computing } from "./computing.js";
import { Diagnostics, Folders, Forgetting } from "./stored.js";
import { say } from "./words.js";

class SettingsPage extends Page {
  constructor({ element, server }) {
    super(server);
    this.parts = []; // until it is looked at for the first time
    this.root = element.querySelector(".ft-settings");
    status.watch((latest) => this.show(latest), server.status);
    new IntersectionObserver((entries) => {
      this.seen = entries.at(-1).isIntersecting;
      if (this.seen) this.look();
    }).observe(this.root);
  }

  look() {
    if (!this.parts.length) this.build();
    return this.refresh();
  }

  build() {
    this.loading = new Loading(() => this.ask("cancel_loading").then(() => status.refresh()));
    this.parts = [new Computing(this), new ChatDefaults(this), new Folders(this), new Forgetting(this), new Diagnostics(this)];
    this.root.replaceChildren(h("div", { class: "measuring" }, this.alert, look(), ...this.parts.map((part) => part.node)));
    if (status.latest) this.show(status.latest);
  }

  async ask(name, data = {}) {
    const answer = await super.ask(name, data);
    if (answer !== null) this.fail("");
    return answer;
  }

  fail(text) {
    super.fail(text);
    if (text) this.alert.scrollIntoView({ block: "nearest" });
  }

  back() {
    if (this.seen) this.refresh();
  }

  // Refreshes every part.
  refresh() {
    return Promise.all(this.parts.map((part) => part.refresh()));
  }

  show(latest) {
    this.loading?.show(latest);
    for (const part of this.parts) part.status?.(latest);
  }

  // Loads the pair again with the current settings.
  async reload() {
    if (!(await this.ask("reload"))) return;
    await status.refresh();
    await this.refresh(); // a quick load may never be seen in progress
  }
}

function look() {
  const cards = ["system", "light", "dark"].map((name) => choice("radio", "theme", name, say.themes[name], say.themeHints[name], { on: { change: () => theme.choose(name) } }));
  const mark = () => cards.forEach((card) => {
    const input = card.querySelector("input");
    input.checked = input.value === theme.choice;
  });
  theme.watch(mark);
  mark();
  return h("section", { class: "panel", dataset: { part: "look" } }, h("fieldset", {}, h("legend", {}, say.theme), h("div", { class: "choices" }, ...cards)));
}

register("settings", SettingsPage);
