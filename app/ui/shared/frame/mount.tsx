// Where pages are drawn, each when it is first shown: inside Gradio's component, or, as long as Gradio has not built that,
// which takes most of a second, in a place beside Gradio's, where it stays.

import { render, type ComponentType } from "preact";
import { address } from "../addresses";
import { Server } from "./hooks";
import { status } from "./status";
import type { Endpoints } from "./server";

const pages = new Map<string, ComponentType>(); // by the pages' names
const places = new Map<string, Element>(); // inside Gradio's components
const drawn = new Set<string>();

window.Foretoken = { refresh: () => status.refresh() };

const session = crypto.getRandomValues(new Uint32Array(2)).join("");

// Registers the component that draws the page `name`. It is mounted when the page is first shown, and stays. Gradio's
// component calls `window.Foretoken[name]` when it is there; see app/ui/components.py.
export function register(name: string, Page: ComponentType) {
  pages.set(name, Page);
  window.Foretoken[name] = ({ element }: { element: Element }) => {
    const page = element.closest(".ft-page") as Element;
    if (drawn.has(name)) return page.remove();
    page.id = `${name}-page`;
    places.set(name, element.querySelector(`.ft-${name}`) as Element);
  };
}

// Begins to ask for the status, and draws each page that is shown.
export function drawPages() {
  status.begin(endpointsOf("chat").status);
  address.watch(drawPage);
  drawPage(address.page);
}

function drawPage(name: string) {
  const Page = pages.get(name);
  if (!Page || drawn.has(name)) return;
  drawn.add(name);
  const page = (
    <Server.Provider value={endpointsOf(name)}>
      <Page />
    </Server.Provider>
  );
  render(page, places.get(name) ?? placeBeside(name));
}

// Returns a place for a page beside Gradio's, with Gradio's resets, which it gives to its own container.
function placeBeside(name: string) {
  const page = document.createElement("div");
  const root = document.createElement("div");
  page.id = `${name}-page`;
  page.className = `ft-page early gradio-container-${window.gradio_config.version.replaceAll(".", "-")}`;
  root.className = `ft-${name}`;
  page.append(root);
  document.body.append(page);
  return root;
}

// Returns the functions that Python offers to a page. They are Gradio's, but do not wait for its client.
function endpointsOf(name: string): Endpoints {
  const { components, api_prefix: prefix } = window.gradio_config;
  const component = components.find(({ props }) => props.elem_id === `${name}-view`);
  const ask = async (function_name: string, data: unknown) => {
    const body = { data, component_id: component?.id, fn_name: function_name, session_hash: session };
    const headers = { "content-type": "application/json" };
    const reply = await fetch(`${prefix}/component_server/`, { method: "POST", headers, body: JSON.stringify(body) });
    return reply.ok ? reply.json() : undefined;
  };
  const names = component?.props.server_fns ?? [];
  return Object.fromEntries(names.map((each) => [each, (data: unknown) => ask(each, data)]));
}
