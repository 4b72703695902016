// The fate of a token as a sentence, shown for the chip under the mouse or focus, or that was tapped.

import { h, percent, showToken } from "../dom.js";
import { say } from "./words.js";

// In a sentence a token stands without the space before it.
const token = (text) => h("i", { class: "probe-token" }, ...showToken(text.trim() || text));
const known = (p) => (p === undefined ? null : p);

// Returns texts and tokens, in order.
export function sentence(told) {
  const { fate, text, q, behind, chosen } = told;
  const p = known(told.p);
  if (fate === "c") return say.corrected(token(text), p, token(told.rejected ?? ""));
  if (fate === "b") {
    const own = told.kept < told.drafted ? say.addedAlong(token(text), p) : say.added(token(text), p, told.drafted);
    return told.emitted ? own : [...own, say.ended];
  }
  const said = [...say.guessed(token(text), known(q)), ...(behind === null ? [] : say.behind(token(behind)))];
  if (fate === "a") return [...said, ...say.kept(p)];
  if (fate === "x") return [...said, ...say.keptBehindEnd];
  if (fate === "u") return [...said, ...say.notJudged];
  return [...said, ...say.refused(p, token(chosen.text), known(chosen.p))];
}

function ranking(topTokens) {
  const rows = topTokens.map(([text, p]) => {
    const fill = h("span", { class: "fill" });
    fill.style.width = `${Math.max(2, 100 * p)}%`;
    return h("li", {}, token(text), h("span", { class: "track" }, fill), h("b", {}, percent(p)));
  });
  return [h("div", { class: "probe-head" }, say.topTokens), h("ol", { class: "ranking" }, ...rows)];
}

let made = 0;

export class Probe {
  // For the chips in `root`, now and later.
  constructor(root) {
    this.node = h("div", { class: "probe", role: "tooltip", id: `probe-${(made += 1)}`, hidden: true });
    const chip = (event) => event.target.closest?.(".chip");
    const ofMouse = (event) => event.pointerType === "mouse";
    let tapped = false; // a finger cannot hover: its taps show and hide
    root.addEventListener("pointerover", (event) => ofMouse(event) && this.show(chip(event)));
    root.addEventListener("pointerleave", (event) => ofMouse(event) && this.hide());
    root.addEventListener("pointerdown", (event) => (tapped = !ofMouse(event)));
    root.addEventListener("click", (event) => tapped && this.show(chip(event) === this.target ? null : chip(event)));
    root.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && this.show(chip(event)));
    root.addEventListener("focusout", () => this.hide());
    // A chip still under the pointer or focus keeps its probe.
    root.addEventListener("scroll", () => {
      const kept = this.target?.isConnected && this.target.matches(":hover, :focus");
      this.show(kept ? this.target : null);
    }, { passive: true });
  }

  hide() {
    this.target?.removeAttribute("aria-describedby");
    this.target = null;
    this.node.hidden = true;
  }

  show(target) {
    this.hide();
    if (!target?.told) return;
    this.target = target;
    target.setAttribute("aria-describedby", this.node.id);
    if (!this.node.isConnected) (target.closest(".gradio-container") ?? document.body).append(this.node);
    const topTokens = target.told.topTokens ?? target.told.chosen?.topTokens ?? [];
    this.node.replaceChildren(h("p", {}, ...sentence(target.told)), ...(topTokens.length ? ranking(topTokens) : []));
    this.node.hidden = false;
    const at = target.getBoundingClientRect();
    const own = this.node.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left), window.innerWidth - own.width - 8);
    const above = at.top - own.height - 8;
    this.node.style.left = `${left}px`;
    this.node.style.top = `${above > 8 ? above : at.bottom + 8}px`;
  }
}
