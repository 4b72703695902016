// Every word that the models page's script says.

export const say = {
  now: "Loaded now", catalog: "Catalog", openFolder: "Open a local folder", open: "Open", load: "Load", loadedNow: "loaded",
  download: (size) => `Download ${size} and load`,
  progress: (p) => `${p.done} of ${p.total}, ${p.speed}${p.eta ? `, ${p.eta} left` : ""}`,
  folder: "Target folder", folderHint: "/path/to/target", folderDraft: "Draft folder (optional)", folderDraftHint: "/path/to/draft",
  folderInfo: "A model in transformers' layout with safetensors weights. A draft with the target's own vocabulary is best; with another one it drafts across vocabularies.",
  parameters: (n) => `${n} parameters`, context: (n) => `${n} context`, gated: "gated", gatedHint: "Its owner asks you to accept terms on the hub, with an account's token",
  here: "✓ on disk", away: "not on disk", why: "Other drafts, and why they do or do not fit", fitsDraft: (across) => across ? `fits ${across}` : "fits",
};
