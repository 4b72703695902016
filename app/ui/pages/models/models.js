// The models page: the loaded pair, the table of all models, adding one, and the disk.

import { pageLink } from "../../shared/addresses.js";
import { h } from "../../shared/dom.js";
import { Loading } from "../../shared/frame/loading.js";
import { Page, register } from "../../shared/frame/pages.js";
import { status } from "../../shared/frame/status.js";
import { words } from "../../shared/words.js";
import { Add } from "./add.js";
import { Disk } from "./disk.js";
import { Servers } from "./servers.js";
import { Table } from "./table/table.js";
import { Transfers } from "./transfers.js";
import { say } from "./words.js";

const AGAIN_MS = 700;

class ModelsPage extends Page {
  constructor({ element, server }) {
    super(server);
    this.lines = h("div");
    this.loading = new Loading(() => this.cancel());
    this.told = h("span");
    this.alert = h("div", { class: "ft-error", role: "alert", hidden: true }, this.told,
      h("button", { class: "ft-link", type: "button", "aria-label": say.dismiss, on: { click: () => this.fail("") } }, "✕"));
    this.done = h("p", { class: "done", role: "status", hidden: true });
    this.now = h("section", { class: "now", "aria-label": say.now }, this.lines);
    this.transfers = new Transfers(this);
    this.table = new Table(this);
    this.servers = new Servers(this);
    this.disk = new Disk(this);
    this.root = element.querySelector(".ft-models");
    this.root.replaceChildren(
      this.now, h("div", { class: "news" }, this.loading.node, this.done, this.alert), this.transfers.rest, this.table.node, new Add(this).node, this.servers.node, this.disk.node);
    status.watch((latest) => this.show(latest), server.status);
    // Refresh each time the page becomes visible; of several entries the last one counts.
    new IntersectionObserver((entries) => entries.at(-1).isIntersecting && this.seen()).observe(this.now);
  }

  seen() {
    this.refresh({ look: true });
    this.table.seen();
  }

  // Fetches the table; `data` as for `table` in backend.py.
  async refresh(data = {}) {
    clearTimeout(this.timer);
    const table = await this.ask("table", data);
    if (!table) return;
    if (table.looking || table.comparing) this.timer = setTimeout(() => this.refresh(), AGAIN_MS);
    if (table.looking && !this.looking) status.refresh(); // it repeats by itself
    this.looking = table.looking;
    this.table.show(table);
    this.disk.show(table);
    this.servers.refresh();
    this.mark();
    this.transfers.refresh();
  }

  back() {
    return this.refresh();
  }

  show(latest) {
    const { loaded, opening, failed, found } = latest;
    const lines = [];
    if (loaded) lines.push(h("p", { class: "now-name" }, loaded.label), ...loaded.detail.split("\n").map((line) => h("p", { class: "hint" }, line)));
    else if (!opening) lines.push(h("p", { class: "now-name" }, words.noModel));
    this.lines.replaceChildren(h("h2", {}, say.now), ...lines);
    this.loading.show(latest);
    // Show a failure once: the user may have dismissed it since.
    const told = opening ? null : failed;
    if (opening || told !== this.failed) this.fail(told ?? "");
    this.failed = told;
    // The actions depend on what is loaded and found; a quick load may never be seen in progress.
    const known = JSON.stringify([loaded?.target, loaded?.draft, found, !opening]);
    if (opening) this.done.hidden = true;
    else if (told) this.asked = null;
    else if (this.asked && loaded && (this.wasOpening || this.asked !== known)) this.tellLoaded(loaded);
    this.wasOpening = Boolean(opening);
    this.loaded = loaded;
    if (known !== this.known) this.refresh();
    else this.mark();
    this.known = known;
  }

  // Disables buttons during a load and marks the loaded target.
  mark() {
    for (const row of this.root.querySelectorAll("[data-target]")) row.classList.toggle("loaded", row.dataset.target === this.loaded?.target);
    for (const button of this.root.querySelectorAll("[data-open]")) button.disabled = Boolean(this.wasOpening);
    const pair = this.loaded && JSON.stringify([this.loaded.target, this.loaded.draft ?? ""]);
    for (const button of this.root.querySelectorAll("[data-pair]")) button.classList.toggle("current", button.dataset.pair === pair);
  }

  // Says that the requested pair is loaded.
  tellLoaded(loaded) {
    this.asked = null;
    this.done.replaceChildren(h("span", {}, say.loaded(loaded)), pageLink("chat", say.chatWith, "ft-button small primary"),
      h("button", { class: "ft-link", type: "button", "aria-label": say.dismiss, on: { click: () => (this.done.hidden = true) } }, "✕"));
    this.done.hidden = false;
  }

  fail(text) {
    this.told.textContent = text;
    this.alert.hidden = !text;
  }

  async cancel() {
    await this.ask("cancel_loading");
    status.refresh();
  }

  // `refused` gets the reason for a refusal, or null.
  async open(data, refused = (text) => this.fail(text ?? "")) {
    refused(null);
    const before = this.known;
    const answer = await this.ask("open", data);
    if (answer?.error) refused(answer.error);
    this.asked = answer && !answer.error ? before : null;
    // A quick load may be complete before this answer arrives.
    if (this.asked && this.loaded && !this.wasOpening && before !== this.known) this.tellLoaded(this.loaded);
    status.refresh();
  }

  // Begins a download; `data` as for `download` in backend.py.
  async download(data) {
    const answer = await this.ask("download", data);
    if (answer?.error) this.fail(answer.error);
    this.transfers.refresh();
  }
}

register("models", ModelsPage);
