// Text files that go with a message: chosen, dropped or pasted, read here in the page, and shown as chips.

import { h } from "../../../shared/dom.js";
import { say } from "../words.js";

const LARGEST = 512 * 1024; // characters of all files of a message; see turn.py
const MOST = 20;

const size = (text) => (text.length < 1024 ? `${text.length} B` : `${Math.round(text.length / 1024)} KB`);

// Makes a chip that opens to show the text.
export function fileChip({ name, text }) {
  return h("details", { class: "file" },
    h("summary", {}, h("span", { class: "file-name", dir: "auto" }, name), " ", h("span", { class: "hint" }, size(text))),
    h("pre", { tabindex: "0" }, text));
}

// Reads a text file. Throws a message that says why it cannot.
async function readText(file) {
  if (file.size > 4 * LARGEST) throw say.fileTooLarge(file.name);
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw say.notText(file.name);
  }
  if (text.includes("\0")) throw say.notText(file.name);
  return { name: file.name, text };
}

export class Attachments {
  // `changed()` is called when files are added or removed, `refused(why)` if one cannot be read.
  constructor(changed, refused) {
    this.changed = changed;
    this.refused = refused;
    this.files = [];
    this.node = h("div", { class: "files", hidden: true });
    this.input = h("input", { type: "file", multiple: true, hidden: true, on: { change: () => (this.add([...this.input.files]), (this.input.value = "")) } });
    this.button = h("button", { class: "ft-button attach", type: "button", title: say.attachHint, "aria-label": say.attachHint, on: { click: () => this.input.click() } }, "+");
  }

  // Adds files that are dropped on `node` or pasted into it.
  take(node) {
    const has = (transfer) => transfer?.types.includes("Files");
    node.addEventListener("dragover", (event) => has(event.dataTransfer) && event.preventDefault());
    node.addEventListener("drop", (event) => {
      if (!has(event.dataTransfer)) return;
      event.preventDefault();
      this.add([...event.dataTransfer.files]);
    });
    node.addEventListener("paste", (event) => event.clipboardData?.files.length && (event.preventDefault(), this.add([...event.clipboardData.files])));
  }

  async add(chosen) {
    this.refused("");
    for (const file of chosen) {
      try {
        const read = await readText(file);
        const length = this.files.reduce((sum, each) => sum + each.text.length, read.text.length);
        if (length > LARGEST || this.files.length >= MOST) throw say.fileTooLarge(file.name);
        this.set([...this.files, read]);
        this.changed();
      } catch (why) {
        this.refused(String(why));
      }
    }
  }

  set(files) {
    this.files = files;
    this.node.hidden = !files.length;
    this.node.replaceChildren(...files.map((file) => {
      const remove = h("button", { class: "ft-link", type: "button", "aria-label": say.detach(file.name), title: say.detach(file.name), on: {
        click: () => (this.set(this.files.filter((each) => each !== file)), this.changed()),
      } }, "✕");
      return h("span", { class: "attached" }, fileChip(file), remove);
    }));
  }
}
