// Live log of API requests: a row for each, the newest on top, while the page is visible.

import { h, percent, seconds, speed } from "../../shared/dom.js";
import { answered, reason } from "../../shared/frame/server.js";
import { say } from "./words.js";

const PERIOD = 250; // ms between two requests
const AWAY = 2000; // ms until the next request if the app does not answer

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const clock = (at) => new Date(1000 * at).toLocaleTimeString();

export class Requests {
  // `fail(text)` says what went wrong.
  constructor(server, fail) {
    this.server = server;
    this.fail = fail;
    this.rows = new Map(); // number: row
    this.version = 0;
    this.looking = false;
    this.body = h("table", { class: "requests" }, h("thead", {}, h("tr", {}, ...say.columns.map((name) => h("th", { scope: "col" }, name)))));
    this.empty = h("p", { class: "hint" }, say.noRequests);
    this.table = h("div", { class: "scrolls", hidden: true, tabindex: "0", role: "group", "aria-label": say.requests }, this.body);
    this.node = h("section", { "aria-label": say.requests }, h("h2", {}, say.requests), this.empty, this.table);
  }

  // Follows the log while the page is visible.
  look(on) {
    this.wanted = on;
    if (on && !this.looking) this.follow();
  }

  async follow() {
    this.looking = true;
    while (this.wanted) {
      try {
        this.take(await answered(this.server.follow({ from: this.version })));
        await pause(PERIOD);
      } catch {
        await pause(AWAY);
      }
    }
    this.looking = false;
  }

  take({ version, numbers, requests }) {
    if (version < this.version) this.forget(); // the app was started anew
    this.version = version;
    for (const request of requests) this.draw(request);
    const kept = new Set(numbers);
    for (const [number, row] of this.rows) if (!kept.has(number)) (row.remove(), this.rows.delete(number));
    this.empty.hidden = this.rows.size > 0;
    this.table.hidden = !this.empty.hidden;
  }

  forget() {
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
  }

  draw(request) {
    // The reason of a refusal has a row of its own; a column would cut it off.
    const reason = request.message ? h("tr", {}, h("td", { class: "why", colspan: say.columns.length }, request.message)) : null;
    const row = h("tbody", { dataset: { request: String(request.number), stage: request.stage } }, h("tr", {}, ...this.cells(request)), reason);
    const old = this.rows.get(request.number);
    this.rows.set(request.number, row);
    if (!old) return void this.body.tHead.after(row);
    const focused = old.contains(document.activeElement);
    old.replaceWith(row);
    if (focused) row.querySelector("button")?.focus();
  }

  cells({ number, at, seconds: taken, address, agent, path, model, method, stage, ended, ...figures }) {
    const program = agent.split(" ")[0];
    const cell = (name, ...children) => h("td", { dataset: { cell: name } }, ...children);
    const cancel = ended ? null : h("button", { class: "ft-link", type: "button", dataset: { act: "cancel" }, "aria-label": say.cancelOf(clock(at)), on: { click: () => this.cancel(number) } }, say.cancel);
    const under = (text, title) => (text ? h("span", { class: "hint", title }, text) : null);
    const tokens = figures.prompt_tokens || figures.completion_tokens;
    return [
      cell("at", clock(at)),
      cell("from", address, under(program, agent)),
      cell("what", model || "–", under(path)),
      cell("method", method || "–"),
      cell("tokens", tokens ? say.tokens(figures.prompt_tokens, figures.completion_tokens) : "–"),
      cell("speed", speed(figures.tokens_per_s)),
      cell("accepted", percent(figures.acceptance_rate)),
      cell("stage", h("span", { class: "stage" }, say.stages[stage]), ended ? under(seconds(taken)) : null, cancel),
    ];
  }

  async cancel(number) {
    try {
      await answered(this.server.cancel_request({ number }));
    } catch (error) {
      this.fail(reason(error));
    }
  }
}
