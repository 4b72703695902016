// The tools of the chat, beside the message box: which servers it uses and trusts.

import { several } from "../../../shared/format";
import { useState } from "preact/hooks";
import { Wrench } from "lucide";
import {
  type Ask,
  Button,
  ErrorNote,
  PageLink,
  Toggle,
  useFloating,
  useFound,
  usePage,
} from "../../../shared/components";

interface ChatServer {
  name: string;
  on: boolean;
  disabled: boolean; // it is off in the settings
  trusted: boolean;
  phase: "stopped" | "starting" | "ready" | "failed";
  why: string;
  tools: number;
}

const PHASES = { starting: "Starting …", stopped: "Starts with the next message", ready: "", failed: "" };

const nameOf = ({ name, tools }: ChatServer) => (tools ? `${name} (${several(tools, "tool")})` : name);

type ChatTools = { refusal: string | null; servers: ChatServer[] };

// `off`: servers that a new chat is not to use, which `onOff` changes. `model`: changes with the loaded model;
// `running`: whether a reply is written, after which servers have other states.
type ToolsMenuProps = {
  ask: Ask;
  chat: number | null;
  off: string[];
  onOff: (off: string[]) => void;
  model: string;
  running: boolean;
};
export function ToolsMenu({ ask, chat, off, onOff, model, running }: ToolsMenuProps) {
  const { open, button, floating } = useFloating();
  const [changes, setChanges] = useState(0);
  const wanted = usePage() === "chat" && (open || !running);
  const inputs = [chat, off, open, model, running, changes];
  const tools = useFound<ChatTools>(ask, "chat_tools", { chat, off }, inputs, wanted);
  const change = async ({ name }: ChatServer, data: object) => {
    await ask("use_server", { chat, name, ...data });
    setChanges((before) => before + 1);
  };
  const turn = (server: ChatServer, on: boolean) => {
    if (chat !== null) change(server, { on });
    else onOff(on ? off.filter((each) => each !== server.name) : [...off, server.name]);
  };
  const refused = Boolean(tools?.refusal);
  const on = refused ? 0 : (tools?.servers.filter((each) => each.on && each.phase !== "failed").length ?? 0);
  return (
    <>
      <Button
        kind="quiet"
        class="tools-button"
        icon={Wrench}
        label={on ? `Tools: ${several(on, "server")} on` : "Tools"}
        {...button}>
        {on > 0 && <span aria-hidden="true">{on}</span>}
      </Button>
      <div {...floating} class="ft-note tools-menu" role="group" aria-label="Tools">
        {open && (
          <>
            <b>Tools</b>
            {tools?.refusal && <p>{tools.refusal}</p>}
            {tools && !tools.servers.length && <p>No tool servers yet. Add one in Settings.</p>}
            {!refused &&
              tools?.servers.map((server) => (
                <div key={server.name} class="tools-server ft-stack ft-gap-1" data-server={server.name}>
                  <Toggle
                    label={nameOf(server)}
                    value={server.on}
                    disabled={server.disabled}
                    hint={server.disabled ? "Off in Settings" : server.on ? PHASES[server.phase] : ""}
                    onChange={(value) => turn(server, value)}
                  />
                  {server.on && server.phase === "failed" && <ErrorNote text={server.why} />}
                  {server.on && server.trusted && (
                    <span class="ft-hint">
                      Runs without asking in this chat.{" "}
                      <Button kind="link" text="Ask again" onClick={() => change(server, { trusted: false })} />
                    </span>
                  )}
                </div>
              ))}
            <PageLink page="settings">Tool servers in Settings</PageLink>
          </>
        )}
      </div>
    </>
  );
}
