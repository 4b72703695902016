// Which chat is shown: in the address, and stored for a page that is opened without one.

import { address } from "../../shared/addresses.js";

const remembered = "foretoken.chat";

export class CurrentChat {
  constructor() {
    this.id = null; // of a new one
    this.entered = false; // whether a chat was shown yet
  }

  // The chat to show first; null for a new one.
  get first() {
    const kept = Number(localStorage.getItem(remembered)) || null;
    return address.chat ?? (address.open || address.page !== "chat" ? kept : null);
  }

  enter(id, replace) {
    this.entered = true;
    this.id = id;
    if (id) localStorage.setItem(remembered, id);
    else localStorage.removeItem(remembered);
    const path = id ? `/chat/${id}` : "/chat";
    this.leading = true;
    if (address.page === "chat") address.go(path, { replace });
    else address.latest.chat = path;
    this.leading = false;
  }

  // `f` is called when the address names another chat, by Back, Forward or a link.
  watch(f) {
    address.watch((page) => {
      if (page === "chat" && !this.leading && address.chat !== this.id) f(address.chat);
    });
  }
}
