// Every word of the chat page. Those of the rounds and figures are in app/ui/shared/replay/words.ts.

import { count, percent, several } from "../../shared/format";
import type { Status } from "../../shared/frame/status";

const cut = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const reasons: Record<string, (stats: any) => string> = {
  cancelled: () => "Stopped",
  length: (stats) =>
    stats?.completion_tokens
      ? `Stopped at the ${count(stats.completion_tokens)}-token limit`
      : "Stopped at the token limit",
  full: () => "Stopped: the context is full",
  interrupted: () => "Interrupted: Foretoken was closed",
};

// Of a reply without an answer, by its end.
const unanswered: Record<string, string> = {
  done: "The reply ended while thinking. Retry",
  length: "The token limit was reached while thinking. Raise Max tokens and retry",
  full: "The context filled up while thinking. Exclude early turns and retry",
};

const exports: Record<string, string> = { markdown: "Export as Markdown", json: "Export as JSON" };

const groups: Record<string, string> = {
  here: "On this machine",
  server: "On servers",
  away: "To download",
  large: "Too large for this machine",
};

export const words = {
  conversation: "Conversation",
  messages: "Messages",
  newest: "Newest",
  close: "Close",
  cancel: "Cancel",
  undo: "Undo",
  more: "More",
  rename: "Rename",
  remove: "Delete",
  untitled: "New chat",
  gone: "This chat no longer exists.",

  // The list of chats
  chats: "Chats",
  newChat: "New chat",
  clear: "Clear chat",
  search: "Search chats",
  noneFound: "No matches.",
  noChats: "Chats are stored on this computer.",
  exports,
  importChat: "Import",
  importHint: "Import chats: exported here (JSON), from ChatGPT (the zip of its export) or LM Studio",
  importing: (name: string) => `Importing ${name} …`,
  today: "Today",
  yesterday: "Yesterday",
  week: "Previous 7 days",
  month: "Previous 30 days",
  newFolder: "New folder",
  folderName: "Folder name",
  folderEmpty: "Drag a chat here, or use “Move to” in its menu.",
  deleteFolder: "Delete folder, keep chats",
  moveTo: "Move to",
  noFolder: "No folder",
  chatDeleted: (title: string) => `Deleted “${cut(title, 40)}”.`,
  messageDeleted: (following: number) =>
    following ? `Deleted this message and ${following} after it.` : "Deleted this message.",
  cleared: "Chat cleared.",

  // The drawer
  drawer: "Rounds and settings",
  rounds: "Rounds",
  settings: "Settings",
  mark: "Highlight drafted text",
  markInfo: "Solid line: drafted. Box: correction, in place of a rejected token. Dots: bonus, after an accepted draft.",
  chatSystem: "This chat uses",
  systemOfAll: "Default (above)",
  namePrompt: "Save as preset",
  promptName: "Preset name",
  savePrompt: "Save",
  deletePrompt: "Delete preset",

  // The model and its method
  pair: "Model",
  chip: (label: string) => `${label}. Switch model or drafting method`,
  pairState: (status: Pick<Status, "loaded" | "opening" | "progress" | "unloaded"> | null, method: string) => {
    if (!status) return "Starting …";
    const { loaded, opening, progress, unloaded } = status;
    if (opening) return progress?.share ? `${opening} · ${percent(progress.share)}` : opening;
    if (loaded) return `${loaded.label} · ${method}`;
    return unloaded ? words.unloaded(unloaded) : words.noModel;
  },
  noModel: "No model is loaded",
  noModelBody: "Choose one to start. Small models download in a minute.",
  chooseModel: "Choose a model",
  openModels: "Open Models",
  models: "Models",
  method: "Method",
  searchModels: "Search models",
  groups,
  noModels: "No matches.",
  allModels: "More models, downloads and servers",
  facts: "Details of the loaded model",
  isLoaded: "Loaded",
  fits: { yes: "", part: "fits with shorter context", no: "does not fit" },
  download: (size: string) => `Download ${size}`,
  gated: "needs an access token",
  loadOptions: "Load options",
  loadOptionsOf: (name: string) => `Load options of ${name}`,
  fixedBy: (option: string) => `Set by ${option} on the command line.`,
  options: {
    automatic: "Automatic",
    context: "Context, tokens",
    contextHint: ({ largest, longest }: any) =>
      longest ? `Up to ${count(longest)}${largest && largest < longest ? `; ${count(largest)} fit now` : ""}` : "",
    threads: "CPU threads",
    threadsDefault: (n: number) => `Automatic (${n})`,
    cache: "KV cache",
    reload: "Reload with these",
  },
  unload: "Unload",
  unloaded: (title: string) => `${title} is unloaded`,
  unloadedBody: "Your next message loads it again.",
  methods: "Drafting method",
  isDefault: "default",
  noPair: "Load a model to choose a drafting method.",
  moreMethods: "More methods",
  others: ["Find compatible drafts on ", ", or train your own on ", "."],
  otherModel: (writer: string, loaded: string | undefined) =>
    loaded ? `This chat used ${writer}. ${loaded} would answer next.` : `This chat used ${writer}. No model is loaded.`,
  loadWriter: (writer: string) => `Load ${writer}`,
  baseModel: (name: string) =>
    `${name} is a base model: it continues text instead of answering. For chat, load a model with “instruct” or “chat” in its name.`,

  // The message box
  placeholder: "Write a message",
  hint: "Enter sends, Shift+Enter starts a new line, Esc stops",
  send: "Send",
  stop: "Stop",
  thinkingChoice: "Thinking",
  empty: "The message is empty.",
  busy: "Stop the current reply first.",
  afterReply: "Sends after the current reply: ",
  afterLoad: "Queued until the model has loaded: ",
  loadCancelled: "Loading was cancelled, so the message was not sent.",
  attachHint: "Attach files or a web page",
  attachFiles: "Files (PDF, Word, text, pictures …)",
  pictureOf: (name: string) => `Picture: ${name}`,
  blind: "Remove the picture, or load a model that sees images.",
  attachPage: "Add a web page",
  address: "Address",
  addressHint: "Foretoken reads the page now and adds its text. Nothing else is fetched.",
  addPage: "Add",
  readingPage: "Reading …",
  readingFiles: (names: string[]) => `Reading ${names.join(", ")} …`,
  stillReading: "Wait until the files are read.",
  pasted: "Pasted text.txt",
  tokens: (n: number) => several(n, "token"),
  characters: (n: number) => (n < 1000 ? several(n, "character") : `${count(Math.round(n / 1000))} K characters`),
  allPages: "all that fit",
  pagesOf: (name: string) => `Pages of ${name}`,
  pagesHint: "Pages to include, such as 1-5, 12. Empty: all that fit.",
  fit: ({ context, exact, files, used }: any) => {
    const all = files.reduce((sum: number, { tokens }: any) => sum + tokens, 0);
    const said = `${exact ? "" : "About "}${several(all, "token")} attached`;
    if (!context) return `${said}.`;
    return `${said}${used < 100 ? "" : `, ${count(used)} in this chat`}; the context holds ${count(context)}.`;
  },
  detach: (name: string) => `Remove ${name}`,
  context: {
    name: "Context used",
    used: (used: number, limit: number) => `${count(used)} of ${count(limit)} tokens of context`,
    nearly: "Nearly full. Exclude early turns or start a new chat.",
    full: "Full. Exclude early turns or start a new chat.",
  },
  chooseDropped: "Choose turns to exclude",
  tooLong: "Too long to send",
  freeContext: "Free up context",
  fullHint: "Excluded turns stay in the chat and can be included again. The system prompt is kept.",
  dropOldest: "Exclude oldest and send",
  dropChosen: "Exclude selected and send",
  leaveChosen: "Exclude selected",

  // Messages
  edit: "Edit",
  editReply: "Edit reply",
  editReplyHint: "The previous version is kept, with its rounds.",
  saveReply: "Save",
  saveAndContinue: "Save and continue",
  edited: "Edited by you. Its rounds show only what the model wrote afterwards.",
  fork: "Fork",
  forkHint: "Start a new chat with everything up to here",
  forked: "This is the fork. The original chat is unchanged.",
  copy: "Copy",
  copied: "Copied",
  retry: "Retry",
  answer: "Answer",
  retryHint: "Write this reply again. With temperature 0 or a fixed seed the text will be the same.",
  showRounds: "Rounds",
  saveAndSend: "Save and send",
  versions: "Versions of this message",
  versionBefore: "Previous version",
  versionAfter: "Next version",
  leftOut: "Excluded: the model does not see it",
  includeAgain: "Include again",
  continue: "Continue",
  continueHint: "Continue this reply from where it stopped",
  changeLimit: "Change limit",
  reasons,
  unanswered,
  silent: "The model ended its reply without a word. Retry, or ask in other words.",
  advice: (what: string, thinks: boolean) => `${what}${thinks ? ", or turn Thinking off" : ""}.`,
  waiting: (n: number) => `Waiting: ${several(n, "request")} ahead`,
  reading: (n: number | null) => (n === null ? "Reading the prompt" : `Reading the prompt (${several(n, "token")})`),
  writing: "Writing",
  finished: "Reply finished",
  reused: (taken: number, drafted: number) => `Reused ${taken} of ${drafted} tokens from the previous reply.`,
  reusedHint: "Reused text is verified quickly, so this speed is not compared.",

  tour: {
    ask: "New here?",
    yes: "Take the tour",
    no: "No, thanks",
    back: "Back",
    next: "Next",
    done: "Done",
    count: (step: number, of: number) => `${step} of ${of}`,
    steps: [
      {
        place: "picker",
        title: "Your model",
        text: "The loaded model and its draft model. Click to switch, or to see why a method is unavailable.",
      },
      {
        place: "dial",
        title: "Speed",
        text: "While the model writes, a bar compares its speed with the speed without drafting and another marks the acceptance from which drafting is faster.",
      },
      {
        place: "rounds",
        title: "What was drafted",
        text: "Each row is a round: what was guessed, what was accepted, and what the model chose instead. Click a row for its text.",
      },
      {
        place: "race",
        title: "Is it faster here?",
        text: "Race runs the same prompt both ways, alternating, and names a winner only when the runs agree.",
      },
      {
        place: "server",
        title: "For your other programs",
        text: "The same model answers OpenAI's API on this computer. Copy ready-made code here.",
      },
    ],
  },
};

