// Every word of the Settings page.

import { several } from "../../shared/format";

// Sizes as text.
type UserData = { chats: number; chat_bytes: string; remembered_bytes: string; recorded_bytes: string };

export const words = {
  title: "Settings",
  intro: "Changes are saved when you make them.",

  theme: "Theme",
  themes: { system: "System", light: "Light", dark: "Dark" },

  computing: "Startup and hardware",
  computingHint: "Applies to the next model you load. Command-line options take precedence.",
  start: "On startup, load",
  starts: {
    pip: () => "Pip (included)",
    last: (pair: string) => (pair ? `The last model used (${pair})` : "The last model used"),
    chosen: (pair: string) => pair,
    now: (pair: string) => `${pair} (loaded now)`,
  },
  device: "Device",
  devices: { auto: "Automatic", cpu: "CPU", cuda: "NVIDIA GPU" },
  missing: (name: string) => `${name} (not available)`,
  threads: "CPU threads",
  threadsDefault: (n: number) => `Automatic (${n})`,
  threadsHint: "Using more threads than cores is slower.",
  idle: "Unload the model when idle",
  idleHint: "Frees its memory. The next message loads it again.",
  idleAfter: (minutes: number | null) => {
    if (minutes === null) return "Never";
    if (minutes >= 60) return minutes === 60 ? "After 1 hour" : `After ${minutes / 60} hours`;
    return `After ${several(minutes, "minute")}`;
  },
  native: "Compiled CPU kernels (recommended)",
  nativeHint: "Without them PyTorch computes, which is much slower. The text is the same.",
  fixed: (options: string[]) => `Set by ${options.join(" and ")} on the command line.`,
  reload: (pair: string) => `Reload ${pair} to apply.`,
  reloadNow: "Reload now",

  chatsTitle: "Chats",
  chats: "Temperature, system prompt and drafting method are beside each chat, under Settings.",
  openChat: "Open the chat",
  titles: "Name new chats automatically",
  titlesHint: "The model writes a short title while nothing else runs, if it has a billion parameters or more.",

  folders: "Folders",
  folderNames: {
    data: "Chats and settings",
    models: "Downloaded models",
    cache: "Compiled kernels",
    hub: "Hugging Face cache",
  },
  folderHints: {
    data: "Change with --data-dir.",
    models: "Change with the variable FORETOKEN_MODELS.",
    cache: "Safe to delete.",
    hub: "Shared with other programs.",
  },
  moved: (by: string) => `Set by ${by}.`,
  measuring: "Measuring …",
  absent: "not created yet",
  free: (size: string) => `${size} free on this disk.`,
  toModels: "Manage downloads",
  open: "Open",
  openNamed: (name: string) => `Open ${name}`,
  copyPath: (name: string) => `Copy the path of ${name}`,

  history: "Delete chat history",
  historyInfo: ({ chats, chat_bytes, remembered_bytes, recorded_bytes }: UserData) =>
    `Deletes ${several(chats, "chat")} (${chat_bytes}), past replies used for drafting (${remembered_bytes}), training recordings (${recorded_bytes}), and unsent messages in this browser.`,
  historyStays: "Settings, system prompts, models and trained drafters stay, and so do files you exported.",
  delete: "Delete…",
  deleteSure: "Delete permanently",
  cancel: "Cancel",
  deleted: "Chat history deleted.",
  held: "The loaded model may still reuse old text from memory until you reload it.",

  diagnostics: "Diagnostics",
  diagnosticsHint: "For bug reports. Contains no chats and no keys.",
  copyDiagnostics: "Copy",
  diagnosticsCopied: "Copied",
  showDiagnostics: "Show",
  hideDiagnostics: "Hide",
};
