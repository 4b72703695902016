// Downloads, shown where they were started: progress, pause and resume, and what to do about a failure.

import { h } from "../../shared/dom.js";
import { status } from "../../shared/frame/status.js";
import { say } from "./words.js";

const AGAIN_MS = 400;

export class Transfers {
  // `page` has ask(name, data), download(data) and refresh().
  constructor(page) {
    this.page = page;
    this.known = {}; // key -> state
    this.places = new Set(); // elements that show some of the downloads
    this.list = h("div", { class: "transfers" });
    this.rest = h("section", { class: "rest", "aria-label": say.downloads, hidden: true }, h("h2", {}, say.downloads), this.list);
  }

  // Makes an element that shows the downloads of these keys while it is in the page.
  of(keys) {
    const place = h("div", { class: "transfers" });
    place.keys = keys;
    place.drawn = new Map(); // key -> Transfer
    return this.watch(place);
  }

  // Updates an element again that was out of the page.
  watch(place) {
    this.places.add(place);
    this.fill(place, place.keys);
    return place;
  }

  async refresh() {
    clearTimeout(this.timer);
    const answer = await this.page.ask("downloads");
    if (!answer) return;
    const ended = answer.finished !== (this.finished ?? answer.finished);
    this.finished = answer.finished;
    this.known = answer.downloads;
    const seen = new Set();
    for (const place of this.places) {
      if (!place.isConnected) this.places.delete(place);
      else for (const key of this.fill(place, place.keys)) seen.add(key);
    }
    this.list.drawn ??= new Map();
    const others = this.fill(this.list, Object.keys(this.known).filter((key) => !seen.has(key)));
    this.rest.hidden = !others.length;
    if (ended) this.page.refresh();
    if (ended) status.refresh(); // other pages offer the new models
    if (answer.working) this.timer = setTimeout(() => this.refresh(), AGAIN_MS);
  }

  // Shows the downloads of `keys` in `place`. Returns the keys shown.
  fill(place, keys) {
    const shown = keys.filter((key) => key in this.known);
    for (const [key, transfer] of place.drawn) {
      if (shown.includes(key)) continue;
      transfer.node.remove();
      place.drawn.delete(key);
    }
    for (const key of shown) {
      if (!place.drawn.has(key)) {
        place.drawn.set(key, new Transfer(this, key));
        place.append(place.drawn.get(key).node);
      }
      place.drawn.get(key).show(this.known[key]);
    }
    return shown;
  }

  async act(name, key) {
    const answer = await this.page.ask(name, name === "download" ? { key } : { key });
    await this.refresh();
    return answer;
  }
}

class Transfer {
  constructor(transfers, key) {
    this.transfers = transfers;
    this.name = h("b");
    this.source = h("span", { class: "hint source" });
    this.state = h("span", { class: "hint", role: "status" });
    this.figures = h("span", { class: "hint figures" });
    this.bar = h("progress", { max: 1 });
    const button = (name, label) => h("button", { class: "ft-button small", type: "button", dataset: { transfer: name }, on: { click: () => transfers.act(name === "pause" || name === "discard" ? name : "download", key) } }, label);
    this.pause = button("pause", say.pause);
    this.go = button("resume", say.resume);
    this.discard = button("discard", say.discard);
    this.error = h("p", { class: "ft-error", role: "alert" });
    this.token = this.form(key);
    this.node = h("div", { class: "transfer" },
      h("div", { class: "transfer-head" }, this.name, this.source, this.state, this.figures, h("span", { class: "grow" }), this.pause, this.go, this.discard), this.bar, this.error, this.token);
  }

  form(key) {
    const input = h("input", { type: "password", placeholder: say.tokenHint, autocomplete: "off", spellcheck: "false", name: "token", "aria-label": say.token });
    this.kept = h("p", { class: "hint", role: "status" });
    this.link = h("a", { target: "_blank", rel: "noopener noreferrer" }, say.modelPage);
    const submit = async (event) => {
      event.preventDefault();
      const answer = await this.transfers.page.ask("keep_token", { token: input.value });
      if (!answer) return;
      this.kept.textContent = answer.error ?? answer.kept;
      if (answer.error) return;
      input.value = "";
      this.transfers.act("download", key);
    };
    return h("form", { class: "token", on: { submit } },
      h("p", { class: "hint" }, say.tokenWhere, " ", this.link), h("label", {}, h("span", {}, say.token), input), h("button", { class: "ft-button small", type: "submit" }, say.keepToken), this.kept);
  }

  show(d) {
    const state = d.waiting || say.states[d.unusable ? "unusable" : d.state];
    this.node.dataset.state = d.state;
    this.name.textContent = d.name;
    this.source.textContent = d.source;
    if (this.state.textContent !== state) this.state.textContent = state;
    this.figures.textContent = say.progress(d);
    if (d.share === null) this.bar.removeAttribute("value");
    else this.bar.value = d.share;
    this.bar.setAttribute("aria-label", say.downloadOf(d.name));
    const resting = d.state === "paused" || d.state === "failed";
    this.pause.hidden = resting;
    this.go.hidden = !resting;
    this.go.textContent = d.unusable ? say.fetchAgain : d.state === "failed" ? say.retry : say.resume;
    this.discard.hidden = !resting;
    this.discard.textContent = d.unusable ? say.remove : d.arrived ? say.discard : say.dismiss;
    this.error.hidden = !d.error;
    if (this.error.textContent !== (d.error ?? "")) this.error.textContent = d.error ?? "";
    this.token.hidden = !d.needs_token;
    this.link.href = d.page;
  }
}
