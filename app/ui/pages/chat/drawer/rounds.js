// The rounds of a reply: a thin row each, as long as what was accepted; a click shows the tokens. Consecutive rounds
// without a draft share one row. Above them the reply can be replayed.

import { Follow, fixed, h, percent, saveFile } from "../../../shared/dom.js";
import { chips } from "../../../shared/replay/chips.js";
import { Probe } from "../../../shared/replay/probe.js";
import { Replay } from "../../../shared/replay/replay.js";
import { Timeline, acceptedOf, agreedOf } from "../../../shared/replay/timeline.js";
import { say } from "../../../shared/replay/words.js";
import { VirtualList } from "../../../shared/virtual.js";
import { words } from "../../../shared/words.js";

const CLOSED = 20; // px; as in rounds.css
const FILE_TYPES = { html: "text/html", jsonl: "application/jsonl" };
const OPEN = 52; // a guess
// The signs of the legend, by the names of their words.
const signs = { accepted: "cell-kept", rejected: "cell-cap", unseen: "cell-left", correction: "cell-own correction", bonus: "cell-own bonus" };

// Draws a closed row: signs in place of the tokens.
function cells(round) {
  const accepted = agreedOf(round);
  const judged = round.n[1] === "c";
  const left = Math.max(0, round.d.length - accepted - Number(judged));
  const run = (kind, count) => {
    const node = h("i", { class: kind });
    node.style.setProperty("--n", String(count));
    return node;
  };
  return h("span", { class: "cells", "aria-hidden": true },
    accepted ? run("cell-kept", accepted) : null,
    judged ? h("i", { class: "cell-cap" }) : null,
    left && !round.b ? run("cell-left", left) : null,
    h("i", { class: judged ? "cell-own correction" : "cell-own bonus" }));
}

// Returns the rejected token that ended a chain.
const brokeAt = (round) => (round.n[1] === "c" ? round.d.find(([, fate]) => fate === "r")?.[0] ?? null : null);

export class RoundsView {
  // `ask(name, data)` calls an endpoint.
  constructor(root, ask = async () => null) {
    this.ask = ask;
    this.title = h("h2", {}, words.rounds);
    this.totals = h("dl", { class: "totals", "aria-label": words.totalsName });
    this.legend = h("ul", { class: "legend", "aria-label": words.legendName },
      ...Object.entries(signs).map(([kind, sign]) => h("li", {}, h("span", { class: "cells", "aria-hidden": true }, h("i", { class: sign })), words.legend[kind])));
    this.all = h("button", { class: "ft-button small", type: "button", "aria-pressed": "false", title: words.showWordsHint, dataset: { action: "words" }, on: { click: () => this.openAll() } }, words.showWords);
    this.replay = new Replay();
    const save = (form, name, hint) => h("button", { class: "ft-link", type: "button", title: hint, dataset: { save: form }, on: { click: () => this.save(form) } }, name);
    this.drawer = h("details", { class: "replay-drawer", hidden: true },
      h("summary", {}, say.replay), this.replay.node,
      h("div", { class: "replay-save" }, save("html", words.saveHtml, words.saveHtmlHint), save("jsonl", words.saveTrace, words.saveTraceHint)));
    this.lanes = h("div", { class: "lanes", tabindex: "0", role: "region", "aria-label": words.rounds });
    this.list = new VirtualList(this.lanes, { draw: (row) => this.row(row), estimate: (row) => (this.isOpen(row) ? OPEN : CLOSED) });
    this.latest = h("div", { class: "latest", "aria-label": words.latest, role: "group", hidden: true });
    this.empty = h("p", { class: "lanes-empty" }, words.roundsEmpty);
    const pill = h("button", { class: "newest", type: "button", hidden: true }, words.newest);
    root.append(h("header", {}, h("div", { class: "rounds-title" }, this.title, this.all), this.totals), this.legend, this.drawer, h("div", { class: "lanes-frame" }, this.empty, this.lanes, pill), this.latest);
    this.follow = new Follow(this.lanes, pill);
    this.lanes.addEventListener("keydown", (event) => this.walk(event));
    this.lanes.addEventListener("mouseover", (event) => this.lightWords(event.target));
    this.lanes.addEventListener("focusin", (event) => this.lightWords(event.target));
    this.lanes.addEventListener("mouseleave", () => this.reply?.light(0, 0));
    new Probe(this.lanes);
    new Probe(this.latest);
    this.replay.clock.watch(() => this.atReplay());
    this.clear();
  }

