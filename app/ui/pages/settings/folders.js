// What the app keeps on the disk, where, and how much.

import { pageLink } from "../../shared/addresses.js";
import { copy, h } from "../../shared/dom.js";
import { words } from "../../shared/words.js";
import { say } from "./words.js";

export class Folders {
  constructor(page) {
    this.page = page;
    this.list = h("ul", { class: "places" }, h("li", { class: "hint" }, say.measuring));
    this.node = h("section", { class: "panel", dataset: { part: "folders" } }, h("h2", {}, say.folders), this.list);
  }

  async refresh() {
    const view = await this.page.ask("folders");
    if (view) this.list.replaceChildren(...view.folders.map((folder) => this.row(folder, view)));
  }

  row({ name, path, size, there }, { free, moved }) {
    const title = say.names[name];
    const copying = h("button", { class: "ft-button small", type: "button", dataset: { act: "copy-path" }, "aria-label": say.copyNamed(title), on: { click: () => copy(path, copying, words.copied) } }, words.copy);
    const opening = h("button", { class: "ft-button small", type: "button", disabled: !there, "aria-label": say.openNamed(title), on: { click: () => this.page.ask("open_folder", { name }) } }, say.open);
    const more = name === "models" ? pageLink("models", say.toModels) : null;
    return h("li", { dataset: { place: name } },
      h("div", { class: "place-head" }, h("b", {}, title), h("span", { class: "place-size" }, there ? size : say.absent), more),
      h("div", { class: "place-path" }, path),
      h("p", { class: "hint" }, moved[name] ? say.moved(moved[name]) : say.hints[name], name === "models" ? ` ${say.free(free)}` : ""),
      h("div", { class: "place-acts" }, copying, opening));
  }
}
