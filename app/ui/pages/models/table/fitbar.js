// What a pair takes of memory, as a bar of its parts, with a slider for the context. Python reckons.

import { h } from "../../../shared/dom.js";
import { say } from "../words.js";

const STEP = 256;

export class FitBar {
  constructor(page) {
    this.page = page;
    this.sum = h("span", { class: "hint", role: "status" });
    this.bar = h("div", { class: "fitbar", role: "img", "aria-label": say.memory });
    this.legend = h("ul", { class: "fit-legend" });
    this.context = null;
    this.tokens = h("output", {});
    this.slider = h("input", { type: "range", min: String(STEP), step: String(STEP), "aria-label": say.contextLabel, on: { input: () => this.slid() } });
    this.control = h("label", { class: "fit-context" }, h("span", {}, say.contextLabel), this.slider, this.tokens);
    this.sentence = h("p", { class: "fit" });
    this.node = h("section", { class: "memory", "aria-label": say.memory }, h("div", { class: "memory-head" }, h("h3", {}, say.memory), this.sum), this.bar, this.legend, this.control, this.sentence);
    this.asked = 0; // questions, of which the last one's answer counts
  }

  // `pair` as for `fit` in backend.py; `context` is what people chose, and what is loaded.
  async reckon(pair, context = this.context ?? null) {
    [this.pair, this.context] = [pair, context];
    const asked = (this.asked += 1);
    const found = await this.page.ask("fit", { ...pair, context });
    if (!found || asked !== this.asked) return;
    this.node.classList.toggle("unknown", Boolean(found.error));
    this.sentence.textContent = found.error ?? found.sentence;
    this.sentence.className = `fit ${found.fits ?? ""}`;
    if (found.error) return;
    this.sum.textContent = [say.needs(found.needed, found.free), found.held && say.held(found.held)].filter(Boolean).join(", ");
    this.draw(found.parts);
    this.slider.max = String(Math.max(STEP, found.longest));
    this.slider.value = String(found.context);
    this.tokens.textContent = say.tokens(found.context);
    this.slider.setAttribute("aria-valuetext", say.tokens(found.context));
  }

  again() {
    if (this.pair) this.reckon(this.pair, this.context);
  }

  draw(parts) {
    const label = (part) => `${say.part(part.kind, part.role)} ${part.size}`;
    const kind = (part) => `${part.kind} ${["target", "draft", ""].includes(part.role) ? part.role : "head"}`;
    this.bar.setAttribute("aria-label", parts.map(label).join(", "));
    const width = (part) => (part.kind === "lacking" ? `width: ${100 * part.share}%` : `flex-grow: ${Math.max(part.share, 0.002)}`);
    this.bar.replaceChildren(...parts.map((part) => h("span", { class: `part ${kind(part)}`, style: width(part), title: part.name ? `${label(part)} (${part.name})` : label(part) })));
    this.legend.replaceChildren(...parts.map((part) => h("li", {}, h("i", { class: `part ${kind(part)}` }), label(part))));
  }

  slid() {
    const context = (this.context = Number(this.slider.value)); // at once: Load may be pressed before it is reckoned
    this.tokens.textContent = say.tokens(context);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.reckon(this.pair, context), 60);
  }
}
