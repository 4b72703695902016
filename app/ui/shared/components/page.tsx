// What pages are made of: the frame, panels, errors, folded parts, and code to copy.

import { useRef, useState } from "preact/hooks";
import { Check, CircleAlert, Copy, Download, X } from "lucide";
import { address, going, linkedParts, PAGES } from "../addresses";
import { saveFile, toClipboard } from "../browser";
import { useTimer } from "../frame/hooks";
import { Button, IconButton, Icon } from "./button";
import type { ComponentChildren } from "preact";
import { type Progress, type Status as Loading, status as feed } from "../frame/status";

// A page: its title, and one line under it.
export function PageFrame({ title, intro, children }: { title: string; intro: string; children: ComponentChildren }) {
  return (
    <div class="ft-frame ft-stack ft-gap-4">
      <header class="ft-frame-head">
        <h1>{title}</h1>
        <p>{intro}</p>
      </header>
      {children}
    </div>
  );
}

// A part of a page, with a frame around it.
type PanelProps = { title?: string; class?: string; children: ComponentChildren; [name: `data-${string}`]: string };
export function Panel({ title, children, class: look = "", ...data }: PanelProps) {
  return (
    <section {...data} class={`ft-panel ft-stack ft-gap-3 ${look}`}>
      {title && <h2>{title}</h2>}
      {children}
    </section>
  );
}