// Where rounds are seen: beside the chat, or behind the button that opens them.
export const where = { open: "on the right", closed: "under “Rounds”" };

// What a model is asked first: what it is good at. `{where}` in the body is `where`.
interface Greeting {
  fits: (model: any) => boolean; // tried in order
  title: (model: any) => string;
  body: string;
  examples: { label: string; text: string }[];
}

export const greetings: Greeting[] = [
  {
    fits: (model) => model.pip,
    title: () => "Hello, I am Pip.",
    body: "I am a small model trained for this app, and its guide. While I write, a smaller draft guesses ahead and I check its guesses. Watch the rounds {where}.",
    examples: [
      { label: "Ask the guide", text: "What is speculative decoding?" },
      { label: "Tell a story", text: "Tell me a short tale about a fox and a lantern." },
      { label: "Make JSON", text: "Write JSON for a person: name Ada, age 36, city London." },
      {
        label: "Rewrite",
        text: "Change the name Mara to Jonas in this note:\n\nMara promised to bring the lamp to the harbour. On Friday Mara will visit the market. Please tell Mara that the shop is closed.",
      },
      { label: "Introduce yourself", text: "Hi, my name is Mira." },
      { label: "Ask about draft depth", text: "What depth is good for JSON?" },
    ],
  },
  {
    fits: (model) => /cod(e|er|ing)\b|star-?coder|codestral|devstral/i.test(model.greeting),
    title: (model) => `${model.greeting} is ready.`,
    body: "It was trained on code. Watch each drafted token being checked {where}. Repetitive code speeds up most.",
    examples: [
      {
        label: "Write a function",
        text: "Write a Python function that merges two sorted lists into one sorted list, with type hints and a docstring.",
      },
      {
        label: "Rename a variable",
        text: "Rename `n` to `count` in this function and return the full function:\n\ndef total(n, price):\n    if n < 0:\n        raise ValueError(n)\n    return n * price",
      },
      {
        label: "Explain",
        text: "Explain what this does, in three sentences:\n\nsorted(words, key=lambda w: (-len(w), w))[:10]",
      },
      {
        label: "Find the bug",
        text: "Find the bug in this function and fix it:\n\ndef mean(values):\n    total = 0\n    for value in values:\n        total += value\n        return total / len(values)",
      },
      {
        label: "Write tests",
        text: "Write three pytest tests for a function slugify(title: str) -> str that makes a URL-friendly title.",
      },
      {
        label: "Write SQL",
        text: "Write SQL for the ten customers with the highest total of orders in 2024, from tables customers(id, name) and orders(id, customer_id, total, ordered_on).",
      },
    ],
  },
  {
    fits: () => true,
    title: (model) => `${model.greeting} is ready.`,
    body: "Ask anything. Watch each drafted token being checked {where}.",
    examples: [
      { label: "Explain", text: "Explain in five sentences why the sky is blue." },
      {
        label: "Rewrite",
        text: "Rewrite this note in a friendly tone and keep every fact:\n\nThe meeting is moved to Friday, 10 o'clock, room 4. Bring the report. Tell Mara.",
      },
      { label: "Make JSON", text: "Write JSON for a person: name Ada, age 36, city London." },
      { label: "Tell a story", text: "Tell me a short tale about a fox and a lantern." },
    ],
  },
];
