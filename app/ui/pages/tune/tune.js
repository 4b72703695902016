// The tune page: the form, the progress, a map of speedups, and a button that stores the fastest setting.

import { h, saveFile } from "../../shared/dom.js";
import { choice, followOffers, MeasuringPage } from "../../shared/figures/measuring.js";
import { register } from "../../shared/frame/pages.js";
import { answered } from "../../shared/frame/server.js";
import { status } from "../../shared/frame/status.js";
import { heatmap } from "./heatmap.js";
import { say } from "./words.js";

class TunePage extends MeasuringPage {
  constructor({ element, server }) {
    super(server, "tune", say);
    this.form.addEventListener("change", () => this.forecast());
    this.use = h("button", { class: "ft-button", type: "button", dataset: { act: "use" }, on: { click: () => this.keep() } });
    this.forget = h("button", { class: "ft-link", type: "button", dataset: { act: "forget" }, on: { click: () => this.withdraw() } }, say.forget);
    this.standing = h("p", { class: "hint", role: "status" }); // the stored default
    this.export = h("button", { class: "ft-button", type: "button", dataset: { act: "export" }, on: { click: () => this.save() } }, say.export);
    this.kept = h("p", { class: "tune-kept" }); // which `standing` says aloud
    this.notes = h("div", { class: "tune-notes" });
    this.verdict = h("p", { class: "tune-verdict" });
    this.certainty = h("p", { class: "hint" });
    this.map = h("div", { class: "scrolls", tabindex: "0", role: "group", "aria-label": say.map });
    this.buttons = h("div", { class: "buttons" }, this.use, this.export, h("span", { class: "hint" }, say.useHint));
    this.result = h("section", { class: "panel tune-result", hidden: true }, this.verdict, this.certainty, this.buttons, this.kept, h("h2", {}, say.map), h("p", { class: "hint" }, say.mapHint, " ", h("span", { class: "outlined" }, say.outlined)), this.map, this.notes);
    element.querySelector(".ft-tune").append(h("div", { class: "measuring" },
      h("p", { class: "ft-intro" }, say.intro), this.form, this.alert, this.underWay, this.result));
    followOffers(this, server);
  }

  // ---- the form

  draw(offer) {
    if (!offer.loaded) return void this.form.replaceChildren(h("p", { class: "hint" }, say.none));
    const { asked } = offer; // what runs, if this page was reloaded since it was started
    const own = offer.sets.find((each) => each.id === "chats").count > 0;
    const sets = offer.sets.map(({ id, count }) => {
      const [title, hint] = say.sets[id](count);
      return choice("checkbox", "source", id, title, hint, { checked: asked ? asked.sources.includes(id) : id === "chats" ? own : !own, disabled: !count });
    });
    const number = (depth) => h("label", { class: "number" }, h("input", { type: "checkbox", name: "depth", value: String(depth), checked: (asked?.depths ?? offer.chosen).includes(depth) }), String(depth));
    this.form.replaceChildren(
      this.standing,
      h("div", { class: "buttons" }, h("button", { class: "ft-button primary", type: "submit", dataset: { act: "start" } }, say.start(null)), h("span", { class: "hint" }, say.startHint)),
      h("details", { open: this.opened, on: { toggle: (event) => (this.opened = event.target.open) } }, h("summary", {}, say.choose), h("div", { class: "tune-choices" },
      h("fieldset", {}, h("legend", {}, say.on), h("div", { class: "choices" }, ...sets)),
      h("fieldset", {}, h("legend", {}, say.methods), h("div", { class: "choices" }, ...offer.methods.map((each) => choice("checkbox", "method", each.name, each.name, each.about, { checked: asked ? asked.methods.includes(each.name) : true })))),
      h("fieldset", {}, h("legend", {}, say.depths), h("div", { class: "numbers" }, ...offer.depths.map(number)), h("p", { class: "hint" }, say.depthsHint)),
      h("fieldset", {}, h("legend", {}, say.effort), h("div", { class: "choices" },
        ...Object.entries(say.efforts).map(([id, [title, hint]]) => choice("radio", "effort", id, title, hint, { checked: id === (asked?.effort ?? "quick") })))))));
    this.tellDefault(offer.kept);
    this.rested();
    this.forecast();
  }

  // Shows how long the sweep would take, by the speed of earlier replies.
  async forecast() {
    const asked = this.asked();
    const button = this.form.querySelector("[data-act=start]");
    const found = await answered(this.server.forecast(asked)).catch(() => ({ seconds: null })); // errors are shown at the start
    button.textContent = say.start(found.seconds);
  }

  // Shows the pair's measured default, and a button that deletes it.
  tellDefault(kept, without = "") {
    this.standing.replaceChildren(...(kept ? [say.kept(kept), " ", this.forget] : [without]));
    this.standing.hidden = !kept && !without;
    this.kept.textContent = "";
  }

  changed(kept, without) {
    this.tellDefault(kept, without);
    status.refresh(); // the chat tells it, too
  }

  asked() {
    const given = new FormData(this.form);
    return { sources: given.getAll("source"), methods: given.getAll("method"), depths: given.getAll("depth").map(Number), effort: given.get("effort") };
  }

  // ---- a sweep

  begin() {
    this.certainty.textContent = this.kept.textContent = "";
    this.recommend(false);
    super.begin();
    this.now.textContent = say.begins;
  }

  // Outlines the fastest and makes its button stand out, if it is `better` than the present default.
  recommend(better) {
    this.result.classList.toggle("better", better);
    this.use.classList.toggle("primary", better);
  }

  rested() {
    super.rested();
    this.buttons.hidden = Boolean(this.running);
  }

  advance(events) {
    for (const event of events) this.take(event);
  }

  take(event) {
    if (event.t === "progress") {
      this.now.textContent = say.progress(event);
      this.bar.value = event.done / event.total;
    } else if (event.t === "result") {
      this.show(event);
    } else if (event.t === "confirmed") {
      this.verdict.textContent = event.verdict;
      this.certainty.textContent = event.certainty;
      if (event.favours > 0) this.use.textContent = say.use(this.won, event.median);
      this.recommend(event.better);
    } else if (event.t === "rest") {
      this.running = false;
      if (event.stopped && !this.result.hidden) this.notes.append(h("p", { class: "hint" }, say.stopped));
      else if (event.stopped) this.fail(say.stoppedEarly);
      this.rested();
    } else if (event.t === "broken") {
      this.running = false;
      this.fail(event.message);
      this.rested();
    }
  }

  show({ rows, kinds, winners, divergences, left_out: leftOut }) {
    if (!rows.length) return;
    this.result.hidden = false;
    this.map.replaceChildren(heatmap(rows, kinds, say));
    this.won = winners.all;
    this.use.textContent = say.use(this.won, null);
    this.notes.replaceChildren(
      ...(divergences ? [h("p", { class: "ft-error" }, say.divergences(divergences))] : []),
      ...(leftOut ? [h("p", { class: "hint" }, say.leftOut(leftOut))] : []));
  }

  async keep() {
    const answer = await this.ask("use");
    if (!answer) return;
    this.changed(answer.kept);
    this.kept.textContent = say.used(answer.kept);
  }

  async withdraw() {
    const answer = await this.ask("forget");
    if (answer) this.changed(answer.kept, say.forgotten);
  }

  async save() {
    const value = await this.ask("export");
    if (value) saveFile("foretoken-tune.json", `${JSON.stringify(value, null, 1)}\n`, "application/json");
  }

  async ask(name) {
    this.fail("");
    return super.ask(name);
  }
}

register("tune", TunePage);
