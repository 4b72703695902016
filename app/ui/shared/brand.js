// The name at the top left, and the switch between day and night.

import { h, whenPresent } from "./dom.js";
import { words } from "./words.js";

const remembered = "foretoken.theme";

function dark(on) {
  document.body.classList.toggle("dark", on);
  document.documentElement.style.colorScheme = on ? "dark" : "light";
}

function chosen() {
  const asked = new URLSearchParams(location.search).get("__theme");
  if (asked === "dark" || asked === "light") return asked === "dark";
  const kept = localStorage.getItem(remembered);
  return kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function brand() {
  let applied = chosen();
  dark(applied);
  // Gradio sets its own class once, when it has mounted.
  const settle = () => dark(applied);
  window.addEventListener("load", settle);
  whenPresent("ft-brand", (node) => {
    settle();
    const button = h("button", { class: "theme-toggle", type: "button", title: words.theme, "aria-label": words.theme }, "◐");
    button.addEventListener("click", () => {
      applied = !document.body.classList.contains("dark");
      localStorage.setItem(remembered, applied ? "dark" : "light");
      dark(applied);
    });
    node.replaceChildren(
      h("span", { class: "logo", "aria-hidden": true }, h("i", { class: "one" }), h("i", { class: "two" }), h("i", { class: "three" })),
      h("span", { class: "name" }, "Foretoken"));
    document.body.append(button);
    requestAnimationFrame(settle);
  });
}