  clear(title = words.rounds, empty = words.roundsEmpty) {
    this.waiting = [];
    this.ended = false; // whether the reply ended before all its rounds were drawn
    this.timeline = new Timeline();
    this.rows = []; // {from, to, folded}: the rounds of each row, without `to`
    this.rowOf = []; // the row of each round
    this.opened = new Set(); // rows whose state differs from that of the button for all
    this.drafter = null;
    this.changes = new Set(); // rounds at which the proposer changed
    this.lit = null;
    this.of(null);
    this.title.textContent = title;
    this.empty.textContent = empty;
    this.empty.hidden = false;
    this.legend.hidden = true;
    this.latest.hidden = true;
    this.drawer.hidden = true;
    this.replay.show(this.timeline);
    this.list.resize(0);
    this.lanes.dataset.rounds = "0";
    this.total(null);
    this.follow.toEnd();
  }

  // Sets the message of these rounds: its words and its rounds highlight each other.
  of(message) {
    if (this.reply) {
      this.reply.onToken = null;
      this.reply.light(0, 0);
    }
    this.message = message?.id ?? null;
    this.reply = message?.reply ?? null;
    if (this.reply) this.reply.onToken = (token) => this.light(token === null ? null : this.timeline.ofToken(token), true);
  }

  // Draws all packets that arrive before the next frame at once.
  add(rounds) {
    if (!rounds.length) return;
    this.waiting.push(...rounds);
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = null;
    if (!this.waiting.length) return;
    this.empty.hidden = true;
    this.legend.hidden &&= this.waiting.every((round) => !round.d.length);
    let grown = null; // an earlier row that got more rounds
    const before = this.rows.length;
    for (const round of this.waiting) {
      this.timeline.add([round]);
      if (round.o && this.drafter && round.o !== this.drafter) this.changes.add(this.timeline.length - 1);
      this.drafter = round.o ?? this.drafter;
      const last = this.rows.at(-1);
      const folded = round.d.length === 0;
      if (folded && last?.folded && this.timeline.why(last.from) === this.timeline.why(this.timeline.length - 1)) {
        last.to += 1;
        if (this.rows.length <= before) grown = this.rows.length - 1;
      } else {
        this.rows.push({ from: this.timeline.length - 1, to: this.timeline.length, folded });
      }
      this.rowOf.push(this.rows.length - 1);
    }
    if (!this.drawer.hidden) this.latest.hidden = true;
    else this.showLatest(this.waiting.at(-1));
    this.waiting = [];
    this.lanes.dataset.rounds = String(this.timeline.length);
    this.list.resize(this.rows.length);
    if (grown !== null) this.list.changed(grown);
    this.follow.grown();
    if (this.ended) this.finish();
  }

  showLatest(round) {
    this.latest.hidden = false;
    this.latest.replaceChildren(chips(round));
  }

  // Offers the replay of a reply that is complete.
  finish() {
    this.ended = this.waiting.length > 0; // then `draw` calls this again
    if (this.ended) return;
    this.latest.hidden = true;
    if (!this.timeline.length) this.empty.textContent = words.roundsNone;
    this.drawer.hidden = !this.timeline.length;
    this.replay.show(this.timeline);
  }

  // Shows the totals; called with every packet, so it only updates texts.
  total(stats) {
    if (!stats?.rounds) { // none yet, or a server that reports none
      this.cells = {};
      return this.totals.replaceChildren();
    }
    const shown = { ...words.totals(stats), rate: percent(stats.acceptance_rate), length: fixed(stats.mean_acceptance_length) };
    for (const [key, value] of Object.entries(shown)) {
      if (!this.cells[key]) {
        this.cells[key] = h("dd", {});
        this.totals.append(h("div", { dataset: { total: key } }, h("dt", {}, words.totalLabels[key] ?? words.stats[key]), this.cells[key]));
      }
      if (this.cells[key].textContent !== String(value)) this.cells[key].textContent = String(value);
    }
  }

  async save(form) {
    const file = this.message === null ? null : await this.ask("export_reply", { message: this.message, form });
    if (file) saveFile(file.name, file.text, FILE_TYPES[form]);
  }

  // ---- rows

  isOpen(row) {
    return this.opened.has(row) !== (this.all.getAttribute("aria-pressed") === "true");
  }

