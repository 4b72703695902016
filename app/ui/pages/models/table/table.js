// The table of all models, with filters and sorting; under a row its downloads and, once opened, its card.

import { pageLink } from "../../../shared/addresses.js";
import { h, times } from "../../../shared/dom.js";
import { Places } from "../add.js";
import { Details } from "./details.js";
import { say } from "../words.js";

const FIT_ORDER = { yes: 0, part: 1, no: 2 };
const NONE = { text: "", where: "", size: "", licence: "", fits: false, draft: false };

// The sort keys; null sorts last in either direction.
const KEYS = {
  name: (row) => row.name.toLowerCase(),
  parameters: (row) => row.parameters || null,
  bytes: (row) => row.bytes || null,
  fits: (row) => FIT_ORDER[row.fits] ?? null,
  draft: (row) => row.draft.name.toLowerCase() || null,
  licence: (row) => row.licence || null,
};

export class Table {
  // `page` has ask(name, data), open(data), download(data), mark() and transfers.
  constructor(page) {
    this.page = page;
    this.rows = [];
    this.filter = { ...NONE };
    this.order = null; // [column, 1 or -1]; without one as the rows come: what is here first
    this.open = new Set(); // ids of rows whose card is open
    this.cards = new Map(); // id -> Details
    this.moving = new Map(); // id -> the element with its downloads, reused so that typed text stays
    this.count = h("p", { class: "hint", role: "status" });
    this.head = h("tr");
    this.body = h("tbody");
    this.problems = h("div");
    this.places = new Places(page);
    const again = h("button", { class: "ft-button small", type: "button", dataset: { action: "again" }, on: { click: () => page.refresh({ again: true }) } }, say.again);
    this.node = h("section", { class: "models-section", "aria-label": say.models },
      h("div", { class: "cards-head" }, h("h2", {}, say.models), this.count, again, this.places.button), this.places.node, this.filters(), this.problems,
      h("div", { class: "table-box" }, h("table", { class: "models-table" }, h("thead", {}, this.head), this.body)));
  }

  filters() {
    const changed = () => this.draw();
    this.text = h("input", { type: "search", placeholder: say.searchHint, "aria-label": say.search, name: "search", on: { input: (e) => ((this.filter.text = e.target.value.trim().toLowerCase()), changed()) } });
    const pick = (name, label, options) => h("select", { name, "aria-label": label, on: { change: (e) => ((this.filter[name] = e.target.value), changed()) } },
      ...Object.entries(options).map(([value, text]) => h("option", { value }, text)));
    // Objects list number keys first, so move the option for "all" to the front.
    const first = (select) => (select.prepend(select.querySelector("option[value='']")), (select.value = ""), select);
    this.where = pick("where", say.where, say.wheres);
    this.size = first(pick("size", say.size, say.sizes));
    this.licence = pick("licence", say.licence, { "": say.anyLicence });
    const check = (name, label, on = () => {}) => h("label", { class: "check" }, h("input", { type: "checkbox", name, on: { change: (e) => ((this.filter[name] = e.target.checked), on(e.target.checked), changed()) } }), label);
    this.checks = [check("fits", say.fitsOnly), check("draft", say.draftOnly)];
    this.reset = h("button", { class: "ft-link", type: "button", hidden: true, on: { click: () => this.clear() } }, say.clear);
    return h("div", { class: "filters", role: "search" }, this.text, this.where, this.size, this.licence, ...this.checks, this.reset);
  }

  clear() {
    this.filter = { ...NONE };
    for (const select of [this.where, this.size, this.licence]) select.value = "";
    for (const label of this.checks) label.firstElementChild.checked = false;
    this.text.value = "";
    this.text.focus();
    this.draw();
  }

