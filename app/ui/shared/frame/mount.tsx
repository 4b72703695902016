// Where pages are drawn, each when it is first shown: beside Gradio's frame, which is built a second later and shows nothing.

import { render, type ComponentType } from "preact";
import { address } from "../addresses";
import { Server } from "./hooks";
import { status } from "./status";
import type { Endpoints } from "./server";

const pages = new Map<string, ComponentType>(); // that are not drawn yet, by their names

window.Foretoken = { refresh: () => status.refresh() };

const session = crypto.getRandomValues(new Uint32Array(2)).join("");

// Registers the component that draws the page `name`. It is mounted when the page is first shown, and stays.
export const register = (name: string, Page: ComponentType) => void pages.set(name, Page);

// Begins to ask for the status, and draws each page that is shown.
export function drawPages() {
  status.begin(endpointsOf("chat").status);
  address.watch(drawPage);
  drawPage(address.page);
}

function drawPage(name: string) {
  const Page = pages.get(name);
  if (!Page) return;
  pages.delete(name);
  const root = document.createElement("main");
  root.id = `${name}-page`;
  // With Gradio's resets, which it gives to its own container.
  root.className = `ft-page ft-${name} gradio-container-${window.gradio_config.version.replaceAll(".", "-")}`;
  document.body.append(root);
  const page = (
    <Server.Provider value={endpointsOf(name)}>
      <Page />
    </Server.Provider>
  );
  render(page, root);
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
