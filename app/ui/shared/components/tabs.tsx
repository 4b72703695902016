import { useRef } from "preact/hooks";
import type { ComponentChildren } from "preact";

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
