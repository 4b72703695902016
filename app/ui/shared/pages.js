// What the components of the pages find as `window.Foretoken`: each page's script puts itself there.

import { brand } from "./brand.js";
import { status } from "./status.js";

const pages = { refresh: () => status.refresh() };

// Lets the component `name` be drawn by a `Page`; see app/ui/components.py.
export function register(name, Page) {
  pages[name] = (component) => new Page(component);
}

window.Foretoken = pages;
brand();
