// The files in which the catalog has a model, the chosen one marked, and the drafters published for it.

import { h } from "../../../shared/dom.js";
import { say } from "../words.js";

export class Files {
  // `page` has ask(name, data), open(data), download(data) and transfers; `target` is the model's id.
  constructor(page, target) {
    this.page = page;
    this.target = target;
    this.node = h("section", { class: "model-files", "aria-label": say.files, hidden: true });
  }

  async refresh() {
    const answer = await this.page.ask("files", { target: this.target });
    const shown = JSON.stringify(answer);
    if (!answer || shown === this.shown) return;
    this.shown = shown;
    const { files, drafters, whole } = answer;
    const group = (title, among) => (among.length ? [h("div", {}, h("h3", {}, title), h("ul", {}, ...among.map((one) => this.line(one, whole))))] : []);
    this.node.replaceChildren(...group(say.files, files), ...group(say.publishedDrafters, drafters));
    this.node.hidden = !files.length && !drafters.length;
    this.page.mark();
  }

  line(one, whole) {
    const tags = [
      one.size && h("span", { class: "tag" }, one.size),
      one.fits && h("span", { class: `tag ${one.fits === "yes" ? "good" : "warn"}`, title: one.fit }, say.fileFits[one.fits]),
      one.gated && h("span", { class: "tag warn", title: say.gatedHint }, say.gated),
      one.chosen && h("span", { class: "tag place" }, one.here ? say.loadTakes : say.downloadTakes(whole))];
    const act = one.here
      ? one.head || one.chosen ? h("span", { class: "hint" }, say.here) : h("button", { class: "ft-button small", type: "button", dataset: { open: one.id }, on: { click: () => this.page.open({ target: one.id }) } }, say.load)
      : h("button", { class: "ft-button small", type: "button", "aria-label": say.downloadHint(one.name), on: { click: () => this.page.download({ id: one.id }) } }, say.download(one.size));
    return h("li", {}, h("span", {}, h("b", { title: one.place }, one.name), " ", h("span", { class: "tags" }, ...tags.filter(Boolean))), act);
  }
}
