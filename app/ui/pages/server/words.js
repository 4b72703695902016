// Every word that the server page's scripts say.

export const say = {
  title: "OpenAI-compatible endpoint", info: "Any OpenAI client can use the loaded pair, with the same speculation. Draft statistics come in the field timings.",
  on: "on", off: "off", address: "Address", model: "Model",
  endpoints: "Endpoints",
  endpointList: [
    ["GET", "/v1/models", "the loaded pair"],
    ["POST", "/v1/chat/completions", "chat, streaming or whole"],
    ["POST", "/v1/completions", "plain completion of a prompt"],
    ["POST", "/v1/responses", "OpenAI's Responses API, for text"],
    ["POST", "/api/chat", "Ollama's protocol, with /api/generate, /api/tags and others"],
  ],
  offHint: "While it is off, every path under /v1 and /api answers 404, with an error body of its protocol.",

  // Calls
  callsTitle: "Call it",
  calls: {
    curl: { title: "curl", hint: "For the shell of Linux and macOS" },
    powershell: { title: "PowerShell", hint: "For the shell of Windows" },
    python: { title: "Python", hint: "With the package openai" },
    javascript: { title: "JavaScript", hint: "As a file call.mjs for node, or in a page that may" },
  },

  // Who may
  access: "Who may use it",
  key: "Key", keyGiven: "required: the one given at the start with --api-key", keySet: "required, and kept for the next start",
  keyNone: "none needed: only this machine can reach it", keyNeeded: "needed, for other machines can reach this one: set one, or start with --api-key",
  make: "Make one", makeAnother: "Make another", reveal: "Show", hide: "Hide", newKey: "A key of your own", setKey: "Set key",
  remove: "Remove", removeKey: "Remove the key",
  origins: "Pages of other origins", originsHint: "A browser lets a page of another origin use the API only where it is named here.",
  origin: "Origin", originExample: "http://localhost:3000", allow: "Allow", originGiven: "given at the start", forbid: (origin) => `Remove ${origin}`,

  // Requests
  requests: "Requests", noRequests: "Nothing has asked yet. Copy a call above and run it: it shows here as it comes. What is said is not kept.",
  columns: ["Came", "From", "For", "Drafted by", "Tokens", "Tokens/s", "Accepted", "State"],
  tokens: (prompt, reply) => `${prompt} → ${reply}`,
  stages: {
    arrived: "arrived", waiting: "waiting", running: "running", done: "done", length: "token limit", cancelled: "cancelled",
    refused: "refused", failed: "failed",
  },
  cancel: "Cancel", cancelOf: (at) => `Cancel the request of ${at}`,
};
