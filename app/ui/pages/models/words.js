// Every word that the models page's script says.

export const say = {
  now: "Loaded now", load: "Load", loaded: (pair) => `${pair} is loaded.`, chatWith: "Chat with it", open: "Open", loadedNow: "loaded", dismiss: "Dismiss", models: "Models", again: "Rescan",
  download: (size) => `Download ${size}`, downloadHint: (name) => `Download ${name}`,
  counted: (shown, all) => (shown === all ? `${all} models` : `${shown} of ${all} models`), looking: "still looking …",
  search: "Search", searchHint: "Name, owner or path", nothing: "No model is like that. Change the filters, or add one below.",
  where: "Where", wheres: { "": "Everywhere", here: "On this machine", away: "To download" },
  size: "Size", sizes: { "": "Any size", 1: "Up to 1 GB", 4: "Up to 4 GB", 16: "Up to 16 GB" },
  licence: "Licence", anyLicence: "Any licence", fitsOnly: "Fits into memory", draftOnly: "Has a draft", clear: "Clear filters",
  columns: { name: "Model", parameters: "Parameters", bytes: "Size", fits: "In memory", draft: "Draft", licence: "Licence", action: "Action" },
  fits: { yes: (held) => `✓ ${held} · fits`, part: (held, tokens) => `◐ ${held} · up to ${tokens.toLocaleString("en")} tokens`, no: (held) => `✕ ${held} · too large` },
  draftHint: "What Load takes with it; the details have others", noDraft: "none", comparingOne: "…",
  untriedHint: "Unknown until it is tried: load it, then tune it or race it",
  details: (name) => `Details of ${name}`, here: "on this machine", away: "not here", recent: "opened before", forget: "Forget", forgetHint: "List it no more; nothing of it is touched",
  parameters: (n) => `${n} parameters`, context: (n) => `${n} tokens of context`, gated: "gated", gatedHint: "Its owner asks you to accept terms on the hub, with an account's token",
  withDraft: (name) => `As ${name}`,
  // Drafters
  draftersOf: "What can draft for it", comparing: "Comparing vocabularies …",
  groups: { heads: "Heads made for it", same: "Draft models of its vocabulary", across: "Draft models of another vocabulary", no: "Not these, and why" },
  none: "Without a draft", noneBody: "n-gram and suffix guess from the text itself, with every model.",
  fitsDraft: (across) => (across ? `fits ${across}` : "fits: one vocabulary, and it is smaller"), fitsHead: (kind, name) => (kind === name ? "made for this model" : `${kind}: made for this model`),
  triedHint: "Against plain decoding, on this machine: as Tune measured it, or by the chats since the start",
  untriedDraft: "speed-up unknown until tried",
  breakEven: (share) => (share >= 1 ? "too big to pay" : `worth it if more than ${Math.max(1, Math.round(100 * share))}% of its guesses are right`), breakEvenHint: "By the sizes: what must be read for a guess, against what for a token of the target",
  loadWith: "Load with it", loadWithout: "Load without a draft", reckon: "Memory", reckonHint: (name) => `Reckon the memory with ${name}`,
  // Memory
  memory: "Memory", contextLabel: "Context", tokens: (n) => `${n.toLocaleString("en")} tokens`,
  partNames: { work: "app and work", weights: "weights", kv: "KV cache", free: "free", lacking: "lacking" },
  roles: { "": "", target: "target", draft: "draft" }, part: (kind, role) => (role ? `${say.roles[role] ?? role} ${say.partNames[kind]}` : say.partNames[kind]),
  needs: (needed, free) => `${needed} needed, ${free} free`, held: (text) => (text === "stored" ? "weights as the file has them" : `weights in ${text}`),
  // Downloads
  states: { waiting: "waiting for the one before", running: "downloading", paused: "paused", failed: "failed" },
  progress: (d) => [d.total ? `${d.done} of ${d.total}` : d.done, d.speed, d.eta && `${d.eta} left`].filter(Boolean).join(", "),
  pause: "Pause", resume: "Resume", retry: "Try again", discard: "Delete what arrived", dismiss: "Dismiss", downloads: "Downloads", downloadOf: (name) => `Download of ${name}`,
  token: "Access token", tokenHint: "hf_…", keepToken: "Keep it and try again", tokenWhere: "Accept the terms on the model's page, then create a token there.", modelPage: "Its page on the hub", forgetToken: "Forget the token",
  // Adding
  openPath: "Open a folder or a GGUF file", target: "Target", targetHint: "/path/to/target or file.gguf", draft: "Draft or head (optional)", draftHint: "/path/to/draft, file.gguf or head",
  openInfo: "A GGUF file, or a model in transformers' layout with safetensors weights. Type a path, browse for it, or drop a file here.",
  browse: "Browse", browseFor: (label) => `Browse for ${label}`, up: "Up", close: "Close", emptyFolder: "No folder and no model in here.", moreEntries: (n) => `${n} more are not shown.`, folderNow: "Folder",
  hub: "From the Hugging Face hub", repository: "Repository", repositoryHint: "owner/name, or the address of its page", lookUp: "Look up", lookingUp: "Asking the hub …",
  hubInfo: "Any repository with safetensors in transformers' layout or GGUF files. Nothing is sent but its name.", choices: (name) => `In ${name}`,
  // Servers
  servers: "Servers", serversInfo: "vLLM, SGLang, TensorRT-LLM, Dynamo, llama-server, Ollama, LM Studio, another Foretoken, or anything that speaks OpenAI's protocol. Chats go there, and nowhere else.",
  address: "Address", addressHint: "http://127.0.0.1:8000", key: "Key (if it asks for one)", ask: "Ask", asking: "Asking …",
  answers: (name, place) => `${name} answers at ${place}`, noModels: "It lists no models. Load one there first, then ask again.", noModelThere: (name) => `It has no model "${name}". It has:`, contextOf: (n) => `${n.toLocaleString("en")} tokens of context`,
  notLoadedThere: "not in its memory yet", loadsThere: (out) => (out ? `not in its memory: connecting has it loaded in the place of ${out}` : "not in its memory: connecting has it loaded"), connect: "Connect", connectTo: (name) => `Connect to ${name}`, connected: "connected", forgetServer: (name) => `Forget ${name} and its key`, forgetPlain: "Forget", knownServers: "Connected before",
  // The disk
  disk: "Disk", diskLine: (total, free, folder) => `Downloads take ${total} in ${folder}; ${free} are free.`, unfinished: "unfinished", inUse: "in use",
  remove: "Delete", removeSure: (size) => `Delete ${size}?`, keep: "Keep", removeNamed: (name) => `Delete ${name}`,
  places: "Models of LM Studio, Ollama, llama.cpp, the Hugging Face cache and downloads are found by themselves.",
  place: "Folder to look in", placeHint: "/path/to/models", add: "Add folder", addIt: "Add", adding: "Looking …", foundIn: (n, path) => `${n === 1 ? "1 model" : n ? `${n} models` : "No model"} found in ${path}.`, modelsIn: (n) => (n === 1 ? "1 model" : `${n} models`), take: "Remove", gone: "not there",
  unusable: (n) => (n === 1 ? "1 that cannot be run, and why" : `${n} that cannot be run, and why`),
};
