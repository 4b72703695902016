// The theme: as chosen, or the system's, which may change while the page is open.

import { Watched } from "../store";

const remembered = "foretoken.theme";
const night = matchMedia("(prefers-color-scheme: dark)");

// Tells when another theme is chosen or shown.
class Theme extends Watched {
  // A theme in the address applies to this page only.
  asked = named(new URLSearchParams(location.search).get("__theme"));

  constructor() {
    super();
    night.addEventListener("change", () => this.settle());
    window.addEventListener("storage", (event) => event.key === remembered && this.settle()); // another tab
  }

  get choice() {
    return named(localStorage.getItem(remembered)) ?? "system";
  }

  get dark() {
    const choice = this.asked ?? this.choice;
    return choice === "system" ? night.matches : choice === "dark";
  }

  // `choice` is system, light or dark.
  choose(choice: string) {
    this.asked = null;
    if (choice === "system") localStorage.removeItem(remembered);
    else localStorage.setItem(remembered, choice);
    this.settle();
  }

  settle() {
    document.body.classList.toggle("dark", this.dark);
    document.documentElement.style.colorScheme = this.dark ? "dark" : "light";
    this.tell();
  }

  // Applies the theme, and again when Gradio mounts, after the pages: it sets the class by the system's.
  begin() {
    this.settle();
    const keep = () => document.body.classList.contains("dark") !== this.dark && this.settle();
    new MutationObserver(keep).observe(document.body, { attributeFilter: ["class"] });
  }
}

function named(choice: string | null) {
  return choice === "light" || choice === "dark" ? choice : null;
}

export const theme = new Theme();
