// Which chat is shown: in the address, and stored for a page that is opened without one.

import { address } from "../../../shared/addresses";

const remembered = "foretoken.chat";

export class CurrentChat {
  entered = false; // whether a chat was shown yet
  id: number | null = null; // null for a new one

  // The chat to show first; null for a new one.
  get first() {
    const kept = Number(localStorage.getItem(remembered)) || null;
    return address.chat ?? (address.open || address.page !== "chat" ? kept : null);
  }

  enter(id: number | null, replace = false) {
    this.entered = true;
    this.id = id;
    if (id) localStorage.setItem(remembered, String(id));
    else localStorage.removeItem(remembered);
    const path = id ? `/chat/${id}` : "/chat";
    if (address.page === "chat") address.go(path, { replace });
    else address.latest.chat = path;
  }

  // Calls `f` when the address names another chat, by Back, Forward or a link.
  watch(f: (chat: number | null) => void) {
    return address.watch((page: string) => {
      if (page === "chat" && address.chat !== this.id) f(address.chat);
    });
  }
}
