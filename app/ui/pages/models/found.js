// What lies on this machine already: models of other programs and of the user's folders.

import { h } from "../../shared/dom.js";
import { status } from "../../shared/status.js";
import { say } from "./words.js";

const AGAIN_MS = 700;

export class Found {
  // `page` has ask(name, data), which gives null where there is no answer, open(data), mark() and drafts.
  constructor(page) {
    this.page = page;
    this.count = h("p", { class: "hint", role: "status" });
    this.list = h("div", { class: "found" });
    this.unusable = h("div");
    this.folders = h("ul", { class: "own-folders" });
    const again = h("button", { class: "ft-button small", type: "button", dataset: { action: "again" }, on: { click: () => this.refresh({ again: true }) } }, say.again);
    this.node = h("section", { class: "found-section", "aria-label": say.found },
      h("div", { class: "cards-head" }, h("h2", {}, say.found), this.count, again),
      this.list, this.unusable, h("div", { class: "places" }, h("p", { class: "hint" }, say.places), this.folders, this.form()));
  }

  async refresh(data = {}) {
    clearTimeout(this.timer);
    const found = await this.page.ask("found", data);
    if (!found) return;
    if (found.looking) this.timer = setTimeout(() => this.refresh(), AGAIN_MS);
    const shown = JSON.stringify(found);
    if (shown === this.shown) return;
    this.shown = shown;
    this.count.textContent = found.looking ? say.looking(found.models.length) : say.foundCount(found.models.length);
    this.list.replaceChildren(...found.models.map((model) => this.row(model)));
    if (!found.models.length) this.list.append(h("p", { class: "hint nothing" }, found.looking ? say.lookingNow : say.nothingFound));
    this.showUnusable(found.unusable);
    this.showFolders(found.folders);
    this.page.mark();
    status.refresh(); // the pickers of other pages offer it, too
  }

  row(model) {
    const tags = [model.architecture, model.parameters && say.parameters(model.parameters), model.type, model.size, model.context && say.context(model.context)];
    const slash = model.name.lastIndexOf("/") + 1;
    return h("article", { class: "found-row", dataset: { target: model.id } },
      h("div", { class: "found-text" },
        h("h3", {}, slash ? h("span", { class: "owner" }, model.name.slice(0, slash)) : null, model.name.slice(slash),
          h("span", { class: "loaded-tag" }, say.loadedNow)),
        h("p", { class: "tags" }, h("span", { class: "tag place" }, model.place), ...tags.filter(Boolean).map((text) => h("span", { class: "tag" }, text))),
        model.fit && h("p", { class: `fit ${model.fits}` }, say.fitMarks[model.fits], model.fit),
        h("p", { class: "hint source", title: model.path }, model.path)),
      h("button", { class: "ft-button", type: "button", "aria-label": `${say.load} ${model.name}`, dataset: { open: model.id }, on: { click: () => this.page.open({ target: model.id }) } }, say.load),
      this.page.drafts.list(model.id, model.id, say.drafts));
  }

  showUnusable(models) {
    const lines = models.map((model) => h("li", { class: "no" }, h("b", {}, "✕ ", model.name), ` (${model.place}): `, model.reason));
    const before = this.unusable.querySelector("details")?.open ?? false;
    this.unusable.replaceChildren(models.length
      ? h("details", { class: "why unusable", open: before }, h("summary", {}, say.unusable(models.length)), h("ul", {}, ...lines)) : "");
  }

  showFolders(folders) {
    this.folders.replaceChildren(...folders.map((folder) => h("li", {},
      h("span", { class: "source", title: folder.path }, folder.path), folder.there ? null : h("span", { class: "tag warn" }, say.gone),
      h("button", { class: "ft-link", type: "button", "aria-label": `${say.remove} ${folder.path}`, dataset: { remove: folder.path }, on: { click: () => this.change("remove_folder", folder.path) } }, say.remove))));
  }

  form() {
    const input = h("input", { type: "text", placeholder: say.placeHint, spellcheck: "false", name: "place", "aria-label": say.place });
    this.wrong = h("p", { class: "ft-error", role: "alert", hidden: true });
    const submit = async (event) => {
      event.preventDefault();
      if (await this.change("add_folder", input.value)) input.value = "";
    };
    return h("form", { class: "add-place", on: { submit } },
      input, h("button", { class: "ft-button", type: "submit" }, say.add), this.wrong);
  }

  async change(name, folder) {
    const answer = await this.page.ask(name, { folder });
    this.wrong.textContent = answer?.error ?? "";
    this.wrong.hidden = !answer?.error;
    this.refresh();
    return answer && !answer.error;
  }
}
