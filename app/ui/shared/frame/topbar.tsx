// The bar on top: a link past it, the pages, help, theme and settings; and a notice while the app does not answer.

import { CircleHelp, Moon, Settings, Sun, ChevronDown } from "lucide";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { address, going, LAB, PAGES } from "../addresses";
import { Button, Icon } from "../components/button";
import { Dialog } from "../components/dialog";
import { useFloating } from "../components/floating";
import { useDark, useListener, useMedia, usePage, useTimer } from "./hooks";
import { drawPages } from "./mount";
import { status } from "./status";
import { theme } from "./theme";

const SETTINGS = "settings"; // at the right, as a gear
const FIRST = Object.keys(PAGES).filter((page) => page !== SETTINGS && !LAB.includes(page));
const BACK_MS = 4000; // how long it says that the app is back

const SHORTCUTS: [keys: string[], what: string][] = [
  [["Enter"], "Send the message"],
  [["Shift", "Enter"], "Start a new line"],
  [["Esc"], "Stop the reply, or close what is open"],
  [["↑"], "In an empty message box: edit the last message"],
  [["Ctrl", "Z"], "Undo a deletion"],
  [["Alt", "N"], "New chat"],
  [["Alt", "K"], "Search chats"],
  [["Alt", "M"], "Choose the model"],
  [["Alt", "S"], "Show or hide rounds and settings"],
  [["?"], "Show this list"],
];
const CONTACT = {
  away: "Lost connection. Reconnecting; your text is safe.",
  back: "Connected again.",
  stale: "Foretoken was restarted. Reload the page; your draft is kept.",
};

// Returns whether keys pressed in `node` write text.
export const typing = (node: EventTarget | null) =>
  node instanceof Element && node.matches("input, textarea, select, [contenteditable]");

// Draws the bar above Gradio's frame, and the pages.
export function begin() {
  theme.begin();
  address.tell();
  const root = document.createElement("div");
  document.body.prepend(root);
  render(<TopBar />, root);
  drawPages();
}

function TopBar() {
  const page = usePage();
  const narrow = useMedia("(max-width: 739px)");
  return (
    <>
      <header id="brand">
        <Skip page={page} />
        <span class="logo" aria-hidden="true">
          <i class="one" />
          <i class="two" />
          <i class="three" />
        </span>
        <span class="name">Foretoken</span>
        {narrow ? <PagesMenu page={page} /> : <PagesRow page={page} />}
        <Help />
        <ThemeSwitch />
        <a {...linkTo(SETTINGS, page)} class="gear ft-button quiet only-icon" aria-label={PAGES[SETTINGS]}>
          <Icon of={Settings} size={17} />
        </a>
      </header>
      {!narrow && LAB.includes(page) && (
        <nav id="lab" class="pages" aria-label="Lab">
          <ul class="pages-list ft-list">{linksTo(LAB, page)}</ul>
        </nav>
      )}
      <Away />
    </>
  );
}

// Returns the attributes of a link to page `name` while `page` is shown.
const linkTo = (name: string, page: string) => ({
  href: address.of(name),
  title: name === SETTINGS ? PAGES[name] : undefined,
  "data-page": name,
  "aria-current": page === name ? ("page" as const) : undefined,
  onClick: going(name),
});

const linksTo = (names: string[], page: string) =>
  names.map((name) => (
    <li key={name} class={name === LAB[0] ? "first-of-lab" : undefined}>
      <a {...linkTo(name, page)}>{PAGES[name]}</a>
    </li>
  ));

function PagesRow({ page }: { page: string }) {
  const lab = useRef(LAB[0]); // the page of the lab that was shown last
  const inLab = LAB.includes(page);
  if (inLab) lab.current = page;
  const { href, onClick } = linkTo(lab.current, page);
  return (
    <nav class="pages" aria-label="Pages">
      <ul class="pages-list ft-list">
        {linksTo(FIRST, page)}
        <li>
          <a href={href} data-group="lab" aria-current={inLab ? "true" : undefined} onClick={onClick}>
            Lab
          </a>
        </li>
      </ul>
    </nav>
  );
}

// The pages as a menu, in a narrow window.
function PagesMenu({ page }: { page: string }) {
  const { close, button, floating } = useFloating<HTMLUListElement>();
  useEffect(close, [page]);
  return (
    <nav class="pages" aria-label="Pages">
      <Button {...button} class="pages-menu">
        {PAGES[page]}
        <Icon of={ChevronDown} size={16} />
      </Button>
      <ul {...floating} class="ft-menu ft-list">
        {linksTo([...FIRST, ...LAB], page)}
      </ul>
    </nav>
  );
}

// Skips to the message box, or to the page's first control.
function Skip({ page }: { page: string }) {
  const past = () => {
    const root = document.getElementById(`${page}-page`);
    const controls = "button:not(:disabled), a[href], input, textarea, select";
    const goal = root?.querySelector(".composer textarea") ?? root?.querySelector(controls) ?? root;
    (goal as HTMLElement | null | undefined)?.focus();
  };
  return (
    <button class="skip ft-button primary" type="button" onClick={past}>
      {page === "chat" ? "Skip to the message box" : "Skip the menu"}
    </button>
  );
}

function ThemeSwitch() {
  const dark = useDark();
  const [icon, other] = dark ? [Sun, "light" as const] : [Moon, "dark" as const];
  const choose = () => theme.choose(other);
  return (
    <Button kind="quiet" class="theme-toggle" icon={icon} label={`Switch to the ${other} theme`} onClick={choose} />
  );
}

// The keyboard shortcuts, behind a button and the key "?".
function Help() {
  const [open, setOpen] = useState(false);
  useListener(document, "keydown", (event) => {
    if (event.key !== "?" || typing(event.target)) return;
    event.preventDefault();
    setOpen(true);
  });
  const tour = () => {
    setOpen(false);
    address.go(address.of("chat"));
    setTimeout(() => window.dispatchEvent(new Event("foretoken-tour"))); // the dialog gives the focus back first
  };
  const title = "Keyboard shortcuts";
  return (
    <>
      <Button kind="quiet" class="help" icon={CircleHelp} label={title} onClick={() => setOpen(true)} />
      <Dialog
        class="shortcuts"
        title={title}
        open={open}
        onClose={() => setOpen(false)}
        actions={<Button text="Take the tour" data-act="tour" onClick={tour} />}>
        <dl>
          {SHORTCUTS.map(([keys, what]) => (
            <div key={what} class="ft-row ft-spread">
              <dt>
                {Array.from(keys, (key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd class="ft-hint">{what}</dd>
            </div>
          ))}
        </dl>
      </Dialog>
    </>
  );
}

// Says that the app does not answer, and for a moment that it does again. Pages begin below it.
function Away() {
  const [shown, setShown] = useState<keyof typeof CONTACT | "">("");
  const bar = useRef<HTMLParagraphElement>(null);
  useEffect(() => status.contact.watch((gone, stale) => setShown(stale ? "stale" : gone ? "away" : "back")), []);
  useTimer(shown === "back" && BACK_MS, () => setShown(""), [shown]);
  useEffect(() => {
    const { style } = document.documentElement;
    const sizes = new ResizeObserver(() => style.setProperty("--ft-away", `${bar.current?.offsetHeight ?? 0}px`));
    if (bar.current) sizes.observe(bar.current);
    return () => sizes.disconnect();
  }, []);
  return (
    <p class={`away ${shown}`} role="status" hidden={!shown} ref={bar}>
      {shown && CONTACT[shown]}
      {shown === "stale" && <Button small text="Reload" onClick={() => location.reload()} />}
    </p>
  );
}
