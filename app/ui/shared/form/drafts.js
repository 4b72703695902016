// Drafts that were not sent, stored for each chat, and the request that was sent and not answered, which a reload
// continues.

const key = (place) => `foretoken.draft.${place ?? "new"}`;
const pending = "foretoken.unanswered";

export const drafts = {
  // `place`: a chat's id, null for a new one, or `edit-` and a message's id.
  keep(place, { text = "", files = [] }) {
    if (!text && !files.length) return localStorage.removeItem(key(place));
    try {
      localStorage.setItem(key(place), JSON.stringify({ text, files }));
    } catch {
      localStorage.setItem(key(place), JSON.stringify({ text, files: [] })); // no room for the files
    }
  },

  of(place) {
    return read(localStorage, key(place)) ?? { text: "", files: [] };
  },

  forget(place) {
    localStorage.removeItem(key(place));
  },

  // Forgets all drafts and the request that was sent.
  forgetAll() {
    for (const name of Object.keys(localStorage)) if (name.startsWith(key(""))) localStorage.removeItem(name);
    sessionStorage.removeItem(pending);
  },

  // `asked` is the request, null once it is answered; `rest` is what was written since.
  send(asked, rest) {
    try {
      if (asked) sessionStorage.setItem(pending, JSON.stringify({ asked, rest }));
      else sessionStorage.removeItem(pending);
    } catch {
      sessionStorage.removeItem(pending); // the draft is stored anyway
    }
  },

  get unanswered() {
    return read(sessionStorage, pending);
  },
};

function read(storage, name) {
  try {
    return JSON.parse(storage.getItem(name));
  } catch {
    return null;
  }
}
