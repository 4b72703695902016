// The server page: the API's switch, example calls, requests, and access.

import { copy, h } from "../../shared/dom.js";
import { Page, register } from "../../shared/frame/pages.js";
import { words } from "../../shared/words.js";
import { Access } from "./access.js";
import { Requests } from "./requests.js";
import { Snippets } from "./snippets.js";
import { say } from "./words.js";

class ServerPage extends Page {
  constructor({ element, server }) {
    super(server);
    this.root = element.querySelector(".ft-server");
    this.base = `${location.origin}/v1`;
    this.state = { on: false, key: null, key_given: false, needs_key: false, origins: [], model: null };
    this.access = new Access((name, data) => this.change(name, data), () => this.show());
    this.snippets = new Snippets();
    this.requests = new Requests(server, (text) => this.fail(text));
    this.build();
    this.show();
    new IntersectionObserver((entries) => this.seen(entries.at(-1).isIntersecting)).observe(this.root);
  }

  back() {
    return this.change("api_state", {});
  }

  build() {
    this.toggle = h("button", { class: "switch", type: "button", id: "api-switch", role: "switch", "aria-labelledby": "api-label", on: { click: () => this.change("set_api", { on: !this.state.on }) } }, h("span", { class: "knob" }));
    this.on = h("span", { role: "status" });
    this.model = h("dd");
    const copied = h("button", { class: "ft-link", type: "button", on: { click: () => copy(this.base, copied, words.copied) } }, words.copy);
    this.root.append(
      h("section", { class: "switch-row" }, this.toggle,
        h("div", {}, h("h2", {}, h("label", { id: "api-label", for: "api-switch" }, say.title)), h("p", { class: "hint" }, say.info)), this.on),
      this.alert,
      h("dl", { class: "address" },
        h("div", {}, h("dt", {}, say.address), h("dd", {}, h("code", {}, this.base), copied)),
        h("div", {}, h("dt", {}, say.model), this.model)),
      this.snippets.node, this.requests.node, this.access.node,
      h("section", {}, h("h2", {}, say.endpoints),
        h("table", { class: "endpoints" }, h("tbody", {}, ...say.endpointList.map(([method, path, what]) => h("tr", {}, h("td", {}, h("code", {}, method)), h("td", {}, h("code", {}, path)), h("td", {}, what)))))),
      h("p", { class: "hint" }, say.offHint));
  }

  seen(on) {
    this.requests.look(on);
    if (on) this.change("api_state", {});
  }

  // Calls an endpoint that answers with the state. Returns whether it did.
  async change(name, data) {
    const state = await this.ask(name, data);
    if (!state) return false;
    this.state = state;
    this.fail("");
    this.show();
    return true;
  }

  show() {
    const { on, key, model } = this.state;
    this.toggle.setAttribute("aria-checked", String(on));
    this.on.className = `api-state ${on ? "on" : "off"}`;
    this.on.textContent = on ? say.on : say.off;
    this.model.replaceChildren(model ? h("code", {}, model) : words.noModel);
    this.snippets.show({ base: this.base, model: model ?? "pip", key }, this.access.open);
    this.access.show(this.state);
  }
}

register("server", ServerPage);
