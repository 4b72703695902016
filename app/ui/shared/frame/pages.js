// What the components of the pages find as `window.Foretoken`: each page's script puts itself there.

import { brand } from "./brand.js";
import { status } from "./status.js";
import { words } from "../words.js";

const pages = { refresh: () => status.refresh() };

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
