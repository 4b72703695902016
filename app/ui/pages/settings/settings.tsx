// The Settings page: theme, startup and hardware, what is stored, diagnostics.

import { Choices, PageFrame, PageLink, Panel, register, usePage } from "../../shared/components";
import { theme } from "../../shared/frame/theme";
import { useWatched } from "../../shared/watched";
import { Computing, TitlesByModel } from "./computing";
import { Diagnostics, Folders, History } from "./stored";
import { Tools } from "./tools/tools";
import { words } from "./words";

function SettingsPage() {
  const shown = usePage() === "settings";
  return (
    <PageFrame title={words.title} intro={words.intro}>
      <Theme />
      <Computing shown={shown} />
      <Panel title={words.chatsTitle}>
        <p>
          {words.chats} <PageLink page="chat">{words.openChat}</PageLink>
        </p>
        <TitlesByModel shown={shown} />
      </Panel>
      <Tools />
      <Folders shown={shown} />
      <History shown={shown} />
      <Diagnostics />
    </PageFrame>
  );
}

function Theme() {
  const choice = useWatched(theme, () => theme.choice);
  return (
    <Panel data-part="theme">
      <Choices
        label={words.theme}
        name="theme"
        value={choice}
        onChange={(name) => theme.choose(name)}
        options={Object.entries(words.themes).map(([value, label]) => ({ value, label }))}
      />
    </Panel>
  );
}

register("settings", SettingsPage);
