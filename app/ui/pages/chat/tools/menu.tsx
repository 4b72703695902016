// The tools of the chat, beside the message box: which servers it uses and trusts.

import { useCallback, useEffect, useState } from "preact/hooks";
import { Wrench } from "lucide";
import { Button, ErrorNote, PageLink, Toggle, useFloating, usePage } from "../../../shared/components";
import { words } from "./words";

interface ChatServer {
  name: string;
  on: boolean;
  disabled: boolean; // it is off in the settings
  trusted: boolean;
  phase: "stopped" | "starting" | "ready" | "failed";
  why: string;
  tools: { name: string; about: string }[];
}

type ChatTools = { refusal: string | null; servers: ChatServer[] };

// `off`: servers that a new chat is not to use, which `onOff` changes. `model`: changes with the loaded model;
// `running`: whether a reply is written, after which servers have other states.
type ToolsMenuProps = {
  ask: (name: string, data: object) => Promise<any>;
  chat: number | null;
  off: string[];
  onOff: (off: string[]) => void;
  model: string;
  running: boolean;
};
export function ToolsMenu({ ask, chat, off, onOff, model, running }: ToolsMenuProps) {
  const { open, button, floating } = useFloating();
  const [tools, setTools] = useState<ChatTools | null>(null);
  const here = usePage() === "chat";
  const look = useCallback(async () => setTools(await ask("chat_tools", { chat, off })), [ask, chat, off]);
  useEffect(() => {
    if (here) look();
  }, [look, here, open, model, running]);
  const change = async ({ name }: ChatServer, data: object) => {
    const fresh = await ask("use_server", { chat, name, ...data });
    if (fresh) setTools(fresh);
  };
  const turn = (server: ChatServer, on: boolean) => {
    if (chat !== null) change(server, { on });
    else onOff(on ? off.filter((each) => each !== server.name) : [...off, server.name]);
  };
  const refused = Boolean(tools?.refusal);
  const on = refused ? 0 : (tools?.servers.filter((each) => each.on && each.phase !== "failed").length ?? 0);
  return (
    <>
      <Button kind="quiet" class="tools-button" icon={Wrench} label={words.menu(on)} {...button}>
        {on > 0 && <span aria-hidden="true">{on}</span>}
      </Button>
      <div {...floating} class="ft-note tools-menu" role="group" aria-label={words.tools}>
        {open && (
          <>
            <b>{words.tools}</b>
            {tools?.refusal && <p>{tools.refusal}</p>}
            {tools && !tools.servers.length && <p>{words.none}</p>}
            {!refused &&
              tools?.servers.map((server) => (
                <div key={server.name} class="tools-server ft-stack ft-gap-1" data-server={server.name}>
                  <Toggle
                    label={words.use(server.name, server.tools.length)}
                    value={server.on}
                    disabled={server.disabled}
                    hint={server.disabled ? words.off : server.on ? words.phases[server.phase] : ""}
                    onChange={(value) => turn(server, value)}
                  />
                  {server.on && server.phase === "failed" && <ErrorNote text={server.why} />}
                  {server.on && server.trusted && (
                    <span class="ft-hint">
                      {words.trusted}{" "}
                      <Button kind="link" text={words.distrust} onClick={() => change(server, { trusted: false })} />
                    </span>
                  )}
                </div>
              ))}
            <PageLink page="settings">{words.toSettings}</PageLink>
          </>
        )}
      </div>
    </>
  );
}
