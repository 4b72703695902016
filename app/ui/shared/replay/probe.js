// What became of a token, as a sentence: shown for the chip under the pointer or the focus.

import { h, percent, showToken } from "../dom.js";
import { say } from "./words.js";

// In a sentence a word goes without the space before it.
const token = (text) => h("i", { class: "probe-token" }, ...showToken(text.trim() || text));
const known = (p) => (p === undefined ? null : p);

// Texts and tokens, in order.
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

function ranking(likeliest) {
  const most = Math.max(...likeliest.map(([, p]) => p), 1e-9);
  const rows = likeliest.map(([text, p]) => {
    const fill = h("span", { class: "fill" });
    fill.style.width = `${Math.max(2, (100 * p) / most)}%`;
    return h("li", {}, token(text), h("span", { class: "track" }, fill), h("b", {}, percent(p)));
  });
  return [h("div", { class: "probe-head" }, say.likeliest), h("ol", { class: "ranking" }, ...rows)];
}

export class Probe {
  // Of the chips in `root`, now and later.
  constructor(root) {
    this.node = h("div", { class: "probe", role: "tooltip", hidden: true });
    const show = (event) => this.show(event.target.closest?.(".chip"));
    root.addEventListener("mouseover", show);
    root.addEventListener("focusin", show);
    root.addEventListener("mouseleave", () => this.hide());
    root.addEventListener("focusout", () => this.hide());
    // A chip that is still under the pointer or the focus keeps its probe, moved along.
    root.addEventListener("scroll", () => {
      const kept = this.target?.isConnected && this.target.matches(":hover, :focus");
      this.show(kept ? this.target : null);
    }, { passive: true });
  }

  hide() {
    this.target = null;
    this.node.hidden = true;
  }

  show(target) {
    if (!target?.told) return this.hide();
    this.target = target;
    if (!this.node.isConnected) (target.closest(".gradio-container") ?? document.body).append(this.node);
    const likeliest = target.told.likeliest ?? target.told.chosen?.likeliest ?? [];
    this.node.replaceChildren(h("p", {}, ...sentence(target.told)), ...(likeliest.length ? ranking(likeliest) : []));
    this.node.hidden = false;
    const at = target.getBoundingClientRect();
    const own = this.node.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left), window.innerWidth - own.width - 8);
    const above = at.top - own.height - 8;
    this.node.style.left = `${left}px`;
    this.node.style.top = `${above > 8 ? above : at.bottom + 8}px`;
  }
}
