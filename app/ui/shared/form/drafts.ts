// Drafts that were not sent, stored for each chat, and the request that was sent and not answered, which a reload
// continues.

type Draft = { text: string; files: any[] };
// A chat's id, null for a new one, or `edit-` and a message's id.
type Place = number | string | null;

const key = (place: Place) => `foretoken.draft.${place ?? "new"}`;
const pending = "foretoken.unanswered";

export const drafts = {
  keep(place: Place, { text, files }: Draft) {
    if (!text && !files.length) return localStorage.removeItem(key(place));
    for (const kept of [files, []])
      try {
        return localStorage.setItem(key(place), JSON.stringify({ text, files: kept }));
      } catch {} // no room for the files, or for the text
  },

  of(place: Place): Draft {
    return read(localStorage, key(place)) ?? { text: "", files: [] };
  },

  forget(place: Place) {
    localStorage.removeItem(key(place));
  },

  // Forgets all drafts and the request that was sent.
  forgetAll() {
    for (const name of Object.keys(localStorage)) if (name.startsWith(key(""))) localStorage.removeItem(name);
    sessionStorage.removeItem(pending);
  },

  // `asked` is the request, null once it is answered; `rest` is what was written since.
  send(asked: object | null, rest?: Draft) {
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

function read(storage: Storage, name: string) {
  try {
    return JSON.parse(storage.getItem(name) ?? "null");
  } catch {
    return null;
  }
}
