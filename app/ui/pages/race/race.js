// The race page: the form, the runs as they are measured, the verdict, and both replies.

import { h, percent, showToken, speed } from "../../shared/dom.js";
import { choice, field, followOffers, MeasuringPage, onProposed, select } from "../../shared/figures/measuring.js";
import { register } from "../../shared/frame/pages.js";
import { chart } from "./chart.js";
import { Lane } from "./lane.js";
import { Opponent } from "./opponent.js";
import { replay } from "./replay.js";
import { say } from "./words.js";

const SIDES = ["base", "rival"];
const named = ({ name }) => [name, { "": say.usual, none: say.plain, server: say.server }[name] ?? name];

class RacePage extends MeasuringPage {
  constructor({ element, server }) {
    super(server, "race", say);
    this.notes = h("ul", { class: "race-notes hint", hidden: true, "aria-label": say.notes });
    this.verdict = h("p", { class: "verdict" });
    this.spoken = h("p", { class: "sr-only", role: "status" }); // announced once a race; the verdict changes with each run
    this.certainty = h("p", { class: "hint" });
    this.about = h("p", { class: "hint race-about" }); // the form may have changed since
    this.dots = h("figure", { class: "race-dots" });
    this.more = h("button", { class: "ft-button", type: "button", dataset: { act: "more" }, on: { click: () => this.following.start(this.server.more({}), () => this.begin()) } }, say.five);
    this.table = h("tbody");
    this.all = h("details", {}, h("summary", {}, say.pairs), h("div", { class: "scrolls" }, this.table_()));
    this.said = h("p", { class: "race-words" });
    this.parting = h("section", { class: "parting", hidden: true, "aria-label": say.parting });
    this.replay = h("div", { hidden: true });
    this.result = h("div", { class: "race-result", hidden: true },
      h("section", { class: "panel" }, this.verdict, this.certainty, this.about), this.replay,
      h("section", { class: "panel" }, this.dots, h("div", { class: "buttons" }, this.more), this.all, this.said, this.parting));
    this.lanes = Object.fromEntries(SIDES.map((side) => [side, new Lane(side)]));
    this.replies = h("section", { hidden: true, class: "race-replies" }, h("h2", {}, say.said), h("div", { class: "race-lanes" }, ...SIDES.map((side) => this.lanes[side].node)));
    element.querySelector(".ft-race").append(h("div", { class: "measuring" },
      h("p", { class: "ft-intro" }, say.intro), this.form, this.alert, this.underWay, this.spoken, this.notes, this.result, this.replies));
    onProposed((race) => this.propose(race));
    followOffers(this, server);
  }

  // ---- the form

  // Fills the form with what another page proposes, until a race begins.
  propose(race) {
    this.proposed = race;
    if (!this.offer?.loaded || this.running) return;
    this.draw({ ...this.offer, asked: null });
    this.form.dispatchEvent(new Event("input")); // as if the user had chosen it
  }

  // Returns the form's values: of the race that runs, of another page's proposal, or of the chat's settings.
  filling(offer) {
    const sides = [{ ...offer.own, method: "none", depth: "auto" }, offer.own];
    const own = { source: "prompt", prompt: this.form.elements.prompt?.value ?? say.example, sides, seed: offer.seed, max_tokens: offer.max_tokens, place: null, hint: say.ownHint };
    if (offer.asked) return { ...own, ...offer.asked, hint: say.askedHint };
    const { rival, base, place } = this.proposed ?? {};
    if (!offer.methods.some(({ name }) => name === rival)) return own;
    return { ...own, place, sides: [{ ...sides[0], method: base }, { ...sides[1], method: rival }], hint: say.proposedHint };
  }

  draw(offer) {
    this.offer = offer;
    if (!offer.loaded) return void this.form.replaceChildren(h("p", { class: "hint" }, say.none));
    const { source, prompt, sides: [base, rival], seed, max_tokens: longest, place, hint } = this.filling(offer);
    const checked = (name) => ({ checked: name === source });
    const few = !offer.chats;
    this.opponent = new Opponent(this.server, offer, (found) => this.offerBase(found ?? offer, this.opponent.place === place ? base : { method: found ? "" : "none" }));
    this.form.replaceChildren(
      h("fieldset", {}, h("legend", {}, say.on), h("div", { class: "choices" },
        choice("radio", "source", "prompt", say.one, say.oneHint, checked("prompt")),
        choice("radio", "source", "chats", say.chats(offer.chats), say.chatsHint(offer.chats), { ...checked("chats"), disabled: few }),
        choice("radio", "source", "set", say.set, say.setHint(offer.set), checked("set"))),
        h("textarea", { name: "prompt", rows: 3, "aria-label": say.prompt }, prompt)),
      ...(offer.methods.length > 1 ? [] : [h("p", { class: "hint" }, say.oneMethod)]),
      h("div", { class: "race-sides" }, this.side("base", base), this.side("rival", rival)),
      h("details", {}, h("summary", {}, say.more), h("div", { class: "fields" },
        field(say.max, h("input", { type: "number", name: "max_tokens", min: "1", step: "1", value: String(longest ?? "") })),
        field(say.seed, h("input", { type: "number", name: "seed", step: "1", placeholder: say.seedHint, value: String(seed ?? "") })))),
      h("div", { class: "buttons" }, h("button", { class: "ft-button primary", type: "submit", dataset: { act: "start" } }, say.start), h("span", { class: "hint" }, say.empty)));
    for (const side of SIDES) this.rest(side);
    this.hint("rival", hint);
    if (place !== null) this.opponent.place = place;
    this.rested();
  }

