// The speed of a reply while it is written, compared with plain decoding, and the acceptance from which drafting pays.
// The figures are those of app/ui/rounds/view.py.

import { draw } from "../replay/charts.js";
import { h, percent, repeats, speed, times, timesPlain } from "../dom.js";
import { words } from "../words.js";

const WIDTH = 132;
const CENTRE = [66, 66];
const OUTER = 56;
const INNER = 43;
const SCALES = [1, 1.5, 2, 3, 5, 7.5, 10];
const PERIOD = 150; // ms between two updates of the figures

// Returns the point at a share of the half circle.
function point(share, radius) {
  const angle = Math.PI * (1 - Math.min(Math.max(share, 0), 1));
  return [CENTRE[0] + radius * Math.cos(angle), CENTRE[1] - radius * Math.sin(angle)];
}

const at = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const arc = (share, radius) => `M${at(point(0, radius))}A${radius} ${radius} 0 0 1 ${at(point(share, radius))}`;

// Returns the smallest round number that is not below `value`.
export function scaleFor(value) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return unit * SCALES.find((each) => each * unit >= value * 0.999);
}

function tick(share, from, to, kind) {
  const [x1, y1] = point(share, from);
  const [x2, y2] = point(share, to);
  return draw("line", { x1: x1.toFixed(1), y1: y1.toFixed(1), x2: x2.toFixed(1), y2: y2.toFixed(1), class: kind });
}

export class Dial {
  constructor() {
    this.svg = draw("svg", { viewBox: `0 0 ${WIDTH} 72`, "aria-hidden": "true", class: "dial-face" });
    this.words = h("div", { class: "dial-words" });
    // It stands inside a live region, which must not announce it.
    this.node = h("div", { class: "dial", role: "group", "aria-label": words.dial.name, "aria-live": "off", hidden: true }, this.svg, this.words);
    this.most = 0;
    this.shown = 0;
    this.waiting = null;
  }

  // Draws with a next frame, the latest figures only.
  show(stats) {
    if (!stats?.tokens_per_s) return;
    this.stats = stats;
    this.waiting ??= requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    if (now - this.shown < PERIOD && !this.node.hidden) return void (this.waiting = requestAnimationFrame((later) => this.frame(later)));
    this.waiting = null;
    this.shown = now;
    if (this.stats) this.draw(this.stats);
  }

  hide() {
    cancelAnimationFrame(this.waiting);
    [this.waiting, this.stats, this.most] = [null, null, 0];
    this.node.hidden = true;
  }

  draw(stats) {
    const { tokens_per_s: now, plain_tokens_per_s: plain, needed, expected } = stats;
    this.most = Math.max(this.most, scaleFor(1.1 * Math.max(now, plain ?? 0)));
    const parts = [
      draw("path", { d: arc(1, OUTER), class: "track" }),
      draw("path", { d: arc(now / this.most, OUTER), class: "dial-now" }),
    ];
    if (plain) parts.push(tick(plain / this.most, OUTER - 8, OUTER + 9, "dial-plain"));
    if (isShare(needed)) {
      parts.push(draw("path", { d: arc(1, INNER), class: "track thin" }));
      if (isShare(expected)) parts.push(draw("path", { d: arc(expected, INNER), class: "dial-has" }));
      parts.push(tick(needed, INNER - 7, INNER + 6, "dial-needed"));
    }
    this.svg.replaceChildren(...parts);
    this.words.replaceChildren(
      h("div", { class: "dial-speed", dataset: { dial: "speed" } }, h("b", {}, speed(now)), ` ${words.stats.speed}`),
      h("div", { dataset: { dial: "plain" } }, plainly(stats)),
      ...(isShare(needed) ? [h("div", { dataset: { dial: "needed" } }, words.dial.needed(percent(needed), isShare(expected) ? percent(expected) : null))] : []));
    this.node.hidden = false;
  }
}

const isShare = (x) => x !== null && x !== undefined;

// Returns "2.1× plain (20.0 tokens/s)", or that the speed is unknown.
export function plainly(stats) {
  if (repeats(stats)) return words.dial.repeats;
  const plain = stats.plain_tokens_per_s;
  if (!plain || !stats.speedup) return stats.drafted === 0 && stats.rounds ? words.stats.plain : words.dial.unknown;
  return timesPlain(stats) ? words.dial.times(times(stats.speedup), speed(plain)) : words.dial.plain(speed(plain));
}

const NEARLY = 0.85; // from here on it warns

// The share of the context a conversation takes, with a warning before it is full.
export class ContextMeter {
  constructor() {
    this.fill = h("i", { class: "fill" });
    this.words = h("span", { class: "meter-words" });
    this.warning = h("span", { class: "meter-warning", role: "status" });
    this.bar = h("span", { class: "track", role: "meter", "aria-label": words.context.name, "aria-valuemin": "0" }, this.fill);
    this.node = h("div", { class: "context-meter", hidden: true }, this.bar, this.words, this.warning);
    this.used = null;
    this.limit = null;
  }

  // `limit`: the loaded pair's context in tokens; null if nothing is loaded.
  setLimit(limit) {
    this.limit = limit ?? null;
    this.draw();
  }

  // Takes the figures of the last reply, whose prompt was the whole conversation.
  show(stats) {
    this.used = stats?.prompt_tokens ? stats.prompt_tokens + stats.completion_tokens : null;
    this.draw();
  }

  draw() {
    const { used, limit } = this;
    this.node.hidden = !used || !limit;
    if (this.node.hidden) return void this.warn("");
    const share = Math.min(used / limit, 1);
    this.fill.style.width = `${100 * share}%`;
    this.bar.setAttribute("aria-valuemax", String(limit));
    this.bar.setAttribute("aria-valuenow", String(Math.min(used, limit)));
    this.words.textContent = words.context.used(used, limit);
    this.node.dataset.state = share >= NEARLY ? "nearly" : "";
    this.warn(share === 1 ? words.context.full : share >= NEARLY ? words.context.nearly : "");
  }

  // Changes the warning only if it differs: screen readers announce each change.
  warn(text) {
    if (this.warning.textContent !== text) this.warning.textContent = text;
  }
}
