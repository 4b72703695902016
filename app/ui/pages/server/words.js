// Every word that the server page's script says.

export const say = {
  title: "OpenAI-compatible endpoint", info: "Any OpenAI client can use the loaded pair, with the same speculation. Draft statistics come in `timings`.",
  on: "on", off: "off", address: "Address", model: "Model", key: "Key",
  keySet: "required: the one given at the start with --api-key", keyNone: "none needed: only this machine can reach it",
  keyNeeded: "needed, for other machines can reach this one: start with --api-key",
  curl: "curl", python: "Python, package openai", endpoints: "Endpoints",
  endpointList: [
    ["GET", "/v1/models", "the loaded pair"],
    ["POST", "/v1/chat/completions", "chat, streaming or whole"],
    ["POST", "/v1/completions", "plain completion of a prompt"],
  ],
  offHint: "While it is off, every path under /v1 answers 404 with an OpenAI error body.",
  curlText: (base, model, key) => `curl ${base}/chat/completions -H 'Content-Type: application/json' ${key ? "-H 'Authorization: Bearer YOUR_KEY' " : ""}-d '${JSON.stringify({ model, messages: [{ role: "user", content: "What is speculative decoding?" }] })}'`,
  pythonText: (base, model, key) => `from openai import OpenAI

client = OpenAI(base_url="${base}", api_key="${key ? "YOUR_KEY" : "none"}")
reply = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "What is speculative decoding?"}],
    stream=True,
)
for chunk in reply:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`,
};