  side(side, chosen) {
    const { methods, rules, deepest } = this.offer;
    const name = (part) => `${side}-${part}`;
    const depths = ["auto", ...Array.from({ length: deepest }, (_, i) => String(i + 1))];
    const known = methods.some((each) => each.name === chosen.method) ? chosen.method : methods.at(-1).name;
    const heat = h("input", { type: "number", name: name("temperature"), min: "0", max: "5", step: "any", value: String(chosen.temperature) });
    return h("fieldset", { class: "race-side", dataset: { side }, on: { change: () => this.rest(side) } },
      h("legend", {}, say.sides[side]), side === "base" ? this.opponent.node : null, h("p", { class: "hint side-hint" }),
      h("div", { class: "fields" },
        field(say.method, select(name("method"), methods.map(named), known)),
        field(say.depth, select(name("depth"), depths.map((each) => [each, each === "auto" ? say.auto : each]), chosen.depth)),
        field(say.rule, select(name("rule"), rules.map((each) => [each, each]), chosen.rule)),
        field(say.temperature, heat)));
  }

  // Offers what the base can do where it runs; selects `wanted` as far as it is offered.
  offerBase({ methods, rules }, wanted) {
    const { elements } = this.form;
    const fill = (name, options, chosen) => {
      elements[name].replaceChildren(...options.map(([each, text]) => h("option", { value: each }, text)));
      elements[name].value = chosen;
    };
    fill("base-method", methods.map(named), methods.some((each) => each.name === wanted.method) ? wanted.method : methods.at(-1).name);
    const rule = [wanted.rule, elements["base-rule"].value].find((each) => rules.includes(each)) ?? rules[0];
    fill("base-rule", rules.map((each) => [each, each]), rule);
    this.rest("base");
  }

  // Returns the hint for what is chosen for the base.
  baseHint() {
    if (this.opponent.place !== null) return this.opponent.hint;
    return { none: say.plainHint, server: say.serverHint }[this.form.elements["base-method"].value] ?? "";
  }

  hint(side, text) {
    const node = this.form.querySelector(`[data-side=${side}] .side-hint`);
    node.textContent = text;
    node.hidden = !text;
  }

  // Disables the depth for plain decoding, servers and defaults.
  rest(side) {
    const { elements } = this.form;
    elements[`${side}-depth`].disabled = ["", "none", "server"].includes(elements[`${side}-method`].value);
    this.hint(side, side === "base" ? this.baseHint() : "");
  }

  asked() {
    const value = (name) => this.form.elements[name].value;
    const sides = SIDES.map((side) => Object.fromEntries(["method", "depth", "rule", "temperature"].map((part) => [part, value(`${side}-${part}`)])));
    const number = (name) => (value(name) === "" ? null : Number(value(name)));
    return { source: value("source"), prompt: value("prompt"), place: this.opponent.place, sides, seed: number("seed"), max_tokens: number("max_tokens") };
  }

  // ---- a race

  begin() {
    this.pairs = [];
    this.proposed = null;
    this.said.textContent = "";
    delete this.said.dataset.identical; // known at the end
    this.parting.hidden = true;
    this.replies.hidden = true;
    this.replay.hidden = true;
    this.played = null;
    this.notes.hidden = true;
    this.spoken.textContent = "";
    for (const side of SIDES) this.lanes[side].reset();
    super.begin();
  }

  rested() {
    super.rested();
    this.more.disabled = Boolean(this.running);
  }

  advance(events, stats) {
    for (const event of events) this.take(event);
    for (const [side, totals] of Object.entries(stats ?? {})) this.lanes[side].total(totals);
  }

  take(event) {
    const kinds = {
      opening: () => this.open(event),
      begun: () => this.begun(event),
      run: () => this.run(event),
      pair: () => this.paired(event),
      standing: () => this.stand(event),
      rest: () => this.end(event),
      words: () => this.words(event),
      broken: () => this.broken(event.message),
    };
    if (event.t in kinds) kinds[event.t]();
    else this.lanes[event.side].event(event);
  }

