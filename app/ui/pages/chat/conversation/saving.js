// A reply as a file: asked of Python, handed to the browser to save.

const kinds = { html: "text/html", jsonl: "application/jsonl" };

export async function saveReply(ask, message, form) {
  const file = message === null ? null : await ask("export_reply", { message, form });
  if (!file) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([file.text], { type: `${kinds[form]};charset=utf-8` }));
  link.download = file.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
