// Adding models: folders to search, a path that is typed, browsed for or dropped, or the hub's (hub.js).

import { h } from "../../shared/dom.js";
import { Hub } from "./hub.js";
import { say } from "./words.js";

export class Add {
  // `page` has ask(name, data), open(data), download(data) and transfers.
  constructor(page) {
    this.page = page;
    this.node = h("div", { class: "add" }, this.path(), new Hub(page).node);
  }

  path() {
    const field = (label, hint, name) => {
      const input = h("input", { type: "text", placeholder: hint, spellcheck: "false", name });
      const browse = h("button", { class: "ft-button small", type: "button", "aria-label": say.browseFor(label), on: { click: () => this.browse(input, input.value) } }, say.browse);
      return [h("div", { class: "path-field" }, h("label", {}, h("span", {}, label), input), browse), input];
    };
    const [targetLabel, target] = field(say.target, say.targetHint, "folder");
    const [draftLabel, draft] = field(say.draft, say.draftHint, "draft");
    this.panel = h("div", { class: "browser", hidden: true });
    this.wrong = h("p", { class: "ft-error", role: "alert", hidden: true });
    const form = h("form", { class: "folder", on: { submit: (event) => (event.preventDefault(), this.page.open({ folder: target.value, draft: draft.value }, (text) => this.fail(text))) } },
      h("h2", {}, say.openPath), targetLabel, draftLabel, this.wrong, this.panel,
      h("div", { class: "form-foot" }, h("p", { class: "hint" }, say.openInfo), h("button", { class: "ft-button primary", type: "submit", dataset: { open: "folder" } }, say.open)));
    form.addEventListener("dragover", (event) => (event.preventDefault(), form.classList.add("over")));
    form.addEventListener("dragleave", () => form.classList.remove("over"));
    form.addEventListener("drop", (event) => {
      event.preventDefault();
      form.classList.remove("over");
      this.dropped(event.dataTransfer, event.target.name === "draft" ? draft : target);
    });
    return form;
  }

  // Some file managers send the path; otherwise Python looks for the file by its name and size.
  async dropped(transfer, input) {
    const told = (transfer.getData("text/uri-list") || transfer.getData("text/plain")).split(/\r?\n/)[0];
    if (told.startsWith("file://")) return void (input.value = decodeURIComponent(told.replace(/^file:\/\/[^/]*/, "")));
    const file = transfer.files[0];
    if (!file) return void (input.value = told);
    const answer = await this.page.ask("dropped", { name: file.name, size: file.size });
    this.fail(answer?.error);
    if (answer?.path) input.value = answer.path;
  }

  fail(text) {
    this.wrong.textContent = text ?? "";
    this.wrong.hidden = !text;
  }

  async browse(input, folder) {
    const found = (folder && (await this.listing(folder, true))) || (await this.listing(""));
    if (!found) return;
    this.fail(null);
    const go = (path) => this.browse(input, path);
    const close = () => ((this.panel.hidden = true), input.focus());
    const entry = (each) => h("li", {}, h("button", { class: `entry ${each.kind}`, type: "button", on: { click: () => (each.kind === "model" ? ((input.value = each.path), close()) : go(each.path)) } },
      h("span", { "aria-hidden": "true" }, each.kind === "model" ? "◆ " : "▸ "), each.name, each.size ? h("span", { class: "hint" }, ` ${each.size}`) : null));
    this.panel.replaceChildren(
      h("div", { class: "browser-head" },
        h("button", { class: "ft-button small", type: "button", disabled: !found.parent, on: { click: () => go(found.parent) } }, `↑ ${say.up}`),
        h("span", { class: "source", "aria-label": say.folderNow }, found.path),
        h("button", { class: "ft-link", type: "button", "aria-label": say.close, on: { click: close } }, "✕")),
      h("ul", {}, ...found.entries.map(entry)),
      found.entries.length ? "" : h("p", { class: "hint" }, say.emptyFolder),
      found.more ? h("p", { class: "hint" }, say.moreEntries(found.more)) : "");
    this.panel.onkeydown = (event) => event.key === "Escape" && close();
    const opened = this.panel.hidden;
    this.panel.hidden = false;
    if (opened) this.panel.querySelector("button:not(:disabled)").focus();
    else this.panel.querySelector("ul button, .browser-head button:not(:disabled)")?.focus();
  }

  // Lists a folder. Returns null if it cannot be read, and shows why unless `tried`.
  async listing(folder, tried = false) {
    const answer = await this.page.ask("browse", { folder });
    if (!answer || !answer.error) return answer;
    if (!tried) this.fail(answer.error);
    return null;
  }
}

// The user's own model folders, and a field to add one.
export class Places {
  // `page` has ask(name, data) and refresh(data).
  constructor(page) {
    this.page = page;
    this.button = h("button", { class: "ft-button small", type: "button", "aria-expanded": "false", "aria-controls": "places", on: { click: () => this.turn(this.node.hidden) } }, say.add);
    this.input = h("input", { type: "text", placeholder: say.placeHint, spellcheck: "false", name: "place", "aria-label": say.place });
    this.folders = h("ul", { class: "own-folders" });
    this.error = h("p", { class: "ft-error", role: "alert", hidden: true });
    this.told = h("div", { class: "hint", role: "status" });
    this.why = ""; // what is told, so that the same is not announced again
    const submit = async (event) => {
      event.preventDefault();
      const folder = this.input.value;
      if (!(await this.change("add_folder", { folder }))) return;
      this.input.value = "";
    };
    this.node = h("div", { class: "places", id: "places", hidden: true },
      h("form", { class: "add-place", on: { submit } }, this.input, h("button", { class: "ft-button", type: "submit" }, say.addIt)),
      this.error, this.told, this.folders, h("p", { class: "hint" }, say.places));
  }

  turn(open) {
    this.node.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (open) this.input.focus();
  }

  show({ folders, looking }) {
    const added = folders.find(({ path }) => this.known && !this.known.includes(path));
    if (added) this.added = added.path;
    this.known = folders.map(({ path }) => path);
    const newest = folders.find(({ path }) => path === this.added);
    this.tell(newest, looking);
    this.folders.replaceChildren(...folders.map(({ path, there, models, unusable }) => h("li", {},
      h("span", { class: "source", title: path }, path), h("span", { class: there ? "tag" : "tag warn" }, there ? say.modelsIn(models) : say.gone),
      unusable.length ? h("span", { class: "tag warn" }, say.cannotRun(unusable.length)) : "",
      h("button", { class: "ft-link", type: "button", "aria-label": `${say.take} ${path}`, dataset: { remove: path }, on: { click: () => this.change("remove_folder", { folder: path }) } }, say.take))));
  }

  // Says what was found in the folder that was added last, and why some of it cannot be run.
  tell(newest, looking) {
    const bad = newest && !looking ? newest.unusable : [];
    const text = newest ? (looking ? say.adding : say.foundIn(newest.models, newest.path)) : "";
    const why = JSON.stringify([text, bad]);
    if (why === this.why) return;
    this.why = why;
    this.told.replaceChildren(bad.length ? `${text} ${say.cannotRun(bad.length)}:` : text, h("ul", {}, ...bad.map(({ name, reason }) => h("li", {}, h("b", {}, "✕ ", name), ": ", reason))));
  }

  async change(name, data) {
    const answer = await this.page.ask(name, data);
    this.error.textContent = answer?.error ?? "";
    this.error.hidden = !answer?.error;
    this.page.refresh();
    return answer && !answer.error;
  }
}
