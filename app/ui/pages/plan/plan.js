// The plan page: a form and the plan for it. Nothing is started.

import { copy, h } from "../../shared/dom.js";
import { field, select } from "../../shared/figures/measuring.js";
import { Page, register } from "../../shared/frame/pages.js";
import { words } from "../../shared/words.js";
import { say } from "./words.js";

const same = (values) => values.map((each) => [each, each]);

class PlanPage extends Page {
  constructor({ element, server }) {
    super(server);
    this.form = h("form", { class: "panel", "aria-label": say.form, on: { submit: (event) => (event.preventDefault(), this.make()) } });
    this.result = h("div", { class: "plan-result", "aria-live": "polite" });
    element.querySelector(".ft-plan").append(h("div", { class: "measuring" }, h("p", { class: "ft-intro" }, say.intro), this.form, this.alert, this.result));
    this.opening();
  }

  async opening() {
    const offer = await this.ask("offer");
    if (offer) this.draw(offer);
  }

  // What was filled in stays.
  back() {
    if (!this.offer) return this.opening();
  }

  draw(offer) {
    this.offer = offer;
    this.methods = h("select", { name: "method" });
    this.backend = field(say.backend, select("backend", offer.engines.slice(0, 3).map((each) => [each.id, each.name]), "vllm"));
    const engine = select("engine", offer.engines.map((each) => [each.id, each.name]), "vllm", { on: { change: () => this.choose(engine.value) } });
    const text = (name, hint, more = {}) => h("input", { type: "text", name, placeholder: hint, autocomplete: "off", spellcheck: "false", ...more });
    const number = (name, value, hint, more = {}) => h("input", { type: "number", name, min: 1, value, placeholder: hint, ...more });
    this.form.replaceChildren(
      h("datalist", { id: "plan-targets" }, ...offer.targets.map((each) => h("option", { value: each.id }))),
      h("div", { class: "plan-fields" },
        field(say.target, text("target", say.targetHint, { list: "plan-targets", value: "llama-3.1-8b", required: true }), "wide"),
        field(say.gpuCount, number("count", 1, "")),
        field(say.gpuKind, select("kind", same(offer.gpus), "H100"))),
      h("div", { class: "plan-fields" }, field(say.engine, engine), this.backend, field(say.method, this.methods), field(say.draft, text("draft", say.draftHint)), field(say.depth, number("depth", "", say.depthHint))),
      h("div", { class: "plan-fields" }, field(say.users, number("users", 8, "")), field(say.context, number("context", "", say.contextHint))),
      h("details", {}, h("summary", {}, say.more), h("div", { class: "plan-fields" },
        field(say.quantization, select("quantization", same(offer.formats), "auto")),
        field(say.kv, select("kv_cache_dtype", same(offer.kv_cache_dtypes), "auto")),
        field(say.acceptance, number("acceptance", "", say.acceptanceHint, { min: 0, max: 1, step: "any" })))),
      h("div", { class: "buttons" }, h("button", { class: "ft-button primary", type: "submit", dataset: { act: "make" } }, say.make)));
    this.choose("vllm");
  }

  // Shows the methods of an engine.
  choose(engine) {
    const kept = this.methods.value || "eagle3";
    const here = this.offer.methods.filter((each) => each.engines.includes(engine));
    this.methods.replaceChildren(...here.map((each) => h("option", { value: each.id, selected: each.id === kept }, each.title)));
    this.backend.hidden = engine !== "dynamo";
  }

  async make() {
    const given = Object.fromEntries(new FormData(this.form));
    this.fail("");
    const plan = await this.ask("make", { ...given, gpus: `${given.count || 1}x${given.kind}` });
    if (!plan) return this.result.replaceChildren();
    this.show(plan);
    this.result.scrollIntoView({ block: "nearest" });
  }

  show(plan) {
    const drafts = plan.method !== "none";
    const memory = Object.entries(say.parts).filter(([part]) => plan.memory_of_a_gpu[part]);
    const stops = plan.estimate.stops_at;
    this.result.replaceChildren(
      h("section", { class: "panel" }, h("h2", {}, say.title(plan)), h("p", {}, say.layout(plan)),
        h("div", { class: "plan-tables" },
          table([say.memory, ""], memory.map(([part, name]) => [name, say.gb(plan.memory_of_a_gpu[part])])),
          h("div", {}, h("p", { class: "hint" }, say.speed), table(drafts ? say.speedHead : say.plainHead, plan.estimate.by_users.map((row) => say.row(row, drafts))))),
        drafts ? h("p", { class: "hint" }, say.rests(plan), " ", stops ? say.stops(stops) : "") : ""),
      plan.notes.length ? h("section", { class: "panel" }, h("h2", {}, say.notes), h("ul", {}, ...plan.notes.map((note) => h("li", {}, note)))) : "",
      ...Object.entries(plan.files).map(([name, text]) => file(name, text)),
      file(say.command, plan.command, false));
  }
}

const table = (head, rows) =>
  h("table", {}, h("thead", {}, h("tr", {}, ...head.map((each) => h("th", {}, each)))), h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell))))));

function file(name, text, keep = true) {
  const button = h("button", { class: "ft-link", type: "button", on: { click: () => copy(text, button, words.copied) } }, words.copy);
  const link = keep ? h("a", { class: "ft-link", download: name, href: `data:text/plain;charset=utf-8,${encodeURIComponent(text)}` }, say.save) : "";
  return h("section", { class: "snippet", dataset: { file: name } }, h("div", { class: "code" }, h("div", { class: "code-bar" }, h("span", {}, name), link, button), h("pre", { tabindex: "0" }, h("code", {}, text))));
}

register("plan", PlanPage);