// A table with names over its columns; `children` are its bodies.
type TableProps = { columns: string[]; caption?: string; class?: string; children: ComponentChildren };
export function Table({ columns, caption, class: look = "", children }: TableProps) {
  return (
    <table class={`ft-table ${look}`}>
      {caption && <caption>{caption}</caption>}
      <thead>
        <tr>
          {columns.map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      {children}
    </table>
  );
}

// A hint that screen readers read out when it changes.
export const Status = ({ text }: { text: ComponentChildren }) => (
  <p class="ft-hint" role="status">
    {text}
  </p>
);

// A few words in a frame; `look` is good, warn or bad. Shows nothing without a text.
type TagProps = { text: ComponentChildren; look?: string; title?: string };
export const Tag = ({ text, look = "", title }: TagProps) =>
  text ? <span class={`tag ${look}`} title={title} children={text} /> : null;

// A link to a page, where it was left.
type PageLinkProps = { page: string; children?: ComponentChildren; class?: string };
export function PageLink({ page, children, class: look = "ft-link" }: PageLinkProps) {
  return (
    <a class={look} href={address.of(page)} onClick={going(page)}>
      {children ?? PAGES[page]}
    </a>
  );
}

// A sentence in which the names of pages are links, as in "Models page".
export function Linked({ text }: { text: string }) {
  return linkedParts(text).map((part) => (part.page ? <PageLink page={part.page}>{part.text}</PageLink> : part.text));
}

// Says what went wrong, where the user is looking. Shows nothing without a text.
export function ErrorNote({ text, onDismiss }: { text?: string | null; onDismiss?: () => void }) {
  if (!text) return null;
  return (
    <div class="ft-error" role="alert">
      <Icon of={CircleAlert} />
      <span>
        <Linked text={text} />
      </span>
      {onDismiss && <IconButton icon={X} label="Dismiss" onClick={onDismiss} />}
    </div>
  );
}

// A part that is folded at first. With `remember`, a name, the browser remembers whether it is open.
type DisclosureProps = { summary: ComponentChildren; remember?: string; children: ComponentChildren };
export function Disclosure({ summary, remember, children }: DisclosureProps) {
  const key = `foretoken.open.${remember}`;
  const [open, setOpen] = useState(() => Boolean(remember && localStorage.getItem(key)));
  const toggle = (event: Event) => {
    const now = (event.currentTarget as HTMLDetailsElement).open;
    setOpen(now);
    if (remember && now) localStorage.setItem(key, "open");
    else if (remember) localStorage.removeItem(key);
  };
  return (
    <details class="ft-disclosure" open={open} onToggle={toggle}>
      <summary>{summary}</summary>
      {children}
    </details>
  );
}

// Code with a button that copies it, and one that saves it under `file`. `shown`: what is shown in its place.
type CopyableProps = { code: string; shown?: string; title?: string; file?: string };
export function Copyable({ code, shown = code, file, title = file }: CopyableProps) {
  return (
    <section class="code ft-copyable" data-file={title}>
      <div class="code-bar">
        <span>{title}</span>
        {file && <Button kind="link" small icon={Download} text="Save" onClick={() => saveFile(file, code)} />}
        <CopyButton text={code} />
      </div>
      <pre tabIndex={0}>
        <code>{shown}</code>
      </pre>
    </section>
  );
}

// Copies a text, and says so for a moment.
// `label` names it if there are several.
export function CopyButton({ text, label }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  useTimer(done && 1400, () => setDone(false), [done]);
  return (
    <Button
      kind="link"
      small
      icon={done ? Check : Copy}
      aria-label={done ? undefined : label}
      onClick={() => toClipboard(text).then(() => setDone(true))}>
      {done ? "Copied" : "Copy"}
    </Button>
  );
}

function toldOf({ doing, share, done, total, speed, eta }: Progress) {
  if (doing) return share === null ? doing : `${doing}, ${done} of ${total}`;
  return [`${done} of ${total}`, speed, eta && `${eta} left`].filter(Boolean).join(", ");
}

// How far a load is, with a button that cancels it by the endpoint `cancel_loading`. Shows nothing without a load.
export function LoadProgress({ status, ask }: { status: Loading | null; ask: (name: string) => Promise<any> }) {
  if (!status?.opening) return null;
  const { opening, progress, cancelling } = status;
  const cancel = async () => {
    await ask("cancel_loading");
    feed.refresh();
  };
  return (
    <div class="loading">
      <div class="ft-row">
        <span class="loading-name" role="status">
          {opening}
        </span>
        <span class="ft-hint">{cancelling ? "Stopping after the current step" : progress && toldOf(progress)}</span>
      </div>
      <Button small text="Cancel" disabled={cancelling} data-action="cancel-loading" onClick={cancel} />
      {/* without a value the bar is indeterminate */}
      <progress max={1} value={progress?.share ?? undefined} aria-label={opening} />
    </div>
  );
}

// Tabs over panes, of which one is shown; the arrow keys go from tab to tab. With `keep`, hidden panes stay mounted.
// `name` is part of the ids.
type TabsProps = {
  name: string;
  label: string;
  shown: string;
  onShow: (id: string) => void;
  keep?: boolean;
  tabs: { id: string; title: ComponentChildren; pane: ComponentChildren }[];
};
export function Tabs({ name, label, shown, onShow, keep = false, tabs }: TabsProps) {
  const list = useRef<HTMLDivElement>(null);
  const walk = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (tabs.findIndex(({ id }) => id === shown) + step + tabs.length) % tabs.length;
    onShow(tabs[next].id);
    (list.current?.children[next] as HTMLElement)?.focus();
  };
  return (
    <>
      <div ref={list} class="ft-tabs" role="tablist" aria-label={label} onKeyDown={walk}>
        {tabs.map(({ id, title }) => (
          <button
            key={id}
            id={`tab-${name}-${id}`}
            type="button"
            class="ft-bare"
            role="tab"
            data-tab={id}
            aria-selected={id === shown}
            aria-controls={`pane-${name}-${id}`}
            tabIndex={id === shown ? 0 : -1}
            onClick={() => onShow(id)}>
            {title}
          </button>
        ))}
      </div>
      {tabs.map(({ id, pane }) => (
        <div
          key={id}
          id={`pane-${name}-${id}`}
          role="tabpanel"
          aria-labelledby={`tab-${name}-${id}`}
          hidden={id !== shown}>
          {(keep || id === shown) && pane}
        </div>
      ))}
    </>
  );
}