  show(table) {
    this.looking = table.looking;
    this.places.show(table);
    const shown = JSON.stringify([table.rows, table.problems, table.looking]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.rows = table.rows;
    this.problems.replaceChildren(...table.problems.map((problem) => h("p", { class: "ft-error" }, problem)));
    const licences = [...new Set(this.rows.map((row) => row.licence).filter(Boolean))].sort();
    this.licence.replaceChildren(h("option", { value: "" }, say.anyLicence), ...licences.map((name) => h("option", { value: name }, name)));
    this.licence.value = licences.includes(this.filter.licence) ? this.filter.licence : (this.filter.licence = "");
    this.draw();
  }

  wanted(row) {
    const { text, where, size, licence, fits, draft } = this.filter;
    const words = [row.name, row.file, row.id, row.source, row.path ?? "", ...row.pairs].join(" ").toLowerCase();
    return text.split(/\s+/).every((part) => words.includes(part))
      && (!where || row.here === (where === "here"))
      && (!size || (row.bytes > 0 && row.bytes <= Number(size) * 1e9))
      && (!licence || row.licence === licence)
      && (!fits || row.fits === "yes" || row.fits === "part")
      && (!draft || row.draft.name);
  }

  sorted(rows) {
    if (!this.order) return rows;
    const [column, sign] = this.order;
    const key = KEYS[column];
    return [...rows].sort((one, other) => {
      const [a, b] = [key(one), key(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return (a < b ? -1 : a > b ? 1 : 0) * sign;
    });
  }

  draw() {
    const rows = this.sorted(this.rows.filter((row) => this.wanted(row)));
    this.count.textContent = [say.counted(rows.length, this.rows.length), this.looking && say.looking].filter(Boolean).join(", ");
    this.reset.hidden = JSON.stringify(this.filter) === JSON.stringify(NONE);
    const active = document.activeElement;
    const focused = active?.dataset?.focus;
    this.drawHead();
    this.body.replaceChildren(...rows.flatMap((row) => this.pair(row)),
      rows.length ? "" : h("tr", {}, h("td", { class: "nothing", colspan: "7" }, say.nothing)));
    if (focused) this.node.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
    else if (this.body.contains(active)) active.focus({ preventScroll: true }); // cards moved into the new rows
    this.page.mark();
  }

  drawHead() {
    const [column, sign] = this.order ?? [];
    this.head.replaceChildren(...Object.entries(say.columns).map(([name, label]) => {
      if (!KEYS[name]) return h("th", { scope: "col", class: name }, h("span", { class: "sr-only" }, label));
      const sort = name === column ? (sign > 0 ? "ascending" : "descending") : "none";
      const press = () => ((this.order = name !== column ? [name, 1] : sign > 0 ? [name, -1] : null), this.draw());
      return h("th", { scope: "col", class: name, "aria-sort": sort },
        h("button", { class: "sort", type: "button", dataset: { focus: `sort ${name}` }, on: { click: press } }, label, h("span", { "aria-hidden": "true" }, { ascending: " ↑", descending: " ↓", none: "" }[sort])));
    }));
  }

  // Draws a model's row and the one under it, for its downloads and card.
  pair(row) {
    const opened = this.open.has(row.id);
    const under = h("tr", { class: "under", dataset: { target: row.id } }, h("td", { colspan: "7" }, this.transfersOf(row), opened ? this.card(row).node : null));
    const cell = (name, ...children) => h("td", { class: name, dataset: { label: say.columns[name] } }, ...children);
    const faster = row.speed === null ? null : h("span", { class: "tag good", title: row.speed_text }, times(row.speed, 2));
    return [h("tr", { class: "model-row", dataset: { target: row.id } },
      h("th", { scope: "row", class: "name" }, this.nameOf(row, opened)),
      cell("parameters", row.parameters_text || "–"), cell("bytes", row.size || "–"),
      cell("fits", h("span", { class: `fit ${row.fits ?? ""}`, title: row.fit }, say.fits[row.fits]?.(row.held, row.largest) ?? "–")),
      cell("draft", h("span", { title: say.draftHint }, row.draft.known ? row.draft.name || say.noDraft : say.comparingOne), faster && " ", faster),
      cell("licence", row.licence || "–", row.gated ? h("span", { class: "tag warn", title: say.gatedHint }, say.gated) : null),
      cell("action", ...[this.action(row)].flat())), under];
  }

  transfersOf(row) {
    const { transfers } = this.page;
    const place = this.moving.get(row.id);
    const keys = row.files.length ? row.files : row.downloads;
    if (place?.keys.join() === keys.join()) return transfers.watch(place);
    this.moving.set(row.id, transfers.of(keys));
    return this.moving.get(row.id);
  }

  nameOf(row, opened) {
    const slash = row.name.lastIndexOf("/") + 1;
    const tags = [row.place, row.recent && say.recent, row.here && row.type].filter(Boolean);
    const toggle = () => {
      const closed = this.open.delete(row.id);
      if (!closed) this.open.add(row.id);
      if (!closed) this.cards.get(row.id)?.opened();
      this.draw();
    };
    return h("div", { class: "name-box" },
      h("button", { class: "details-of", type: "button", "aria-expanded": String(opened), "aria-label": say.details(row.name), title: row.file, dataset: { focus: `row ${row.id}` }, on: { click: toggle } },
        h("span", { class: "turner", "aria-hidden": "true" }, opened ? "▾" : "▸"),
        h("span", { class: "model-name" }, slash ? h("span", { class: "owner" }, row.name.slice(0, slash)) : null, row.name.slice(slash))),
      h("span", { class: "loaded-tag" }, say.loadedNow), ...tags.map((text) => h("span", { class: "tag place" }, text)));
  }

  action(row) {
    if (row.missing && !row.broken) {
      return h("button", { class: "ft-button small", type: "button", title: say.downloadHint(row.pair_name ?? row.name), dataset: { focus: `act ${row.id}`, download: row.id }, on: { click: () => this.page.download(asked(row)) } }, say.download(row.missing));
    }
    const load = () => this.page.open({ ...(row.pair ? { pair: row.pair } : { target: row.id }), context: this.cards.get(row.id)?.bar.context });
    return [pageLink("chat", say.chatWith, "ft-button small chat-with"), h("button", { class: "ft-button small primary", type: "button", "aria-label": `${say.load} ${row.pair_name ?? row.name}`, dataset: { focus: `act ${row.id}`, open: row.id }, on: { click: load } }, say.load)];
  }

  // Refreshes the open cards when the page becomes visible.
  seen() {
    for (const id of this.open) this.cards.get(id)?.opened();
  }

  card(row) {
    let card = this.cards.get(row.id);
    if (!card) this.cards.set(row.id, (card = new Details(this.page, row.id)));
    card.show(row);
    return card;
  }
}

const asked = (row) => (row.pair ? { pair: row.pair } : { id: row.id });
