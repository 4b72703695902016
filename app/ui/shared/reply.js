// A reply on the page, built from its events: text, origin marks, state. Used by Chat and Race.

import { Marks } from "./text/marks.js";
import { StreamingMarkdown } from "./text/streaming.js";
import { fixed, h, percent, seconds, speed, times, timesPlain } from "./dom.js";
import { words } from "./words.js";

const AT_ONCE = 6000; // characters whose marks are drawn in one frame
const SHARE = 3; // a frame is followed by a pause of this many times its duration

export const MARKS_SHOWN = "foretoken-marks"; // event when marks are shown in all messages

// Shows marks in all messages, or only under the pointer.
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

// The model's thought before its answer, folded; it can be opened while it is written.
class Thought {
  // It stands first in `element`.
  constructor(element) {
    this.head = h("summary", {});
    const body = h("div", { class: "thought-text", dir: "auto" });
    this.node = h("details", { class: "thought", on: { toggle: () => this.draw() } }, this.head, body);
    this.markdown = new StreamingMarkdown(body);
    element.prepend(this.node);
  }

  // `place` is its position, see app/ui/rounds/view.py; `more`: the reply will grow.
  show(text, place, marks, more) {
    const open = place.to === null;
    const head = (open ? (more ? words.thought.now : words.thought.cut) : words.thought.whole)([place.seconds === null ? null : seconds(place.seconds), place.tokens && words.thought.tokens(place.tokens)].filter((part, at) => part || (!at && !open)));
    if (this.head.textContent !== head) this.head.textContent = head;
    this.drawing = { text: text.slice(place.from, place.to ?? undefined), marks, more: more && open, from: place.from };
    this.draw();
  }

  // Draws the text only while it is unfolded.
  draw() {
    const { drawing } = this;
    if (!this.node.open || !drawing) return;
    this.drawing = null;
    this.markdown.render(drawing.text, drawing.marks, drawing.more, drawing.from);
  }
}

export class Reply {
  // `element`: where it is drawn; without one it is kept until drawIn().
  constructor(element = null) {
    this.text = "";
    this.place = null; // position of its thought, from Python
    this.compact = ""; // its marks, from Python
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
    element.addEventListener("click", (event) => this.look(event)); // touch screens cannot hover
    element.addEventListener("pointerleave", () => this.onToken?.(null));
    this.render(null);
    if (marksShown()) this.markAll();
    this.light(...this.lit);
  }

  // Drops what is drawn, and keeps the text.
  leave() {
    cancelAnimationFrame(this.frame);
    [this.frame, this.element, this.markdown, this.thought, this.read] = [];
  }

  // The text without the thought.
  get answer() {
    return this.text.slice(this.begin);
  }

  get begin() {
    return this.place ? this.place.answer ?? this.text.length : 0;
  }

  render(marks) {
    if (this.place) (this.thought ??= new Thought(this.element)).show(this.text, this.place, marks, this.running);
    else if (this.thought) this.thought = this.thought.node.remove();
    this.markdown.render(this.answer, marks, this.running, this.begin);
  }

  get drawn() {
    return [this.thought?.markdown, this.markdown].filter(Boolean);
  }

  set(text, compact, place = null) {
    this.text = text;
    this.place = place;
    this.compact = compact ?? "";
    this.read = null;
    if (this.markdown) this.render(null);
    if (marksShown()) this.markAll();
  }

  // Takes events in order, and the thought's position after them. Returns the rounds among them.
  add(events, place = this.place) {
    this.place = place;
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
    // Hidden marks are drawn later, so that a growing paragraph stays one text node.
    this.render(marksShown() ? this.marks : null);
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

  // Draws all marks, those of a long reply in several frames.
  markAll() {
    if (this.markdown && this.drawn.some((each) => each.mark(this.marks, 0, Infinity, AT_ONCE))) requestAnimationFrame(() => this.markAll());
  }

  // Draws the marks under the pointer, unless that would change a selection.
  look(event) {
    if (!this.onToken) return;
    const holder = this.running || event.buttons ? null : this.drawn.find((each) => each.unmarkedAt(event.target));
    const found = holder?.unmarkedAt(event.target);
    const drawn = found && !isSelected(event.target.closest(".block"));
    if (drawn) holder.mark(this.marks, ...found);
    this.onToken(tokenOf(drawn ? document.elementFromPoint(event.clientX, event.clientY) : event.target));
  }

  // Highlights the tokens from `from` up to but not including `to`.
  light(from, to) {
    this.lit = [from, to];
    if (!this.element) return;
    for (const node of this.element.querySelectorAll(".mark.lit")) node.classList.remove("lit");
    if (to <= from) return;
    const { ends } = this.marks;
    if (!this.running) for (const each of this.drawn) each.mark(this.marks, ends[from - 1] ?? 0, ends[to - 1] ?? 0);
    const wanted = Array.from({ length: to - from }, (_, i) => `.mark[data-token="${from + i}"]`);
    for (const node of this.element.querySelectorAll(wanted.join())) node.classList.add("lit");
  }
}

// Returns the figures below a finished reply: the speed large, the rest folded.
export function figures(stats) {
  const s = words.stats;
  const cell = (name, value, label, hint) => h("span", { class: "stat", title: hint, dataset: { stat: name } }, h("b", {}, value), " ", label);
  const large = (name, value, label, hint) => h("span", { class: "large", title: hint, dataset: { stat: name } }, h("b", {}, value), label);
  const hasRounds = stats.rounds > 0; // a server may report no rounds
  const more = [cell("time_to_first_token_s", seconds(stats.time_to_first_token_s), s.first, s.firstHint)];
  if (stats.plain_tokens_per_s) more.unshift(cell("plain_tokens_per_s", speed(stats.plain_tokens_per_s), s.plainSpeed, s.timesHint(speed(stats.plain_tokens_per_s))));
  if (hasRounds && stats.drafted === 0) more.unshift(h("span", { class: "stat" }, s.plain));
  if (stats.shared) more.unshift(h("span", { class: "stat", dataset: { stat: "shared" }, title: s.sharedHint }, s.shared));
  if (stats.mean_acceptance_length && (stats.drafted > 0 || !hasRounds)) more.unshift(cell("mean_acceptance_length", fixed(stats.mean_acceptance_length), s.length, s.lengthHint));
  if (stats.drafted > 0) more.unshift(cell("acceptance_rate", percent(stats.acceptance_rate), s.rate, s.rateHint));
  return [
    large("tokens_per_s", speed(stats.tokens_per_s), ` ${s.speed}`, s.speedHint),
    ...(timesPlain(stats) && stats.drafted > 0 ? [large("speedup", times(timesPlain(stats)), s.timesPlain, s.timesHint(speed(stats.plain_tokens_per_s)))] : []),
    h("details", {}, h("summary", {}, s.more), h("div", { class: "stats" }, ...more)),
  ];
}
