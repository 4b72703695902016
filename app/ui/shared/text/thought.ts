// The model's thought before its answer, folded; it can be opened while it is written.

import { seconds, several } from "../format";
import { StreamingMarkdown } from "./streaming";
import { words } from "./words";
import type { Marks } from "./marks";

// Where a thought is in its reply, as app/ui/rounds/view.py tells it; null while it is thought.
export interface Place {
  from: number;
  to: number | null;
  answer: number | null; // where the answer begins
  seconds: number | null;
  tokens: number | null;
}

export class Thought {
  head = document.createElement("summary");
  node = document.createElement("details");
  markdown: StreamingMarkdown;
  drawing: (() => void) | null = null;

  // It stands first in `element`.
  constructor(element: HTMLElement) {
    const body = document.createElement("div");
    body.className = "thought-text";
    body.dir = "auto";
    this.markdown = new StreamingMarkdown(body);
    this.node.className = "thought ft-disclosure";
    this.node.append(this.head, body);
    this.node.addEventListener("toggle", () => this.draw());
    element.prepend(this.node);
  }

  remove(): null {
    this.node.remove();
    return null;
  }

  // `more`: the reply will grow.
  show(text: string, place: Place, marks: Marks | null, more: boolean) {
    const open = place.to === null;
    const time = place.seconds === null ? "" : seconds(place.seconds);
    const say = !open ? words.thought : more ? words.thinking : words.thoughtCut;
    const head = say([time, ...(place.tokens ? [several(place.tokens, "token")] : [])]);
    if (this.head.textContent !== head) this.head.textContent = head;
    const written = text.slice(place.from, place.to ?? undefined);
    this.drawing = () => this.markdown.render(written, marks, more && open, place.from);
    this.draw();
  }

  // Draws the text only while it is unfolded.
  draw() {
    if (!this.node.open || !this.drawing) return;
    this.drawing();
    this.drawing = null;
  }
}
