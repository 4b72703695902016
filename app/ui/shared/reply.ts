// A reply on the page, built from its events: text, origin marks, state. It is drawn by hand, since it grows many times
// a second. Used by Chat and Race.

import { Thought, type Place, StreamingMarkdown } from "./text/streaming";
import { Marks } from "./text/marks";
import type { Round } from "./replay/timeline";

const AT_ONCE = 6000; // characters whose marks are drawn in one frame
const SHARE = 3; // a frame is followed by a pause of this many times its duration

export const MARKS_SHOWN = "foretoken-marks"; // event when marks are shown in all messages

// Shows marks in all messages, or only under the pointer.
export function showMarks(on: boolean) {
  document.body.classList.toggle("show-marks", on);
  if (on) window.dispatchEvent(new Event(MARKS_SHOWN));
}

const marksShown = () => document.body.classList.contains("show-marks");

const tokenOf = (node: EventTarget | null) => {
  const mark = (node as HTMLElement | null)?.closest?.(".mark");
  return mark instanceof HTMLElement ? Number(mark.dataset.token) : null;
};

const isSelected = (node: Node) => {
  const selection = getSelection();
  return Boolean(selection && !selection.isCollapsed && selection.containsNode(node, true));
};

export class Reply {
  text = "";
  place: Place | null = null; // of its thought, from Python
  compact = ""; // its marks, from Python
  running = false;
  end: any = null; // the event that ended it
  onToken: ((token: number | null) => void) | null = null; // called with the number of the token under the pointer
  onDrawn: (() => void) | null = null; // called after each drawing
  until: number | null = null; // where the calls of tools begin in its text, which are drawn elsewhere
  lit = [0, 0];
  next = 0; // when it may be drawn again
  frame: number | null = null;
  element: HTMLElement | null = null;
  markdown: StreamingMarkdown | null = null;
  thought: Thought | null = null;
  read: Marks | null = null;

  // It is drawn in `element`; without one it is kept until drawIn().
  constructor(element: HTMLElement | null = null) {
    if (element) this.drawIn(element);
  }

  // ---- where it is drawn

  drawIn(element: HTMLElement) {
    this.element = element;
    this.markdown = new StreamingMarkdown(element);
    element.addEventListener("pointerover", (event) => event.pointerType === "mouse" && this.look(event));
    element.addEventListener("click", (event) => this.look(event)); // touch screens cannot hover
    element.addEventListener("pointerleave", () => this.onToken?.(null));
    this.render(null);
    if (marksShown()) this.markAll();
    this.light(this.lit[0], this.lit[1]);
  }

  // Drops what is drawn, and keeps the text.
  leave() {
    this.cancel();
    this.element = this.markdown = this.thought = this.read = null;
  }

  cancel() {
    if (this.frame !== null) cancelAnimationFrame(this.frame);
    this.frame = null;
  }

  // The text without the thought and the calls of tools.
  get answer() {
    return this.text.slice(this.begin, this.until ?? undefined);
  }

  get begin() {
    return this.place ? (this.place.answer ?? this.text.length) : 0;
  }

  render(marks: Marks | null) {
    if (!this.element) return;
    if (this.place) (this.thought ??= new Thought(this.element)).show(this.text, this.place, marks, this.running);
    else if (this.thought) this.thought = this.thought.remove();
    this.markdown?.render(this.answer, marks, this.running, this.begin);
  }

  get drawn() {
    return [this.thought?.markdown, this.markdown].filter((each) => each instanceof StreamingMarkdown);
  }

  set(text: string, compact: string, place: Place | null = null) {
    this.text = text;
    this.place = place;
    this.compact = compact ?? "";
    this.read = null;
    this.render(null);
    if (marksShown()) this.markAll();
  }

  // Takes events in order, and the thought's position after them. Returns the rounds among them.
  add(events: any[], place: Place | null = this.place): Round[] {
    this.place = place;
    const rounds = [];
    for (const event of events) {
      if (event.t === "calls" || event.t === "next") continue; // what came of its calls
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

  draw(now: number) {
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

  addMarks(compact: string) {
    if (!compact) return;
    this.compact += this.compact ? ` ${compact}` : compact;
    this.read?.add(compact);
  }

  // Draws all marks, those of a long reply in several frames.
  markAll() {
    if (this.drawn.some((each) => each.mark(this.marks, 0, Infinity, AT_ONCE)))
      requestAnimationFrame(() => this.markAll());
  }

  // Draws the marks under the pointer, unless that would change a selection.
  look(event: MouseEvent) {
    if (!this.onToken) return;
    const target = event.target as Element;
    const holder = this.running || event.buttons ? undefined : this.drawn.find((each) => each.unmarkedAt(target));
    const found = holder?.unmarkedAt(target);
    const block = target.closest(".block");
    const drawn = found && block && !isSelected(block);
    if (drawn) holder?.mark(this.marks, found[0], found[1]);
    this.onToken(tokenOf(drawn ? document.elementFromPoint(event.clientX, event.clientY) : target));
  }

  // Highlights the tokens from `from` up to but not including `to`.
  light(from: number, to: number) {
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
