const OFFLINE = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>Foretoken cannot be reached</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; margin: 1rem; min-height: 90vh; }
body { display: grid; place-items: center; }
main { width: min(28rem, 100%); }
h1 { font-size: 1.25rem; }
</style></head><body><main>
<h1>Foretoken cannot be reached</h1>
<p>Check that it is running on your computer, and that this device is in the same network. Your chats are
on that computer.</p>
<p><a href="">Try again</a></p>
</main></body></html>`;

addEventListener("install", (event) => {
  // All but pages go past this worker: faster, and what a closing page says still arrives.
  event.addRoutes?.({ condition: { not: { requestMode: "navigate" } }, source: "network" });
  skipWaiting();
});
addEventListener("activate", (event) => event.waitUntil(registration.navigationPreload?.enable()));
addEventListener("fetch", (event) => {
  if (event.request.mode === "navigate") event.respondWith(answer(event));
});

async function answer(event) {
  try {
    return (await event.preloadResponse) ?? (await fetch(event.request));
  } catch {
    return new Response(OFFLINE, { status: 503, headers: { "content-type": "text/html" } });
  }
}
