// The server page: one switch, and lines to copy.

import { copy, h } from "../../shared/dom.js";
import { register } from "../../shared/pages.js";
import { answered, reason } from "../../shared/server.js";
import { words } from "../../shared/words.js";
import { say } from "./words.js";

class ServerPage {
  constructor({ element, server }) {
    this.server = server;
    this.root = element.querySelector(".ft-server");
    this.state = { on: false, key: false, needs_key: false, model: null };
    this.refresh();
    new IntersectionObserver((entries) => entries[0].isIntersecting && this.refresh()).observe(this.root);
  }

  refresh() {
    return this.ask("api_state", {});
  }

  back() {
    return this.refresh();
  }

  async ask(name, data) {
    try {
      this.state = await answered(this.server[name](data));
    } catch (error) {
      this.state = { ...this.state, error: reason(error) };
    }
    this.show(this.state);
  }

  async turn(on) {
    await this.ask("set_api", { on });
    this.root.querySelector("[role=switch]").focus();
  }

  show(state) {
    const base = `${location.origin}/v1`;
    const model = state.model ?? "pip";
    const toggle = h("button", { class: "switch", type: "button", role: "switch", "aria-checked": String(state.on), "aria-labelledby": "api-label", on: { click: () => this.turn(!state.on) } }, h("span", { class: "knob" }));
    this.root.replaceChildren(
      h("section", { class: "switch-row" }, toggle,
        h("div", {}, h("h2", { id: "api-label" }, say.title), h("p", { class: "hint" }, say.info)),
        h("span", { class: `api-state ${state.on ? "on" : "off"}`, role: "status" }, state.on ? say.on : say.off)),
      state.error ? h("p", { class: "ft-error", role: "alert" }, state.error) : "",
      h("dl", { class: "address" },
        h("div", {}, h("dt", {}, say.address), h("dd", {}, h("code", {}, base), this.copyButton(base))),
        h("div", {}, h("dt", {}, say.model), h("dd", {}, state.model ? h("code", {}, state.model) : words.noModel)),
        h("div", {}, h("dt", {}, say.key), h("dd", {}, state.key ? say.keySet : state.needs_key ? say.keyNeeded : say.keyNone))),
      this.snippet(say.curl, say.curlText(base, model, state.key), "curl"),
      this.snippet(say.python, say.pythonText(base, model, state.key), "python"),
      h("section", {}, h("h2", {}, say.endpoints),
        h("table", { class: "endpoints" }, h("tbody", {}, ...say.endpointList.map(([method, path, what]) => h("tr", {}, h("td", {}, h("code", {}, method)), h("td", {}, h("code", {}, path)), h("td", {}, what)))))),
      h("p", { class: "hint" }, say.offHint));
  }

  snippet(title, text, name) {
    return h("section", { class: "snippet", dataset: { snippet: name } },
      h("div", { class: "code" }, h("div", { class: "code-bar" }, h("span", {}, title), this.copyButton(text)), h("pre", { tabindex: "0" }, h("code", {}, text))));
  }

  copyButton(text) {
    const button = h("button", { class: "ft-link", type: "button", on: { click: () => copy(text, button, words.copied) } }, words.copy);
    return button;
  }
}

register("server", ServerPage);
