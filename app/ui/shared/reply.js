// What a stream of events adds up to on the page: text, origin marks, state. Used by Chat and Race.

import { Marks } from "./marks.js";
import { StreamingMarkdown } from "./streaming.js";
import { fixed, h, percent, seconds, speed } from "./dom.js";
import { words } from "./words.js";

const AT_ONCE = 6000; // characters whose marks are drawn in one frame
const SHARE = 3; // a frame that took long is followed by this many times as long for everything else

export const MARKS_SHOWN = "foretoken-marks"; // told to the window when marks are to be seen in all messages

// Whether marks are to be seen in all messages, or only where somebody looks.
export function showMarks(on) {
  document.body.classList.toggle("show-marks", on);
  if (on) window.dispatchEvent(new Event(MARKS_SHOWN));
}

const marksShown = () => document.body.classList.contains("show-marks");

const tokenOf = (node) => {
  const mark = node?.closest?.(".mark");
  return mark ? Number(mark.dataset.token) : null;
};

const isSelected = (node) => {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(node, true);
};

export class Reply {
  // `element`: where it is drawn; without one it is kept until drawIn().
  constructor(element = null) {
    this.text = "";
    this.compact = ""; // its marks, as Python tells them
    this.frame = null;
    this.next = 0; // when it may be drawn again
    this.running = false;
    this.end = null; // the event that ended it
    this.onToken = null; // called with the number of the token under the pointer, or null
    this.lit = [0, 0];
    this.leave();
    if (element) this.drawIn(element);
  }

  // ---- where it is drawn

  drawIn(element) {
    this.element = element;
    this.markdown = new StreamingMarkdown(element);
    element.addEventListener("pointerover", (event) => event.pointerType === "mouse" && this.look(event));
    element.addEventListener("click", (event) => this.look(event)); // where nothing points before it presses
    element.addEventListener("pointerleave", () => this.onToken?.(null));
    this.markdown.render(this.text, null, this.running);
    if (marksShown()) this.markAll();
    this.light(...this.lit);
  }

  // It is drawn no more; what it says is kept.
  leave() {
    cancelAnimationFrame(this.frame);
    [this.frame, this.element, this.markdown, this.read] = [null, null, null, null];
  }

  set(text, compact) {
    this.text = text;
    this.compact = compact ?? "";
    this.read = null;
    this.markdown?.render(text, null);
    if (marksShown()) this.markAll();
  }

  // Takes events in order; returns the rounds among them.
  add(events) {
    const rounds = [];
    for (const event of events) {
      if (event.t === "round" || event.t === "text") {
        if (event.t === "round") rounds.push(event);
        this.text += event.s;
        this.addMarks(event.k);
      } else if (event.t === "finished") {
        this.text += event.tail;
      }
      const ended = event.t === "finished" || event.t === "failed";
      this.running = !ended;
      this.end = ended ? event : null;
    }
    if (this.element) this.frame ??= requestAnimationFrame((now) => this.draw(now));
    return rounds;
  }

  draw(now) {
    if (this.running && now < this.next) return void (this.frame = requestAnimationFrame((later) => this.draw(later)));
    this.frame = null;
    const begun = performance.now();
    // Marks nobody sees wait: a growing paragraph then stays one text.
    this.markdown.render(this.text, marksShown() ? this.marks : null, this.running);
    this.onDrawn?.();
    const end = performance.now();
    this.next = end + SHARE * (end - begun);
  }

  // ---- marks

  get marks() {
    return (this.read ??= new Marks(this.compact));
  }

  addMarks(compact) {
    if (!compact) return;
    this.compact += this.compact ? ` ${compact}` : compact;
    this.read?.add(compact);
  }

  // Draws all of them, those of a long reply in several frames.
  markAll() {
    if (this.markdown?.mark(this.marks, 0, Infinity, AT_ONCE)) requestAnimationFrame(() => this.markAll());
  }

  // Somebody points at it: there its marks are drawn, unless what is selected would change under the hand.
  look(event) {
    if (!this.onToken) return;
    const found = this.running || event.buttons ? null : this.markdown.unmarkedAt(event.target);
    const drawn = found && !isSelected(event.target.closest(".block"));
    if (drawn) this.markdown.mark(this.marks, ...found);
    this.onToken(tokenOf(drawn ? document.elementFromPoint(event.clientX, event.clientY) : event.target));
  }

  // Lights the tokens from `from` on, up to but not including `to`.
  light(from, to) {
    this.lit = [from, to];
    if (!this.element) return;
    for (const node of this.element.querySelectorAll(".mark.lit")) node.classList.remove("lit");
    if (to <= from) return;
    const { ends } = this.marks;
    if (!this.running) this.markdown.mark(this.marks, ends[from - 1] ?? 0, ends[to - 1] ?? 0);
    const wanted = Array.from({ length: to - from }, (_, i) => `.mark[data-token="${from + i}"]`);
    for (const node of this.element.querySelectorAll(wanted.join())) node.classList.add("lit");
  }
}

// The figures below a finished reply: how fast it was, largest; the rest folds.
export function figures(stats) {
  const s = words.stats;
  const cell = (name, value, label, hint) => h("span", { class: "stat", title: hint, dataset: { stat: name } }, h("b", {}, value), " ", label);
  const large = (name, value, label, hint) => h("span", { class: "large", title: hint, dataset: { stat: name } }, h("b", {}, value), label);
  const hasRounds = stats.rounds > 0; // an engine elsewhere may show no rounds
  const more = [cell("time_to_first_token_s", seconds(stats.time_to_first_token_s), s.first, s.firstHint)];
  if (stats.plain_tokens_per_s) more.unshift(cell("plain_tokens_per_s", speed(stats.plain_tokens_per_s), s.plainSpeed, s.timesHint(speed(stats.plain_tokens_per_s))));
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
