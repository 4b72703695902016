// The servers of tools: listed, added, imported, tested, changed and removed.

import { useEffect, useState } from "preact/hooks";
import { Ellipsis, Pencil, Play, Plus, Trash2, Upload } from "lucide";
import {
  Button,
  Dialog,
  Disclosure,
  ErrorNote,
  Menu,
  NumberInput,
  Panel,
  Toggle,
  useAnswer,
  useListener,
} from "../../../shared/components";
import { ImportDialog, ServerDialog } from "./dialogs";
import { words } from "./words";

export interface ToolServer {
  name: string;
  line: string; // the command in full, or the address
  command: string;
  args: string; // one per line
  env: string; // one per line, values hidden
  cwd: string;
  url: string;
  headers: string; // one per line, values hidden
  seconds: number;
  on: boolean;
  phase: "stopped" | "starting" | "ready" | "failed";
  why: string;
  left_out: string[];
  tools: { name: string; about: string; on: boolean }[];
}

export type ToolServers = { servers: ToolServer[]; rounds: number; most_rounds: number };

const POLL_MS = 500; // while a server is being started

export function Tools() {
  const { ask, answer, setAnswer, error, refresh } = useAnswer("tool_servers");
  const [open, setOpen] = useState<ToolServer | "new" | "import" | null>(null);
  const [said, setSaid] = useState("");
  const shown: ToolServers | null = answer;
  const act = async (name: string, data: object) => {
    const fresh = await ask(name, data);
    if (fresh) setAnswer(fresh);
    return Boolean(fresh);
  };
  const starting = shown?.servers.some(({ phase }) => phase === "starting") ?? false;
  useEffect(() => {
    if (!starting) return;
    const again = setInterval(() => act("tool_servers", {}), POLL_MS);
    return () => clearInterval(again);
  }, [starting]);
  useListener(document, "visibilitychange", () => document.visibilityState === "visible" && refresh());
  const close = (fresh: ToolServers | null = null, text = "") => {
    setOpen(null);
    setSaid(text);
    if (fresh) setAnswer(fresh);
  };
  return (
    <Panel title={words.title} class="tools-panel">
      <p class="ft-hint">{words.intro}</p>
      {shown?.servers.map((server) => (
        <Server key={server.name} server={server} onAct={act} onEdit={() => setOpen(server)} />
      ))}
      {shown && !shown.servers.length && <p>{words.none}</p>}
      <div class="ft-row">
        <Button icon={Plus} text={words.add} data-action="add-server" onClick={() => setOpen("new")} />
        <Button icon={Upload} text={words.import} data-action="import-servers" onClick={() => setOpen("import")} />
        <span role="status">{said}</span>
      </div>
      <ErrorNote text={error} />
      {shown && (
        <NumberInput
          label={words.rounds}
          hint={words.roundsHint}
          class="tools-rounds"
          value={shown.rounds}
          min={1}
          max={shown.most_rounds}
          onDone={(value) => act("limit_rounds", { value })}
        />
      )}
      {open === "import" && <ImportDialog onClose={close} />}
      {open !== null && open !== "import" && <ServerDialog server={open === "new" ? null : open} onClose={close} />}
    </Panel>
  );
}

type ServerProps = { server: ToolServer; onAct: (name: string, data: object) => Promise<boolean>; onEdit: () => void };
function Server({ server, onAct, onEdit }: ServerProps) {
  const { name, phase, on, tools } = server;
  const [removing, setRemoving] = useState(false);
  const remove = async () => {
    setRemoving(false);
    await onAct("remove_server", { name });
  };
  return (
    <section class="tool-server ft-stack ft-box" data-server={name} data-phase={on ? phase : "off"} aria-label={name}>
      <header class="ft-row">
        <h3>{name}</h3>
        <span class="tool-phase ft-hint grow" role="status">
          {on ? words.phases[phase] : words.off}
          {on && phase === "ready" && `, ${words.toolsCount(tools.length)}`}
        </span>
        {on && phase !== "ready" && phase !== "starting" && (
          <Button small icon={Play} data-action="test-server" onClick={() => onAct("test_server", { name })}>
            {phase === "failed" ? words.again : words.start}
          </Button>
        )}
        <Menu
          kind="quiet"
          small
          icon={Ellipsis}
          label={words.more(name)}
          items={[
            { label: words.edit, icon: Pencil, onPick: onEdit },
            { label: words.remove, icon: Trash2, danger: true, onPick: () => setRemoving(true) },
          ]}
        />
      </header>
      <code class="tool-line ft-pre">{server.line}</code>
      {phase === "failed" && <ErrorNote text={server.why} />}
      <Toggle label={words.use} value={on} onChange={(value) => onAct("turn_server", { name, on: value })} />
      {tools.length > 0 && on && (
        <Disclosure summary={words.toolsCount(tools.length)}>
          <div class="tool-list ft-stack ft-gap-3">
            {tools.map((tool) => (
              <Toggle
                key={tool.name}
                label={tool.name}
                hint={tool.about}
                value={tool.on}
                onChange={(value) => onAct("turn_tool", { name, tool: tool.name, on: value })}
              />
            ))}
            {server.left_out.map((each) => (
              <p key={each} class="ft-hint">
                {each}
              </p>
            ))}
          </div>
        </Disclosure>
      )}
      <Dialog
        title={words.removeAsk(name)}
        open={removing}
        onClose={() => setRemoving(false)}
        actions={
          <>
            <Button onClick={() => setRemoving(false)}>{words.cancel}</Button>
            <Button kind="danger" text={words.remove} onClick={remove} />
          </>
        }>
        <p>{words.removeHint}</p>
      </Dialog>
    </section>
  );
}
