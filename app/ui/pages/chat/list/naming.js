import { h } from "../../../shared/dom.js";

// An input in the place of what is renamed: `done(name)` is called with what is to be kept, or null.
export function nameInput(label, name, done) {
  const input = h("input", { class: "rename", type: "text", "aria-label": label, placeholder: label, maxlength: "120", dir: "auto" });
  input.value = name;
  let open = true;
  const close = (keep) => {
    if (!open) return;
    open = false;
    const text = input.value.trim();
    done(keep && text && text !== name ? text : null);
  };
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") close(true);
    if (event.key === "Escape") close(false);
  });
  input.addEventListener("blur", () => close(true));
  return input;
}
