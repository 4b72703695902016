// What a stream of events adds up to on the page: text, origin marks, state. Used by Chat and Race.

import { Marks } from "./marks.js";
import { StreamingMarkdown } from "./markdown.js";
import { fixed, h, percent, seconds, speed } from "./dom.js";
import { words } from "./words.js";

const tokenOf = (node) => {
  const mark = node.closest?.(".mark");
  return mark ? Number(mark.dataset.token) : null;
};

export class Reply {
  constructor(element) {
    this.element = element;
    this.text = "";
    this.marks = new Marks();
    this.markdown = new StreamingMarkdown(element);
    this.drawn = null;
    this.running = false;
    this.end = null; // the event that ended it
    this.onToken = null; // called with the number of the token under the pointer, or null
    element.addEventListener("mouseover", (event) => this.onToken?.(tokenOf(event.target)));
    element.addEventListener("mouseleave", () => this.onToken?.(null));
  }

  // Lights the tokens from `from` on, up to but not including `to`, wherever they are drawn with their marks.
  light(from, to) {
    for (const node of this.element.querySelectorAll(".mark.lit")) node.classList.remove("lit");
    const wanted = Array.from({ length: Math.max(to - from, 0) }, (_, i) => `.mark[data-token="${from + i}"]`);
    if (wanted.length) for (const node of this.element.querySelectorAll(wanted.join())) node.classList.add("lit");
  }

  set(text, marks) {
    this.text = text;
    this.marks = new Marks(marks);
    this.markdown.render(this.text, this.marks);
  }

  // Takes events in order; returns the rounds among them.
  add(events) {
    const rounds = [];
    for (const event of events) {
      if (event.t === "round" || event.t === "text") {
        if (event.t === "round") rounds.push(event);
        this.text += event.s;
        this.marks.add(event.k);
      } else if (event.t === "finished") {
        this.text += event.tail;
      }
      const ended = event.t === "finished" || event.t === "failed";
      this.running = !ended;
      this.end = ended ? event : null;
    }
    this.drawn ??= requestAnimationFrame(() => this.draw());
    return rounds;
  }

  draw() {
    this.drawn = null;
    // Marks nobody sees yet wait for the end: a growing paragraph then stays one text.
    const wanted = !this.running || document.body.classList.contains("show-marks");
    this.markdown.render(this.text, wanted ? this.marks : null);
    this.onDrawn?.();
  }
}

// The figures below a finished reply: how fast it was, largest; the rest folds.
export function figures(stats) {
  const s = words.stats;
  const cell = (name, value, label, hint) => h("span", { class: "stat", title: hint, dataset: { stat: name } }, h("b", {}, value), " ", label);
  const large = (name, value, label, hint) => h("span", { class: "large", title: hint, dataset: { stat: name } }, h("b", {}, value), label);
  const hasRounds = stats.rounds > 0; // an engine elsewhere may show no rounds
  const more = [cell("time_to_first_token_s", seconds(stats.time_to_first_token_s), s.first, s.firstHint)];
  if (stats.plain_tokens_per_s) more.unshift(cell("plain_tokens_per_s", speed(stats.plain_tokens_per_s), s.plainSpeed));
  if (hasRounds && stats.drafted === 0) more.unshift(h("span", { class: "stat" }, s.plain));
  if (stats.shared) more.unshift(h("span", { class: "stat", dataset: { stat: "shared" }, title: s.sharedHint }, s.shared));
  if (stats.mean_acceptance_length && (stats.drafted > 0 || !hasRounds)) more.unshift(cell("mean_acceptance_length", fixed(stats.mean_acceptance_length), s.length, s.lengthHint));
  if (stats.drafted > 0) more.unshift(cell("acceptance_rate", percent(stats.acceptance_rate), s.rate, s.rateHint));
  return [
    large("tokens_per_s", speed(stats.tokens_per_s), ` ${s.speed}`, s.speedHint),
    ...(stats.speedup && stats.drafted > 0 ? [large("speedup", fixed(stats.speedup, 1), s.timesPlain, s.timesHint(speed(stats.plain_tokens_per_s)))] : []),
    h("details", {}, h("summary", {}, s.more), h("div", { class: "stats" }, ...more)),
  ];
}
