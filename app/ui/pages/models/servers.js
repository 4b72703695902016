// Models on servers: asking a server for its models, connecting, and the known servers.

import { h } from "../../shared/dom.js";
import { status } from "../../shared/frame/status.js";
import { say } from "./words.js";

export class Servers {
  // `page` has ask(name, data), fail(text) and mark().
  constructor(page) {
    this.page = page;
    this.address = h("input", { type: "text", placeholder: say.addressHint, spellcheck: "false", autocapitalize: "off", name: "address" });
    this.key = h("input", { type: "password", autocomplete: "off", spellcheck: "false", name: "server-key" });
    this.button = h("button", { class: "ft-button primary", type: "submit" }, say.ask);
    this.found = h("div", { class: "server-found", "aria-live": "polite" });
    this.kept = h("p", { class: "hint", role: "status", hidden: true });
    this.known = h("ul", { class: "known-servers", "aria-label": say.knownServers });
    const form = h("form", { class: "ask-server", on: { submit: (event) => (event.preventDefault(), this.look()) } },
      h("label", {}, h("span", {}, say.address), this.address), h("label", {}, h("span", {}, say.key), this.key), this.button);
    this.node = h("section", { class: "servers", "aria-label": say.servers },
      h("h2", {}, say.servers), this.known, form, this.found, this.kept, h("p", { class: "hint" }, say.serversInfo));
  }

  async refresh() {
    const answer = await this.page.ask("servers");
    if (!answer) return;
    const told = JSON.stringify(answer.servers);
    if (told === this.told) return; // do not redraw buttons that may be pressed just now
    this.told = told;
    this.known.replaceChildren(...answer.servers.map((each) => h("li", { dataset: { target: each.id } },
      h("span", {}, h("b", {}, each.name), " ", h("span", { class: "loaded-tag" }, say.connected), h("span", { class: "source" }, each.address), each.note ? h("span", { class: "hint" }, each.note) : null),
      h("span", { class: "acts" },
        h("button", { class: "ft-button small", type: "button", dataset: { open: each.id }, "aria-label": say.connectTo(each.name), on: { click: () => this.connect({ id: each.id }) } }, say.connect),
        h("button", { class: "ft-link", type: "button", "aria-label": say.forgetServer(each.name), on: { click: () => this.forget(each.id) } }, say.forgetPlain)))));
    this.page.mark();
  }

  async look() {
    this.button.disabled = true;
    this.kept.hidden = true;
    this.found.replaceChildren(h("p", { class: "hint" }, say.asking));
    const asked = { address: this.address.value, key: this.key.value };
    const found = await this.page.ask("ask_server", asked);
    this.button.disabled = false;
    this.found.replaceChildren(...(found ? this.result(found, asked) : []));
    this.page.mark();
  }

  result(found, asked) {
    if (found.error) return [h("p", { class: "ft-error", role: "alert" }, found.error)];
    const head = h("p", {}, h("b", {}, say.answers(found.name, found.place)));
    if (!found.models.length) return [head, h("p", { class: "ft-error", role: "alert" }, say.noModels)];
    const wanted = found.models.filter((each) => !found.wanted || each.id === found.wanted);
    const missing = wanted.length ? [] : [h("p", { class: "ft-error", role: "alert" }, say.noModelThere(found.wanted))];
    return [head, ...missing, h("ul", {}, ...(wanted.length ? wanted : found.models).map((each) => h("li", { dataset: { model: each.id } },
      h("span", {}, h("b", {}, each.id), " ", each.context ? h("span", { class: "hint" }, say.contextOf(each.context)) : null, each.loaded === false ? h("span", { class: "tag" }, each.loads ? say.loadsThere(found.models.find(({ loaded }) => loaded)?.id) : say.notLoadedThere) : null),
      h("button", { class: "ft-button small", type: "button", dataset: { open: each.id }, "aria-label": say.connectTo(each.id), on: { click: () => this.connect({ address: found.address, key: asked.key, model: each.id }) } }, say.connect))))];
  }

  async connect(data) {
    this.page.fail("");
    const answer = await this.page.ask("connect", data);
    if (answer?.error) this.page.fail(answer.error);
    this.kept.textContent = answer?.kept ?? "";
    this.kept.hidden = !answer?.kept;
    if (answer?.kept) this.key.value = "";
    status.refresh();
    this.refresh();
  }

  async forget(id) {
    const answer = await this.page.ask("forget_server", { id });
    if (answer?.error) this.page.fail(answer.error);
    this.refresh();
  }
}
