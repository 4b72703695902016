// Chats by the day that something was last said in them.

import { say } from "../words.js";

const DAY = 86_400_000;
const months = new Intl.DateTimeFormat("en", { month: "long", year: "numeric" });

// [name, chats] for each day or span that has some; `chats` are newest first, and `updated` is in seconds.
export function byDay(chats, now) {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const name = (updated) => {
    const at = updated * 1000;
    if (at >= midnight) return say.today;
    if (at >= midnight - DAY) return say.yesterday;
    if (at >= midnight - 7 * DAY) return say.week;
    if (at >= midnight - 30 * DAY) return say.month;
    return months.format(at);
  };
  const found = new Map();
  for (const chat of chats) {
    const day = name(chat.updated);
    if (!found.has(day)) found.set(day, []);
    found.get(day).push(chat);
  }
  return [...found];
}
