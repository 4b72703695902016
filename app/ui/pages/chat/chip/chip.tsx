// The chip above the chat: the loaded model and its method. Behind it: all models that can be loaded, and the methods.

import { percent } from "../../../shared/format";
import { ChevronDown } from "lucide";
import { useRef, useState } from "preact/hooks";
import { Icon, Info, LoadProgress, onEscape, PageLink, Tabs, Tag, useOutside } from "../../../shared/components";
import { Models } from "./models";
import type { Status } from "../../../shared/frame/status";
import type { ChatPage, PageState } from "../types";

function labelOf(status: Status | null, method: string) {
  if (!status) return "Starting …";
  const { loaded, opening, progress, unloaded } = status;
  if (opening) return progress?.share ? `${opening} · ${percent(progress.share)}` : opening;
  if (loaded) return `${loaded.label} · ${method}`;
  return unloaded ? `${unloaded} is unloaded` : "No model is loaded";
}

export function PairChip({ page, state }: { page: ChatPage; state: PageState }) {
  const { pairOpen: open, status, view } = state;
  const { loaded, opening } = status ?? {};
  const node = useRef<HTMLDivElement>(null);
  const chip = useRef<HTMLButtonElement>(null);
  const close = () => page.set({ pairOpen: false });
  useOutside(node, () => open && close());
  const escape = onEscape(() => {
    close();
    chip.current?.focus();
  });
  const label = labelOf(status, view?.method ?? "");
  const look = ["badge ft-bare ft-row", (!status || opening) && "opening", status && !loaded && !opening && "off"];
  return (
    <div class="pair" ref={node} onKeyDown={open ? escape : undefined}>
      <button
        class={look.filter(Boolean).join(" ")}
        type="button"
        ref={chip}
        aria-haspopup="dialog"
        aria-expanded={open}
        aria-controls="pair-popover"
        aria-label={`${label}. Switch model or drafting method`}
        onClick={() => page.set({ pairOpen: !open })}>
        <span class="badge-label ft-cut">{label}</span>
        <Icon of={ChevronDown} size={14} />
      </button>
      {open && (
        <div class="popover ft-stack ft-box" id="pair-popover" role="dialog" aria-label="Model">
          <PairPopover page={page} state={state} />
        </div>
      )}
    </div>
  );
}

function PairPopover({ page, state }: { page: ChatPage; state: PageState }) {
  const { status, view } = state;
  const [tab, setTab] = useState("models");
  return (
    <>
      <LoadProgress status={status} ask={(name) => page.ask(name)} />
      <Tabs
        name="pair"
        label="Model"
        shown={tab}
        onShow={setTab}
        tabs={[
          { id: "models", title: "Models", pane: <Models page={page} status={status} /> },
          { id: "method", title: "Method", pane: <Methods page={page} view={view} /> },
        ]}
      />
      {status?.loaded && !status.opening && (
        <Info label="Details of the loaded model">
          <p class="detail">{status.loaded.detail}</p>
        </Info>
      )}
    </>
  );
}

// ---- how to draft: three choices, and the rest under More, with the reason of those that the loaded model lacks

interface Method {
  name: string;
  title?: string;
  about: string;
  why: string | null; // it cannot be chosen
  speed?: string | null;
  default?: boolean;
}

const FASTEST = "best";
const OFF = "none";
const FROM_TEXT = [FASTEST, OFF, "ngram", "suffix", "hybrid"]; // these need no model beside the target

export function Methods({ page, view }: { page: ChatPage; view: any }) {
  const methods: Method[] = view?.methods ?? [];
  if (!methods.length) return <p class="ft-hint">Load a model to choose a drafting method.</p>;
  const named = (name: string) => methods.find((each) => each.name === name);
  const own = methods.filter(({ name, why }) => !why && !FROM_TEXT.includes(name));
  const drafting = own.find((each) => each.default) ?? own[0] ?? named("draft");
  const first = [named(FASTEST), drafting, named(OFF)].filter((each) => each !== undefined);
  const rest = methods.filter((each) => !first.includes(each));
  const chosen = view.settings.proposer;
  const show = (method: Method) => (
    <MethodRow key={method.name} page={page} method={method} chosen={method.name === chosen} />
  );
  return (
    <div class="methods ft-stack ft-gap-1" role="radiogroup" aria-label="Drafting method">
      {view.changes.length > 0 && <p class="ft-hint changes">{view.changes.join(" ")}</p>}
      {first.map(show)}
      {rest.length > 0 && (
        <details class="ft-disclosure" open={rest.some(({ name }) => name === chosen)}>
          <summary>More methods</summary>
          {rest.map(show)}
        </details>
      )}
      {methods.some(({ why }) => why) && (
        <p class="ft-hint">
          Find compatible drafts on <PageLink page="models" />, or train your own on <PageLink page="train" />.
        </p>
      )}
    </div>
  );
}

function MethodRow({ page, method, chosen }: { page: ChatPage; method: Method; chosen: boolean }) {
  const { name, title, about, why, speed } = method;
  const id = `method-${name}`;
  return (
    <div class={why ? "method off" : "method"} data-method={name}>
      <input
        type="radio"
        name="method"
        id={id}
        value={name}
        disabled={Boolean(why)}
        checked={chosen}
        aria-describedby={`${id}-about`}
        onChange={() => page.settings.change({ proposer: name }, true)}
      />
      <label for={id}>
        <b>{title ?? name}</b>
        {method.default && <Tag text="default" />}
        <span class="about ft-fine" id={`${id}-about`}>
          {why ?? [about, speed].filter(Boolean).join(" · ")}
        </span>
      </label>
    </div>
  );
}
