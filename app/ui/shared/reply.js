// What a stream of events adds up to on the page: text, origin marks, state. Used by Chat and Race.

import { Marks } from "./marks.js";
import { StreamingMarkdown } from "./markdown.js";
import { fixed, h, percent, seconds, speed } from "./dom.js";
import { words } from "./words.js";

export class Reply {
  constructor(element) {
    this.element = element;
    this.text = "";
    this.marks = new Marks();
    this.markdown = new StreamingMarkdown(element);
    this.drawn = null;
    this.running = false;
    this.end = null; // the event that ended it
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

export function statsLine(stats) {
  const cell = (name, value, label, hint) => h("span", { class: "stat", title: hint, dataset: { stat: name } }, h("b", {}, value), " ", label);
  const s = words.stats;
  const plain = stats.drafted === 0;
  const hasRounds = stats.rounds > 0; // an engine elsewhere may show no rounds
  return [
    cell("tokens_per_s", speed(stats.tokens_per_s), s.speed, s.speedHint),
    ...(!hasRounds ? [] : plain ? [h("span", { class: "stat" }, s.plain)] : [
      cell("acceptance_rate", percent(stats.acceptance_rate), s.rate, s.rateHint),
      cell("mean_acceptance_length", fixed(stats.mean_acceptance_length), s.length, s.lengthHint),
    ]),
    cell("time_to_first_token_s", seconds(stats.time_to_first_token_s), s.first, s.firstHint),
  ];
}
