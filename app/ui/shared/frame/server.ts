// The answers of Python's endpoints.

export const LOST = "Foretoken does not answer. Is it still running? This page reconnects by itself.";

// The functions that Gradio gives a page.
export type Endpoints = Record<string, (data?: any) => Promise<any>>;

// An endpoint refused the request and said why.
class Refused extends Error {}

let leaving = false; // a reload ends what was asked before it ends the page
window.addEventListener("beforeunload", () => (leaving = true));

// Returns the answer of an endpoint. Throws for a refusal, and if the app could not be reached, which Gradio's client
// answers with undefined.
export async function answered(question: Promise<any>) {
  const answer = await Promise.resolve(question).catch(() => undefined);
  if (answer === undefined) {
    if (leaving) await new Promise((over) => setTimeout(over, 2000));
    window.dispatchEvent(new Event("foretoken-away"));
    throw new Error("The app did not answer.");
  }
  if (answer?.refused) throw new Refused(answer.refused);
  return answer;
}

// Returns the text for an error of `answered`.
export const reason = (error: unknown) => (error instanceof Refused ? error.message : LOST);

// Returns whether the app did not answer.
export const away = (error: unknown) => !(error instanceof Refused);

// Sends a file to Python. Throws as `answered`.
export const upload = (path: "/attachments" | "/chats/import", file: File) =>
  answered(
    fetch(`${path}?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file }).then((reply) =>
      reply.json(),
    ),
  );
