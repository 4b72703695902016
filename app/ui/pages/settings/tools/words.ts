// Every word of the tools part of the Settings page.

import { several } from "../../../shared/format";

export const words = {
  title: "Tools",
  intro:
    "Servers that speak MCP, the Model Context Protocol, give models tools: files, search, calculators. A server starts when a chat first uses it. You are asked before each call, unless you trust the server in a chat.",
  none: "No servers yet. Add one, or import the JSON file of Claude Desktop, LM Studio, Cursor or VS Code.",
  add: "Add server",
  import: "Import JSON",
  phases: { stopped: "Not running", starting: "Starting …", ready: "Running", failed: "Failed" },
  off: "Off",
  toolsCount: (n: number) => several(n, "tool"),
  use: "Use in chats",
  start: "Start and list tools",
  again: "Try again",
  edit: "Edit",
  more: (name: string) => `More for ${name}`,
  remove: "Remove",
  removeAsk: (name: string) => `Remove ${name}?`,
  removeHint: "This stops its program and deletes its keys. Chats keep what it returned.",
  cancel: "Cancel",
  save: "Save",

  editTitle: (name: string) => `Edit ${name}`,
  kind: "Kind",
  kinds: [
    { value: "program", label: "Program on this machine" },
    { value: "http", label: "HTTP server" },
  ],
  name: "Name",
  nameHint: "For example: files",
  command: "Command",
  commandHint: "For example: npx, uvx or python",
  args: "Arguments",
  argsHint: "One per line",
  cwd: "Working folder",
  env: "Environment variables",
  envHint: "One NAME=value per line. Saved values are hidden.",
  url: "URL",
  urlHint: "https://example.com/mcp",
  headers: "Headers",
  headersHint: "One Name: value per line, such as Authorization. Saved values are hidden.",
  seconds: "Time limit per call, in seconds",
  optional: "optional",
  moreFields: "More settings",
  runs: "Foretoken runs this program with your permissions. Add only programs that you trust.",
  runsImported: "Foretoken runs the programs of these servers with your permissions. Import only what you trust.",

  importTitle: "Import servers",
  importHint: 'Paste JSON of the form {"mcpServers": {...}}, or choose the file.',
  importText: "JSON",
  importFile: "Choose file",
  imported: (names: string[]) => `Added ${names.join(", ")}.`,

  rounds: "Tool steps per message",
  roundsHint:
    "In a step the model calls one or more tools and reads the results. After this many steps it stops; you can continue.",
};
