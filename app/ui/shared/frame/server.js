// The answers of Python's endpoints.

import { words } from "../words.js";

// An endpoint refused the request and said why.
class Refused extends Error {}

// Returns the answer of an endpoint. Throws for a refusal, and if the app could not be reached, which Gradio's client
// answers with undefined.
export async function answered(question) {
  const answer = await Promise.resolve(question).catch(() => undefined);
  if (answer === undefined) {
    window.dispatchEvent(new Event("foretoken-away"));
    throw new Error("The app did not answer.");
  }
  if (answer?.refused) throw new Refused(answer.refused);
  return answer;
}

// Returns the text for an error of `answered`.
export const reason = (error) => (error instanceof Refused ? error.message : words.lost);

// Returns whether the app did not answer at all.
export const away = (error) => !(error instanceof Refused);
