// Every word that the models page's script says.

export const say = {
  now: "Loaded now", catalog: "Catalog", openFolder: "Open a folder or a GGUF file", open: "Open", load: "Load", loadedNow: "loaded",
  download: (size) => `Download ${size} and load`,
  fitMarks: { yes: "✓ ", part: "◐ ", no: "✕ " }, dismiss: "Dismiss",
  found: "On this machine", again: "Look again", nothingFound: "No model of another program lies here. Add a folder below, open a path, or download one from the catalog.",
  looking: (n) => `${n} so far, still looking …`, lookingNow: "Looking through the folders of LM Studio, Ollama, llama.cpp and Hugging Face …",
  foundCount: (n) => (n === 1 ? "1 model" : `${n} models`), unusable: (n) => (n === 1 ? "1 that cannot be run, and why" : `${n} that cannot be run, and why`),
  drafts: "Drafts for it", loadWith: "Load with it", comparing: "Comparing vocabularies …", noDrafts: "No other model lies here that could draft for it.",
  places: "Looked at are LM Studio, Ollama, llama.cpp, the Hugging Face cache, downloads, and folders that you add:",
  place: "Folder to look in", placeHint: "/path/to/models", add: "Add folder", remove: "Remove", gone: "not there",
  folder: "Target", folderHint: "/path/to/target or file.gguf", folderDraft: "Draft (optional)", folderDraftHint: "/path/to/draft or file.gguf",
  folderInfo: "A GGUF file, or a model in transformers' layout with safetensors weights. A draft with the target's own vocabulary is best; with another one it drafts across vocabularies.",
  parameters: (n) => `${n} parameters`, context: (n) => `${n} context`, gated: "gated", gatedHint: "Its owner asks you to accept terms on the hub, with an account's token",
  here: "✓ on disk", away: "not on disk", why: "Other drafts, and why they do or do not fit", fitsDraft: (across) => across ? `fits ${across}` : "fits",
};