  open({ said, done }) {
    this.now.textContent = say.opening(said);
    if (done === null) this.bar.removeAttribute("value");
    else this.bar.value = done;
  }

  begun(told) {
    const { names, pairs, notes, compared } = told;
    this.compared = compared;
    this.about.textContent = say.about(told);
    this.notes.replaceChildren(...notes.map((text) => h("li", {}, text)));
    this.notes.hidden = !notes.length;
    this.names = Object.fromEntries(SIDES.map((side, i) => [side, names[i]]));
    for (const side of SIDES) this.lanes[side].name(this.names[side]);
    [...this.table_heads].forEach((cell, i) => (cell.textContent = `${names[i]}, ${say.speed}`));
    this.pairs = [...pairs];
  }

  run({ side, pair, of, done, total }) {
    this.now.textContent = pair === null ? say.warming(this.names[side]) : say.running(pair + 1, of, this.names[side]);
    this.bar.value = done / total;
    this.replies.hidden = false;
    this.lanes[side].begin(pair === null ? say.warm : say.writes);
    const other = this.lanes[SIDES.find((each) => each !== side)];
    if (other.state.textContent === say.writes) other.done();
  }

  paired(pair) {
    this.pairs.push(pair);
    this.played = SIDES.map((side) => ({ name: this.names[side], rounds: this.lanes[side].rounds }));
  }

  stand(found) {
    if (found.median === null && this.running) return;
    this.result.hidden = false;
    this.result.dataset.favours = String(found.favours);
    if (this.verdict.textContent !== found.verdict) this.verdict.textContent = found.verdict;
    this.certainty.textContent = found.certainty;
    if (found.median !== null) this.dots.replaceChildren(h("figcaption", { class: "hint" }, say.ratio), chart(this.pairs.map((pair) => pair.ratio), found, say));
    this.table.replaceChildren(...this.pairs.map((pair, i) => h("tr", { dataset: { pair: String(i + 1) } },
      h("td", {}, String(i + 1)), h("td", {}, speed(pair.base_tokens_per_s)), h("td", {}, speed(pair.rival_tokens_per_s)), h("td", {}, say.times(pair.ratio)),
      h("td", {}, percent(pair.acceptance_rate)), h("td", {}, this.compared ? (pair.same_words ? say.same : say.differ) : "–"))));
  }

  table_() {
    this.table_heads = SIDES.map(() => h("th", { scope: "col" }));
    return h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, say.pair), ...this.table_heads,
      ...[say.times_, say.acceptance, say.words].map((text) => h("th", { scope: "col" }, text)))), this.table);
  }

  over() {
    this.running = false;
    for (const side of SIDES) this.lanes[side].done();
    this.replies.hidden = SIDES.every((side) => !this.lanes[side].reply);
    this.rested();
  }

  end({ complete }) {
    this.over();
    if (!complete) this.certainty.textContent = [say.stopped, this.certainty.textContent].filter(Boolean).join(" ");
    this.result.hidden = !this.verdict.textContent;
    this.spoken.textContent = this.verdict.textContent;
    if (this.result.hidden) this.fail(say.stoppedEarly);
    const played = this.played && replay(this.played);
    this.replay.hidden = !played;
    this.replay.replaceChildren(played ?? "");
  }

  words({ different, promised, told, divergence }) {
    const kind = this.compared && !different ? "same" : promised ? "differ" : "may";
    this.said.replaceChildren(kind === "same" ? "✓ " : "", told.split(" First at token")[0]);
    this.said.className = `race-words ${kind}`;
    this.said.dataset.identical = String(!different);
    this.parting.hidden = !divergence;
    if (divergence) this.parting.replaceChildren(...this.inspected(divergence));
  }

  inspected({ position, base, rival, candidates, cause }) {
    const chip = (text) => (text === null ? h("em", {}, say.end) : h("code", { class: "chip" }, ...showToken(text)));
    const said = (side, text) => h("div", {}, h("dt", {}, this.names[side]), h("dd", {}, chip(text)));
    const likely = (one) => h("li", {}, chip(one.text), h("span", { class: "track" }, this.share(one.p)), h("b", {}, percent(one.p)));
    return [
      h("h2", {}, say.parting), h("p", {}, say.partingAt(position + 1)),
      h("dl", {}, said("base", base), said("rival", rival)),
      h("p", {}, say.likeliest), h("ol", {}, ...candidates.map(likely)),
      h("p", { class: "cause", dataset: { cause } }, h("b", {}, say.causes[cause]), ": ", say.causeHints[cause]),
    ];
  }

  share(p) {
    const bar = h("i");
    bar.style.width = `${100 * p}%`;
    return bar;
  }

  broken(message) {
    this.over();
    this.fail(message);
  }
}

register("race", RacePage);
