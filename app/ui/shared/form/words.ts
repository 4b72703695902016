// Every word of the form of settings that does not come from Python.

export const words = {
  loading: "Loading the settings …",
  presets: "Presets",
  ownSettings: "Your own settings",
  advanced: "Advanced",
  defaults: "Reset to defaults",
  undoDefaults: "Undo reset",
  notHere: "Not available for this model.",
};
