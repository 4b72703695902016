// What the components of the pages find as `window.Foretoken`: each page's script puts itself there.

import { brand } from "./brand.js";
import { answered, reason } from "./server.js";
import { status } from "./status.js";
import { h } from "../dom.js";
import { words } from "../words.js";

const pages = { refresh: () => status.refresh() };

// What pages have in common: they ask Python, and say why something failed.
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

// Lets the component `name` be drawn by a `Page`; see app/ui/components.py. Its `back()` is called when the app
// answers again: what could not be asked meanwhile is asked then, perhaps of another run of the app.
export function register(name, Page) {
  pages[name] = (component) => {
    const page = new Page(component);
    status.watchAway((gone) => !gone && page.back());
    return page;
  };
}

// That the app was away is said no more once it is back, wherever it was said.
status.watchAway((gone) => {
  if (gone) return;
  for (const node of document.querySelectorAll(".ft-error")) if (node.textContent.startsWith(words.lost)) node.hidden = true;
});

window.Foretoken = pages;
brand();
