// The race page: two lanes that fill one after the other, and the result.

import { fixed, h, percent, seconds, showToken, speed } from "../../shared/dom.js";
import { follow } from "../../shared/feed.js";
import { register } from "../../shared/pages.js";
import { reason } from "../../shared/server.js";
import { Reply } from "../../shared/reply.js";
import { words } from "../../shared/words.js";
import { say } from "./words.js";

class Lane {
  constructor(name) {
    this.state = h("span", { class: "lane-state" }, say.waiting);
    this.speed = h("b", { class: "lane-speed", dataset: { lane: `${name}-speed` } }, "–");
    this.facts = h("dl", { class: "lane-facts" });
    this.body = h("div", { class: "body markdown" });
    this.node = h("section", { class: `race-lane ${name}`, dataset: { lane: name }, "aria-label": say[name] },
      h("header", {}, h("h2", {}, say[name]), this.state, h("span", { class: "grow" }), this.speed, h("span", { class: "unit" }, words.stats.speed)),
      this.facts, h("div", { class: "lane-text" }, this.body));
    this.reply = new Reply(this.body);
    this.reply.onDrawn = () => (this.body.parentElement.scrollTop = this.body.parentElement.scrollHeight);
  }

  event(event) {
    if (event.t === "lane") {
      this.state.textContent = say[event.state];
      this.node.dataset.state = event.state;
    } else if (event.t === "queued") {
      this.state.textContent = words.queued(event.ahead);
    } else {
      this.reply.add([event]);
    }
  }

  total(stats) {
    if (!stats) return;
    this.speed.textContent = speed(stats.tokens_per_s);
    const facts = [[say.tokens, stats.completion_tokens], [words.totalLabels.rounds, stats.rounds], [say.first, seconds(stats.time_to_first_token_s)]];
    if (stats.drafted) facts.push([say.acceptance, percent(stats.acceptance_rate)], [words.stats.length, fixed(stats.mean_acceptance_length)]);
    this.facts.replaceChildren(...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value)))));
  }
}

class RacePage {
  constructor({ element, props, server, watch }) {
    this.server = server;
    this.root = element.querySelector(".ft-race");
    this.reset();
    watch("value", () => props.value && this.receive(JSON.parse(props.value)));
  }

  reset() {
    this.stats = null;
    this.lanes = { plain: new Lane("plain"), speculative: new Lane("speculative") };
    this.result = h("div", { class: "race-result", role: "status" }, h("p", { class: "hint" }, say.empty));
    this.root.replaceChildren(this.result, h("div", { class: "race-lanes" }, this.lanes.plain.node, this.lanes.speculative.node));
  }

  async receive(answer) {
    this.reset();
    if (answer.refused) return void this.broken(answer.refused);
    this.race = answer.race;
    const { race } = answer;
    try {
      await follow((from) => this.server.follow({ race, from }), () => this.race === race, (events, stats) => this.advance(events, stats));
    } catch (error) {
      this.broken(reason(error));
    }
  }

  advance(events, stats) {
    for (const event of events) {
      if (event.lane) this.lanes[event.lane].event(event);
      else if (event.t === "result") this.showResult(event, stats);
      else if (event.t === "broken") this.broken(event.message);
    }
    for (const [lane, totals] of Object.entries(stats ?? {})) this.lanes[lane].total(totals);
  }

  showResult(event, stats) {
    const ahead = event.speedup !== null && event.speedup >= 1;
    const line = event.speedup === null ? "–" : ahead ? say.faster(event.speedup) : say.slower(event.speedup);
    const { plain, speculative } = stats;
    const chip = (token) => h("code", { class: "chip" }, ...showToken(token));
    const [position, ours, theirs] = event.difference ?? [];
    const parting = event.difference ? say.differ(position + 1, chip(ours), chip(theirs)) : [say.differUntold];
    const words_ = event.identical
      ? h("p", { class: "same", dataset: { identical: "true" } }, "✓ ", say.same)
      : h("p", { class: event.expected ? "differ" : "hint", dataset: { identical: "false" } }, ...parting);
    this.result.replaceChildren(
      h("p", { class: `speedup ${ahead ? "ahead" : "behind"}`, dataset: { speedup: String(event.speedup) } }, line),
      h("p", { class: "speeds" }, `${speed(plain.tokens_per_s)} → ${speed(speculative.tokens_per_s)} ${words.stats.speed}, ${speculative.drafted ? `${say.acceptance} ${percent(speculative.acceptance_rate)}` : words.stats.plain}`),
      words_,
      event.identical || event.expected ? "" : h("p", { class: "hint" }, say.notExpected(event.acceptance)));
  }

  broken(message) {
    for (const lane of Object.values(this.lanes)) {
      lane.node.dataset.state = "";
      lane.state.textContent = "";
    }
    this.result.replaceChildren(message ? h("p", { class: "ft-error", role: "alert" }, message) : h("p", { class: "hint" }, say.stopped));
  }
}

register("race", RacePage);
