// The drawer on the right with two tabs, Rounds and Settings. On a phone it covers the chat.

import { X } from "lucide";
import { Button, Tabs } from "../../../shared/components";
import { SettingsForm } from "../../../shared/form/settings_form";
import { memo } from "../../../shared/store";
import { words } from "../words";
import { Rounds } from "./rounds";
import { ChatSettings } from "./system";
import type { ChatPage, PageState } from "../types";

export function Drawer({ page, state }: { page: ChatPage; state: PageState }) {
  const close = () => {
    page.setDrawer(false);
    requestAnimationFrame(() => (document.querySelector("[data-toggle=drawer]") as any)?.focus());
  };
  const settings = (
    <SettingsForm store={page.settings}>
      <ChatSettings page={page} state={state} />
    </SettingsForm>
  );
  return (
    <aside class="drawer ft-stack" aria-label={words.drawer}>
      <Tabs
        name="drawer"
        label={words.drawer}
        shown={state.tab}
        onShow={(tab) => page.set({ tab: tab as PageState["tab"] })}
        keep
        tabs={[
          {
            id: "rounds",
            title: words.rounds,
            pane: <RoundsPane page={page} shown={state.shown} token={state.token} />,
          },
          { id: "settings", title: words.settings, pane: settings },
        ]}
      />
      <Button kind="quiet" small class="drawer-close" icon={X} label={words.close} onClick={close} />
    </aside>
  );
}

const RoundsPane = memo((props: Pick<PageState, "shown" | "token"> & { page: ChatPage }) => (
  <div class="rounds">
    <Rounds
      reply={props.shown}
      token={props.token}
      onLight={(from, to) => props.page.stream.message?.reply.light(from, to)}
      onSave={(form) => props.page.stream.save(form)}
    />
  </div>
));
