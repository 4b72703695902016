// What Python answers to a page's questions.

import { words } from "../words.js";

// Python says why it does not answer.
class Refused extends Error {}

// The answer. Gradio's client answers with nothing where the app could not be reached: that is an error
// here, and so is a refusal.
export async function answered(question) {
  const answer = await Promise.resolve(question).catch(() => undefined);
  if (answer === undefined) {
    window.dispatchEvent(new Event("foretoken-away"));
    throw new Error("The app did not answer.");
  }
  if (answer?.refused) throw new Refused(answer.refused);
  return answer;
}

// What to say of an error of `answered`.
export const reason = (error) => (error instanceof Refused ? error.message : words.lost);

// Whether nobody was there to answer.
export const away = (error) => !(error instanceof Refused);
