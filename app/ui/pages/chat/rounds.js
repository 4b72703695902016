// The rounds view: one lane per round, each drafted token a chip whose shape tells its fate.

import { Follow, fixed, h, percent, probability, showToken } from "../../shared/dom.js";
import { words } from "../../shared/words.js";

const fates = { a: "accepted", r: "rejected", u: "unseen", x: "accepted cut" };
const tellings = { a: words.accepted, r: words.rejected, u: words.unseen, x: words.cut };

function chip(kind, telling, text, p, q) {
  const node = h("span", { class: `chip ${kind}`, tabindex: "-1", role: "listitem" }, h("span", {}, ...showToken(text)));
  node.probe = { telling, text, p, q };
  node.setAttribute("aria-label", `${JSON.stringify(text)} ${telling}, p ${probability(p)}, q ${probability(q)}`);
  return node;
}

// A tree's chips stand in columns, one for each place in the text; the accepted one is on top of its column.
function columns(round, drawn, last) {
  const depths = [];
  for (const parent of round.b) depths.push(parent < 0 ? 0 : depths[parent] + 1);
  const places = Array.from({ length: Math.max(...depths) + 1 }, () => []);
  round.d.forEach(([text, fate], node) => {
    const before = round.b[node];
    if (before >= 0) drawn[node].probe.behind = round.d[before][0];
    if (fate === "a" || fate === "x") places[depths[node]].unshift(drawn[node]);
    else places[depths[node]].push(drawn[node]);
  });
  const kept = round.d.filter(([, fate]) => fate === "a" || fate === "x").length;
  if (kept < places.length) places[kept].unshift(last);
  else places.push([last]);
  return places.map((place) => h("span", { class: "place" }, ...place));
}

// `drafter` is told where it is another one than in the lane before.
function lane(round, drafter) {
  const drawn = round.d.map(([text, fate, p, q]) => chip(fates[fate], tellings[fate], text, p, q));
  const [text, origin, p, emitted] = round.n;
  const kind = origin === "c" ? "correction" : "bonus";
  const last = chip(emitted ? kind : `${kind} cut`, words[kind], text, p, undefined);
  const chips = h("span", { class: round.b ? "chips tree" : "chips", role: "list" }, ...(round.b ? columns(round, drawn, last) : [...drawn, last]));
  return h("li", { class: "lane", dataset: { round: round.i } }, h("span", { class: "index", "aria-hidden": true }, String(round.i + 1)), chips, ...(drafter ? [h("span", { class: "drafter", title: words.drafter }, drafter)] : []), ...(round.w ? [h("span", { class: "decision" }, round.w[0])] : []));
}

// The probabilities of the chip under the pointer or the focus.
class Probe {
  constructor(root) {
    this.node = h("div", { class: "probe", role: "tooltip", hidden: true });
    (root.closest(".gradio-container") ?? document.body).append(this.node);
    const show = (event) => this.show(event.target.closest?.(".chip"));
    root.addEventListener("mouseover", show);
    root.addEventListener("focusin", show);
    root.addEventListener("mouseleave", () => this.hide());
    root.addEventListener("focusout", () => this.hide());
    // A chip that is still under the pointer or the focus keeps its probe, moved along.
    root.addEventListener("scroll", () => {
      const kept = this.target?.matches(":hover, :focus");
      this.show(kept ? this.target : null);
    }, { passive: true });
  }

  hide() {
    this.target = null;
    this.node.hidden = true;
  }

  show(target) {
    if (!target?.probe) return this.hide();
    this.target = target;
    const { telling, text, p, q, behind } = target.probe;
    const bar = (name, label, value, missing) => {
      const known = value !== null && value !== undefined;
      const fill = h("i", { class: `fill ${name}` });
      fill.style.width = `${known ? Math.max(1, 100 * value) : 0}%`;
      return h("div", { class: "bar" }, h("b", {}, name), h("span", { class: "track" }, fill), h("span", { class: "value" }, known ? probability(value) : missing), h("span", { class: "who" }, label));
    };
    this.node.replaceChildren(
      h("div", { class: "probe-head" }, h("code", {}, JSON.stringify(text)), " ", h("span", {}, telling), ...(behind === undefined ? [] : [" ", h("span", {}, words.behind), " ", h("code", {}, JSON.stringify(behind))])),
      bar("p", words.target, p, words.noP),
      ...(q === undefined ? [] : [bar("q", words.draft, q, words.noQ)]),
    );
    this.node.hidden = false;
    const at = target.getBoundingClientRect();
    const own = this.node.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left), window.innerWidth - own.width - 8);
    const above = at.top - own.height - 8;
    this.node.style.left = `${left}px`;
    this.node.style.top = `${above > 8 ? above : at.bottom + 8}px`;
  }
}

