// One call of the API in several languages.

const QUESTION = "What is speculative decoding?";

// A text as a POSIX shell reads it, and as PowerShell does.
const inShell = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
const inPowerShell = (text: string) => `'${text.replaceAll("'", "''")}'`;

// Their names, and what each needs.
export const LANGUAGES: Record<string, [title: string, hint: string]> = {
  curl: ["curl", "Linux and macOS"],
  powershell: ["PowerShell", "Windows"],
  python: ["Python", "Needs the package openai"],
  javascript: ["JavaScript", "Save as call.mjs and run with Node"],
  claude: ["Claude Code", "Linux and macOS. Needs a model that can call tools, and a long context"],
};

// Returns the call in each of `LANGUAGES`.
// `base` ends with /v1; without a key none is sent.
type CallsProps = { base: string; model: string; key: string | null };
export function calls({ base, model, key }: CallsProps): Record<string, string> {
  const url = `${base}/chat/completions`;
  const root = base.replace(/\/v1$/, "");
  const body = JSON.stringify({ model, messages: [{ role: "user", content: QUESTION }] });
  const bearer = key && `Bearer ${key}`;
  const name = JSON.stringify(model);
  const curl = [
    `curl ${url}`,
    "-H 'Content-Type: application/json'",
    bearer && `-H ${inShell(`Authorization: ${bearer}`)}`,
    `-d ${inShell(body)}`,
  ];
  return {
    curl: curl.filter(Boolean).join(" \\\n  "),
    powershell: `$body = ${inPowerShell(body)}
$reply = Invoke-RestMethod ${url} -Method Post -ContentType 'application/json'${bearer ? ` -Headers @{ Authorization = ${inPowerShell(bearer)} }` : ""} -Body $body
$reply.choices[0].message.content`,
    python: `from openai import OpenAI

client = OpenAI(base_url="${base}", api_key=${JSON.stringify(key ?? "none")})
reply = client.chat.completions.create(
    model=${name},
    messages=[{"role": "user", "content": ${JSON.stringify(QUESTION)}}],
    stream=True,
)
for chunk in reply:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`,
    javascript: `const reply = await fetch("${url}", {
  method: "POST",
  headers: { "Content-Type": "application/json"${bearer ? `, Authorization: ${JSON.stringify(bearer)}` : ""} },
  body: JSON.stringify({
    model: ${name},
    messages: [{ role: "user", content: ${JSON.stringify(QUESTION)} }],
  }),
});
const { choices } = await reply.json();
console.log(choices[0].message.content);`,
    claude: `ANTHROPIC_BASE_URL=${root} \\
  ANTHROPIC_AUTH_TOKEN=${inShell(key ?? "none")} \\
  ANTHROPIC_DEFAULT_HAIKU_MODEL=${inShell(model)} \\
  claude --model ${inShell(model)}`,
  };
}
