// The progress of a load, with a button that cancels it.

import { h } from "../dom.js";
import { words } from "../words.js";

export class Loading {
  // `cancel` is called when the button is pressed.
  constructor(cancel) {
    this.name = h("span", { class: "loading-name" });
    this.doing = h("span", { class: "hint" });
    this.bar = h("progress", { max: 1 });
    this.button = h("button", { class: "ft-button small", type: "button", dataset: { action: "cancel-loading" }, on: { click: cancel } }, words.cancel);
    this.node = h("div", { class: "loading", hidden: true },
      h("div", { class: "loading-text" }, h("span", { role: "status" }, this.name), this.doing), this.button, this.bar);
  }

  show({ opening, progress, cancelling }) {
    this.node.hidden = !opening;
    if (!opening) return;
    if (this.name.textContent !== opening) this.name.textContent = opening;
    this.doing.textContent = cancelling ? words.cancelling : progress ? words.progress(progress) : "";
    this.bar.setAttribute("aria-label", opening);
    // Without a value the bar is indeterminate.
    if (progress?.share === null || progress?.share === undefined) this.bar.removeAttribute("value");
    else this.bar.value = progress.share;
    this.button.disabled = Boolean(cancelling);
  }
}
