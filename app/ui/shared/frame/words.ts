// Every word of the frame: the top bar, the keyboard shortcuts, and what is said while the app does not answer.

export const words = {
  pages: "Pages",
  lab: "Lab",
  skip: "Skip to the message box",
  skipMenu: "Skip the menu",
  close: "Close",
  cancel: "Cancel",
  cancelling: "Stopping after the current step",
  progress: ({ doing, share, done, total, speed, eta }: import("./status").Progress) => {
    if (doing) return share === null ? doing : `${doing}, ${done} of ${total}`;
    return [`${done} of ${total}`, speed, eta && `${eta} left`].filter(Boolean).join(", ");
  },
  dismiss: "Dismiss",
  about: "More about this",
  copy: "Copy",
  copied: "Copied",
  save: "Save",
  theme: { light: "Switch to the light theme", dark: "Switch to the dark theme" },
  lost: "Foretoken does not answer. Is it still running? This page reconnects by itself.",
  away: "Lost connection. Reconnecting; your text is safe.",
  back: "Connected again.",
  stale: "Foretoken was restarted. Reload the page; your draft is kept.",
  reload: "Reload",
  measurementGone: "Foretoken was restarted, so this run is lost. Start it again.",
  shortcutsTitle: "Keyboard shortcuts",
  takeTour: "Take the tour",
  shortcuts: [
    [["Enter"], "Send the message"],
    [["Shift", "Enter"], "Start a new line"],
    [["Esc"], "Stop the reply, or close what is open"],
    [["↑"], "In an empty message box: edit the last message"],
    [["Ctrl", "Z"], "Undo a deletion"],
    [["Alt", "N"], "New chat"],
    [["Alt", "K"], "Search chats"],
    [["Alt", "M"], "Choose the model"],
    [["Alt", "S"], "Show or hide rounds and settings"],
    [["?"], "Show this list"],
  ],
};
