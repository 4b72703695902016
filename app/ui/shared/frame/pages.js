// The registry of page scripts, `window.Foretoken`, and what pages have in common.

import { brand } from "./brand.js";
import { answered, reason } from "./server.js";
import { status } from "./status.js";
import { h } from "../dom.js";
import { words } from "../words.js";

const pages = { refresh: () => status.refresh() };

// A page that calls endpoints and shows why one failed.
export class Page {
  constructor(server) {
    this.server = server;
    this.alert = h("p", { class: "ft-error", role: "alert", hidden: true });
  }

  // Calls an endpoint. Returns null, and shows why, where it was refused or the app did not answer.
  async ask(name, data = {}) {
    try {
      return await answered(this.server[name](data));
    } catch (error) {
      this.fail(reason(error));
      return null;
    }
  }

  fail(text) {
    this.alert.textContent = text ?? "";
    this.alert.hidden = !text;
  }
}

// Registers the class that draws the component `name`; see app/ui/components.py. Its `back()` is called when the app,
// perhaps restarted, answers again.
export function register(name, Page) {
  pages[name] = (component) => {
    const page = new Page(component);
    status.watchAway((gone) => !gone && page.back());
    return page;
  };
}

// Hide every "app does not answer" once it answers again.
status.watchAway((gone) => {
  if (gone) return;
  for (const node of document.querySelectorAll(".ft-error")) if (node.textContent.startsWith(words.lost)) node.hidden = true;
});

window.Foretoken = pages;
brand();