export class RoundsView {
  constructor(root) {
    this.title = h("h2", {}, words.rounds);
    this.totals = h("dl", { class: "totals", "aria-label": "Totals" });
    this.legend = h("ul", { class: "legend", "aria-label": "Legend" },
      ...Object.entries(words.legend).map(([kind, name]) => h("li", {}, h("span", { class: `chip ${kind}`, "aria-hidden": true }, "ab"), name)));
    this.list = h("ol", {});
    this.lanes = h("div", { class: "lanes", tabindex: "0", role: "region", "aria-label": words.rounds }, this.list);
    this.empty = h("p", { class: "lanes-empty" }, words.roundsEmpty);
    const pill = h("button", { class: "newest", type: "button", hidden: true }, words.newest);
    root.append(h("header", {}, this.title, this.totals), this.legend, h("div", { class: "lanes-frame" }, this.empty, this.lanes, pill));
    this.follow = new Follow(this.lanes, pill);
    this.lanes.addEventListener("keydown", (event) => this.walk(event));
    new Probe(this.lanes);
    this.clear();
  }

  clear(title = words.rounds, empty = words.roundsEmpty) {
    this.waiting = [];
    this.drafter = null;
    this.title.textContent = title;
    this.empty.textContent = empty;
    this.empty.hidden = false;
    this.list.replaceChildren();
    this.total(null);
    this.follow.toEnd();
  }

  // Draws with the next frame, however many packets came before it.
  add(rounds) {
    if (!rounds.length) return;
    this.waiting.push(...rounds);
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = null;
    if (!this.waiting.length) return;
    this.empty.hidden = true;
    for (const round of this.waiting) {
      const changed = round.o && this.drafter && round.o !== this.drafter;
      this.drafter = round.o ?? this.drafter;
      this.list.append(lane(round, changed ? round.o : null));
    }
    this.waiting = [];
    this.follow.grown();
  }

  total(stats) {
    if (!stats) return this.totals.replaceChildren();
    const cells = Object.entries(words.totals(stats)).map(([key, value]) => h("div", { dataset: { total: key } }, h("dt", {}, words.totalLabels[key]), h("dd", {}, String(value))));
    cells.push(
      h("div", { dataset: { total: "rate" } }, h("dt", {}, words.stats.rate), h("dd", {}, percent(stats.acceptance_rate))),
      h("div", { dataset: { total: "length" } }, h("dt", {}, words.stats.length), h("dd", {}, fixed(stats.mean_acceptance_length))),
    );
    this.totals.replaceChildren(...cells);
  }

  // Arrow keys walk over the chips; the lanes are one stop for Tab.
  walk(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1 };
    const rows = { ArrowDown: 1, ArrowUp: -1 };
    const current = document.activeElement.closest?.(".chip");
    let goal = null;
    if (event.key in steps) {
      const chips = [...this.lanes.querySelectorAll(".chip")];
      goal = current ? chips[chips.indexOf(current) + steps[event.key]] : chips[0];
    } else if (event.key in rows && current) {
      const next = rows[event.key] > 0 ? current.closest(".lane").nextElementSibling : current.closest(".lane").previousElementSibling;
      const column = [...current.closest(".chips").querySelectorAll(".chip")].indexOf(current);
      const chips = next?.querySelectorAll(".chip") ?? [];
      goal = chips[Math.min(column, chips.length - 1)];
    } else if (event.key === "Escape" && current) {
      goal = this.lanes;
    }
    if (!goal) return;
    event.preventDefault();
    event.stopPropagation();
    goal.focus();
  }
}
