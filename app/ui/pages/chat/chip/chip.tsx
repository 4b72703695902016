// The chip above the chat: the loaded model and its method. Behind it: all models that can be loaded, and the methods.

import { ChevronDown } from "lucide";
import { useRef, useState } from "preact/hooks";
import { Icon, Info, LoadProgress, onEscape, Tabs, useOutside } from "../../../shared/components";
import { words } from "../words";
import { Methods } from "./methods";
import { Models } from "./models";
import type { ChatPage, PageState } from "../types";

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
  const label = words.pairState(status, view?.method ?? "");
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
        aria-label={words.chip(label)}
        onClick={() => page.set({ pairOpen: !open })}>
        <span class="badge-label ft-cut">{label}</span>
        <Icon of={ChevronDown} size={14} />
      </button>
      {open && (
        <div class="popover ft-stack ft-box" id="pair-popover" role="dialog" aria-label={words.pair}>
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
        label={words.pair}
        shown={tab}
        onShow={setTab}
        tabs={[
          { id: "models", title: words.models, pane: <Models page={page} status={status} /> },
          { id: "method", title: words.method, pane: <Methods page={page} view={view} /> },
        ]}
      />
      {status?.loaded && !status.opening && (
        <Info label={words.facts}>
          <p class="detail">{status.loaded.detail}</p>
        </Info>
      )}
    </>
  );
}
