// Tells the app that this page is open, and that it was closed: the app in its own window ends with its last page.
// And lets browsers install the page as an app.

import { status } from "./status";

// Not crypto.randomUUID, which pages from another machine lack.
const page = Math.random().toString(36).slice(2);

const tell = (what: "opened" | "closed") => void navigator.sendBeacon(`/pages/${what}?page=${page}`);

export function presence() {
  window.ForetokenPage = page; // for a window that ends without telling its page
  tell("opened");
  window.addEventListener("pagehide", () => tell("closed"));
  window.addEventListener("pageshow", (event) => event.persisted && tell("opened"));
  // Browsers offer this on the app's own machine and over HTTPS, and refuse it where they distrust the certificate.
  if (window.isSecureContext) navigator.serviceWorker?.register("/worker.js").catch(() => {});
  // A new process does not know it yet.
  status.contact.watch((gone: boolean) => gone || tell("opened"));
}
