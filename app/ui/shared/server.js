// Gradio's client answers with nothing where the app could not be reached: here that is an error.
export async function answered(question) {
  const answer = await question;
  if (answer === undefined) throw new Error("The app did not answer.");
  return answer;
}
