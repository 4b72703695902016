// The theme: as chosen, or as the system has it, which may change while the page is open.

const remembered = "foretoken.theme";
const night = matchMedia("(prefers-color-scheme: dark)");

class Theme {
  constructor() {
    this.watchers = [];
    // A theme in the address applies to this page only.
    const asked = new URLSearchParams(location.search).get("__theme");
    this.asked = ["light", "dark"].includes(asked) ? asked : null;
    night.addEventListener("change", () => this.settle());
    window.addEventListener("storage", (event) => event.key === remembered && this.settle()); // another tab
  }

  // system, light or dark.
  get choice() {
    const kept = localStorage.getItem(remembered);
    return ["light", "dark"].includes(kept) ? kept : "system";
  }

  get dark() {
    const choice = this.asked ?? this.choice;
    return choice === "system" ? night.matches : choice === "dark";
  }

  choose(choice) {
    this.asked = null;
    if (choice === "system") localStorage.removeItem(remembered);
    else localStorage.setItem(remembered, choice);
    this.settle();
  }

  // `f` is called when another theme is chosen or shown.
  watch(f) {
    this.watchers.push(f);
  }

  settle() {
    document.body.classList.toggle("dark", this.dark);
    document.documentElement.style.colorScheme = this.dark ? "dark" : "light";
    for (const f of this.watchers) f();
  }

  // Applies the theme again after Gradio has mounted, which sets its own class.
  begin() {
    this.settle();
    window.addEventListener("load", () => this.settle());
    new MutationObserver((_, observer) => document.querySelector(".ft-page") && (this.settle(), observer.disconnect())).observe(document.body, { childList: true, subtree: true });
  }
}

export const theme = new Theme();