  row(index) {
    const { from, to, folded } = this.rows[index];
    const open = this.isOpen(index);
    const rounds = this.timeline.rounds.slice(from, to);
    const [first] = rounds;
    const number = h("span", { class: "index", "aria-hidden": true }, String(first.i + 1));
    const token = folded ? null : brokeAt(first);
    const summary = folded ? say.ofRun(to - from, this.timeline.why(from)) : say.row(first.i + 1, acceptedOf(first), first.d.length, token);
    const told = folded ? h("span", { class: "why" }, summary) : cells(first);
    const drafter = this.changes.has(from) ? h("span", { class: "drafter", title: words.drafter }, first.o) : null;
    const decision = first.w && !folded ? h("span", { class: "decision", title: first.w[0] }, first.w[0]) : null;
    const head = h("button", { class: "row-head", type: "button", tabindex: "-1", "aria-expanded": String(open), "aria-label": decision ? `${summary}. ${first.w[0]}` : summary, on: { click: () => this.toggle(index) } }, number, told, drafter, decision);
    const body = open ? h("div", { class: "row-words" }, ...(folded ? [h("p", {}, this.timeline.rounds.slice(from, to).map((round) => round.s).join(""))] : rounds.map(chips))) : null;
    const lit = this.lit !== null && this.lit >= from && this.lit < to;
    return h("li", { class: `lane${folded ? " folded" : ""}${lit ? " lit" : ""}`, dataset: { round: first.i, rounds: to - from, row: index } }, head, body);
  }

  toggle(index, open = !this.isOpen(index)) {
    if (this.isOpen(index) === open) return;
    if (this.opened.has(index)) this.opened.delete(index);
    else this.opened.add(index);
    const focused = this.list.shown.get(index)?.contains(document.activeElement);
    this.list.changed(index);
    if (focused) this.head(index).focus();
  }

  openAll() {
    const on = this.all.getAttribute("aria-pressed") !== "true";
    this.all.setAttribute("aria-pressed", String(on));
    this.opened.clear();
    this.list.reset();
    this.follow.grown();
  }

  head(index) {
    return this.list.reveal(index).querySelector(".row-head");
  }

  // ---- words and rounds light each other

  // Highlights a round (null: none); `seen` also scrolls it into view.
  light(round, seen = false) {
    const index = round === null || round < 0 ? null : round;
    if (index === this.lit) return;
    this.lit = index;
    const row = index === null ? null : this.rowOf[index];
    if (row !== null && seen) this.list.reveal(row);
    for (const [at, node] of this.list.shown) node.classList.toggle("lit", at === row);
  }

  lightWords(target) {
    const row = this.rows[target.closest?.(".lane")?.dataset.row];
    if (!row || !this.reply) return;
    this.reply.light(this.timeline.tokensOf(row.from)[0], this.timeline.tokensOf(row.to - 1)[1]);
  }

  // Highlights the round at the replay's time.
  atReplay() {
    if (!this.drawer.open || !this.timeline?.length) return;
    const ended = this.timeline.at(this.replay.clock.time);
    this.light(ended - 1, true);
    this.reply?.light(...(ended ? this.timeline.tokensOf(ended - 1) : [0, 0]));
  }

  // Up and down go from row to row, right and left into a row's tokens and out; Tab stops at the rows once.
  walk(event) {
    const current = document.activeElement;
    const lane = current.closest?.(".lane");
    const at = lane ? Number(lane.dataset.row) : null;
    const drawn = lane ? [...lane.querySelectorAll(".chip")] : [];
    const chip = drawn.indexOf(current);
    let goal = null;
    if (!this.rows.length) return;
    if (event.key === "ArrowDown") goal = this.head(at === null ? 0 : Math.min(at + 1, this.rows.length - 1));
    else if (event.key === "ArrowUp" && at !== null) goal = this.head(Math.max(at - 1, 0));
    else if (event.key === "Home") goal = this.head(0);
    else if (event.key === "End") goal = this.head(this.rows.length - 1);
    else if (event.key === "ArrowRight" && at === null) goal = this.head(0);
    else if (event.key === "ArrowRight" && chip < 0) {
      this.toggle(at, true);
      goal = this.list.shown.get(at).querySelector(".chip");
    } else if (event.key === "ArrowRight") goal = drawn[chip + 1];
    else if (event.key === "ArrowLeft" && chip > 0) goal = drawn[chip - 1];
    else if (event.key === "ArrowLeft" && chip === 0) goal = this.head(at);
    else if (event.key === "ArrowLeft" && at !== null) this.toggle(at, false);
    else if (event.key === "Escape" && lane) goal = chip < 0 ? this.lanes : this.head(at);
    else return;
    event.preventDefault();
    event.stopPropagation();
    goal?.focus();
  }
}
