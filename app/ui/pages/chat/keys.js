// The keys of the chat page: Escape, Ctrl+Z, and Alt with N, K, M and S.

const typing = (node) => node?.matches?.("input, textarea, select, [contenteditable]");

export function watchKeys(page) {
  document.addEventListener("keydown", (event) => {
    if (!page.root.offsetParent) return; // another page is shown
    if (event.key === "Escape" && !document.querySelector("dialog[open]")) onEscape(page);
    const back = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "z";
    if (back && !typing(event.target) && page.deletions.undo.last()) event.preventDefault();
    const act = event.altKey && !event.ctrlKey && shortcuts(page)[event.code];
    if (act) (event.preventDefault(), act());
  });
}

// What lies on top goes first; only then the reply is stopped.
function onEscape({ pair, drawer, stream }) {
  if (!pair.popover.hidden) pair.turn(false);
  else if (!drawer.uncover()) stream.stop();
}

// What Alt and a key do, by the key's code.
const shortcuts = (page) => ({
  KeyN: () => page.newChat(),
  KeyK: () => (page.drawer.openChats(true), page.chats.search.focus()),
  KeyM: () => (page.pair.turn(page.pair.popover.hidden), page.pair.chip.focus()),
  KeyS: () => (page.drawer.shown ? page.drawer.hide() : page.drawer.open()),
});
