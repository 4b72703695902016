// Models of the hub: searched for by words, or a repository that is named, with its files.

import { h } from "../../shared/dom.js";
import { say } from "./words.js";

const REPOSITORY = /:\/\/|^\s*[\w.-]+\/[\w.-]+\s*$/;

export class Hub {
  // `page` has ask(name, data), open(data), download(data) and transfers.
  constructor(page) {
    this.page = page;
    const input = h("input", { type: "text", placeholder: say.repositoryHint, spellcheck: "false", autocapitalize: "off", name: "repository" });
    const button = h("button", { class: "ft-button primary", type: "submit" }, say.searchHub);
    this.found = h("div", { class: "looked-up", "aria-live": "polite" });
    const submit = async (event) => {
      event.preventDefault();
      button.disabled = true;
      const named = REPOSITORY.test(input.value);
      await (named ? this.lookUp(input.value, this.found) : this.search(input.value));
      button.disabled = false;
    };
    this.node = h("form", { class: "hub", on: { submit } },
      h("h2", {}, say.hub), h("label", {}, h("span", {}, say.repository), input), button, this.found, h("p", { class: "hint" }, say.hubInfo));
  }

  async search(words) {
    this.found.replaceChildren(h("p", { class: "hint" }, say.lookingUp));
    const answer = await this.page.ask("search", { words });
    if (!answer) return this.found.replaceChildren();
    if (answer.error) return this.found.replaceChildren(h("p", { class: "ft-error" }, answer.error));
    const hits = answer.hits.map((hit) => this.hit(hit));
    this.found.replaceChildren(hits.length ? h("ul", { class: "found-there" }, ...hits) : h("p", { class: "hint" }, say.noHits));
  }

  // Makes the line of a repository, whose files are asked for when they are wanted.
  hit(hit) {
    const [owner, name] = hit.name.split("/");
    const files = h("div", { class: "looked-up" });
    const look = () => (files.childElementCount ? files.replaceChildren() : this.lookUp(hit.name, files));
    return h("li", { dataset: { repository: hit.name } },
      h("span", {}, h("span", { class: "owner" }, `${owner}/`), h("b", {}, name), " ", h("span", { class: "tags" },
        h("span", { class: "tag", title: say.downloadsHint }, say.downloadsOf(hit.downloads)), h("span", { class: "tag" }, say.likes(hit.likes)),
        hit.gated ? h("span", { class: "tag warn", title: say.gatedHint }, say.gated) : null)),
      h("button", { class: "ft-button small", type: "button", "aria-label": say.filesOf(hit.name), on: { click: look } }, say.showFiles), files);
  }

  // Shows in `place` what can be downloaded from a repository.
  async lookUp(repository, place) {
    place.replaceChildren(h("p", { class: "hint" }, say.lookingUp));
    const found = await this.page.ask("look_up", { repository });
    place.replaceChildren(...(found ? this.result(found, () => this.lookUp(repository, place)) : []));
  }

  result(found, again) {
    if (found.error) return [h("p", { class: "ft-error" }, found.error), found.needs_token ? this.token(again) : ""];
    const tags = [found.licence && h("span", { class: "tag" }, found.licence), found.gated && h("span", { class: "tag warn", title: say.gatedHint }, say.gated)];
    return [
      h("p", { class: "tags" }, h("b", {}, say.choices(found.name)), ...tags.filter(Boolean)),
      found.reason ? h("p", { class: "ft-error" }, found.reason) : "",
      h("ul", { class: "found-there" }, ...found.choices.map((each) => this.choice(each)))];
  }

  choice(each) {
    const load = () => this.page.open({ folder: each.path });
    return h("li", { dataset: { key: each.key } },
      h("span", {}, h("b", {}, each.name), " ", h("span", { class: "tag" }, each.type), " ", h("span", { class: "tag" }, each.size), " ",
        h("span", { class: `tag ${each.fits ? "good" : "warn"}`, title: each.fit }, each.fits ? say.fileFits.yes : each.fit)),
      each.path ? h("button", { class: "ft-button small", type: "button", dataset: { open: each.key }, on: { click: load } }, say.load)
        : h("button", { class: "ft-button small", type: "button", on: { click: () => this.page.download({ key: each.key }) } }, say.download(each.size)),
      this.page.transfers.of([each.key]));
  }

  token(again) {
    const input = h("input", { type: "password", placeholder: say.tokenHint, autocomplete: "off", spellcheck: "false", name: "token", "aria-label": say.token });
    const kept = h("p", { class: "hint", role: "status" });
    const keep = async () => {
      const answer = await this.page.ask("keep_token", { token: input.value });
      if (!answer) return;
      kept.textContent = answer.error ?? answer.kept;
      if (!answer.error) again();
    };
    return h("div", { class: "token" }, h("label", {}, h("span", {}, say.token), input), h("button", { class: "ft-button small", type: "button", on: { click: keep } }, say.keepToken), kept);
  }
}
