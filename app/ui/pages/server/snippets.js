// Example calls of the API under tabs, each with a copy button.

import { copy, h } from "../../shared/dom.js";
import { Tabs } from "../../shared/form/tabs.js";
import { words } from "../../shared/words.js";
import { say } from "./words.js";

const STORED = "foretoken.snippet"; // the tab that was opened last
const HIDDEN = "•".repeat(12); // stands for a key

const QUESTION = "What is speculative decoding?";

// A text as a POSIX shell reads it, and as PowerShell does.
const inShell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const inPowerShell = (text) => `'${text.replaceAll("'", "''")}'`;

// By name: curl, powershell, python, javascript. `base` ends with /v1; `key` null: none is needed.
export function calls({ base, model, key }) {
  const url = `${base}/chat/completions`;
  const body = JSON.stringify({ model, messages: [{ role: "user", content: QUESTION }] });
  const bearer = key && `Bearer ${key}`;
  const name = JSON.stringify(model);
  return {
    curl: [`curl ${url}`, "-H 'Content-Type: application/json'", bearer && `-H ${inShell(`Authorization: ${bearer}`)}`, `-d ${inShell(body)}`].filter(Boolean).join(" \\\n  "),
    powershell: `$body = ${inPowerShell(body)}
$reply = Invoke-RestMethod ${url} -Method Post -ContentType 'application/json'${bearer ? ` -Headers @{ Authorization = ${inPowerShell(bearer)} }` : ""} -Body $body
$reply.choices[0].message.content`,
    python: `from openai import OpenAI

client = OpenAI(base_url="${base}", api_key=${JSON.stringify(key ?? "none")})
reply = client.chat.completions.create(
    model=${name},
    messages=[{"role": "user", "content": ${JSON.stringify(QUESTION)}}],
    stream=True,
)
for chunk in reply:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`,
    javascript: `const reply = await fetch("${url}", {
  method: "POST",
  headers: { "Content-Type": "application/json"${bearer ? `, Authorization: ${JSON.stringify(bearer)}` : ""} },
  body: JSON.stringify({
    model: ${name},
    messages: [{ role: "user", content: ${JSON.stringify(QUESTION)} }],
  }),
});
const { choices } = await reply.json();
console.log(choices[0].message.content);`,
  };
}

export class Snippets {
  constructor() {
    this.texts = {};
    this.panes = Object.fromEntries(Object.entries(say.calls).map(([name, { hint }]) => [name, this.pane(name, hint)]));
    const titles = Object.fromEntries(Object.entries(say.calls).map(([name, { title }]) => [name, title]));
    this.tabs = new Tabs(this.panes, titles, say.callsTitle, (name) => this.pick(name));
    this.node = h("section", { class: "calls", "aria-label": say.callsTitle }, h("h2", {}, say.callsTitle), this.tabs.node, ...Object.values(this.panes));
    const first = navigator.platform.startsWith("Win") ? "powershell" : "curl";
    const stored = localStorage.getItem(STORED);
    this.pick(stored in this.panes ? stored : first);
  }

  pane(name, hint) {
    const code = h("code", {});
    const button = h("button", { class: "ft-link", type: "button", on: { click: () => copy(this.texts[name], button, words.copied) } }, words.copy);
    return h("div", { class: "snippet", id: `call-${name}`, dataset: { snippet: name } },
      h("div", { class: "code" }, h("div", { class: "code-bar" }, h("span", {}, hint), button), h("pre", { tabindex: "0" }, code)));
  }

  // The key is copied, and not shown unless `open`.
  show({ base, model, key }, open) {
    this.texts = calls({ base, model, key });
    const shown = calls({ base, model, key: key && !open ? HIDDEN : key });
    for (const [name, pane] of Object.entries(this.panes)) {
      const code = pane.querySelector("code");
      if (code.textContent !== shown[name]) code.textContent = shown[name];
    }
  }

  pick(name) {
    localStorage.setItem(STORED, name);
    this.tabs.show(name);
  }
}
