// The servers of tools: listed, added, imported, tested, changed and removed.

import { useRef, useState } from "preact/hooks";
import { FileUp, Pencil, Play, Plus, Upload } from "lucide";
import * as ui from "../../shared/components";
import { several } from "../../shared/format";

interface ToolServer {
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

type ToolServers = { servers: ToolServer[]; rounds: number; most_rounds: number };

const PHASES = { stopped: "Not running", starting: "Starting …", ready: "Running", failed: "Failed" };

const POLL_MS = 500; // while a server is being started

export function Tools({ shown: visible }: { shown: boolean }) {
  const { act, answer: shown, setAnswer, error, refresh } = ui.useAnswer<ToolServers>("tool_servers", visible);
  const [open, setOpen] = useState<ToolServer | "new" | "import" | null>(null);
  const [said, setSaid] = useState("");
  const starting = shown?.servers.some(({ phase }) => phase === "starting") ?? false;
  ui.useTimer(starting && POLL_MS, () => void refresh(), [shown, error]);
  ui.useListener(document, "visibilitychange", () => document.visibilityState === "visible" && refresh());
  const close = (fresh: ToolServers | null = null, text = "") => {
    setOpen(null);
    setSaid(text);
    if (fresh) setAnswer(fresh);
  };
  return (
    <ui.Panel title="Tools" class="tools-panel">
      <p class="ft-hint">
        Servers that speak MCP, the Model Context Protocol, give models tools: files, search, calculators. A server
        starts when a chat first uses it. You are asked before each call, unless you trust the server in a chat.
      </p>
      {shown?.servers.map((server) => (
        <Server key={server.name} server={server} onAct={act} onEdit={() => setOpen(server)} />
      ))}
      {shown && !shown.servers.length && (
        <p>No servers yet. Add one, or import the JSON file of Claude Desktop, LM Studio, Cursor or VS Code.</p>
      )}
      <div class="ft-row">
        <ui.Button icon={Plus} text="Add server" data-action="add-server" onClick={() => setOpen("new")} />
        <ui.Button icon={Upload} text="Import JSON" data-action="import-servers" onClick={() => setOpen("import")} />
        <span role="status">{said}</span>
      </div>
      <ui.ErrorNote text={error} />
      {shown && (
        <ui.NumberInput
          label="Tool steps per message"
          hint="In a step the model calls one or more tools and reads the results. After this many steps it stops; you can continue."
          class="tools-rounds"
          value={shown.rounds}
          min={1}
          max={shown.most_rounds}
          onDone={(value) => act("limit_rounds", { value })}
        />
      )}
      {open === "import" && <ImportDialog onClose={close} />}
      {open !== null && open !== "import" && <ServerDialog server={open === "new" ? null : open} onClose={close} />}
    </ui.Panel>
  );
}

type ServerProps = { server: ToolServer; onAct: (name: string, data: object) => Promise<boolean>; onEdit: () => void };
function Server({ server, onAct, onEdit }: ServerProps) {
  const { name, phase, on, tools } = server;
  return (
    <section class="tool-server ft-stack ft-box" data-server={name} data-phase={on ? phase : "off"} aria-label={name}>
      <header class="ft-row">
        <h3>{name}</h3>
        <span class="tool-phase ft-hint grow" role="status">
          {on ? PHASES[phase] : "Off"}
          {on && phase === "ready" && `, ${several(tools.length, "tool")}`}
        </span>
        {on && phase !== "ready" && phase !== "starting" && (
          <ui.Button small icon={Play} data-action="test-server" onClick={() => onAct("test_server", { name })}>
            {phase === "failed" ? "Try again" : "Start and list tools"}
          </ui.Button>
        )}
        <ui.IconButton icon={Pencil} label={`Edit ${name}`} onClick={onEdit} />
        <ui.SureButton
          small
          text="Remove"
          aria-label={`Remove ${name}`}
          title="Stops its program and deletes its keys. Chats keep what it returned."
          sure="Stop it and delete its keys?"
          onSure={() => onAct("remove_server", { name })}
        />
      </header>
      <code class="tool-line ft-pre">{server.line}</code>
      {phase === "failed" && <ui.ErrorNote text={server.why} />}
      <ui.Toggle label="Use in chats" value={on} onChange={(value) => onAct("turn_server", { name, on: value })} />
      {tools.length > 0 && on && (
        <ui.Disclosure summary={several(tools.length, "tool")}>
          <div class="tool-list ft-stack ft-gap-3">
            {tools.map((tool) => (
              <ui.Toggle
                key={tool.name}
                label={tool.name}
                hint={tool.about}
                value={tool.on}
                onChange={(value) => onAct("turn_tool", { name, tool: tool.name, on: value })}
              />
            ))}
            {server.left_out.map((each) => (
              <p key={each} class="ft-hint" children={each} />
            ))}
          </div>
        </ui.Disclosure>
      )}
    </section>
  );
}

type OnClose = (fresh?: ToolServers | null, said?: string) => void;

const EMPTY = { name: "", command: "", args: "", env: "", cwd: "", url: "", headers: "", seconds: 60 as number | null };
const KINDS = { program: "Program on this machine", http: "HTTP server" };

// The form of one server; `server` is null for a new one.
function ServerDialog({ server, onClose }: { server: ToolServer | null; onClose: OnClose }) {
  const { ask, error } = ui.useServer();
  const [values, setValues] = useState({ ...EMPTY, ...server });
  const [kind, setKind] = useState(server?.url ? "http" : "program");
  const field = ui.bound(values, (changed) => setValues((before) => ({ ...before, ...changed })));
  const lines = (name: "args" | "env" | "headers", label: string, hint: string) => (
    <ui.TextInput label={label} hint={hint} {...field(name)} lines={name === "args" ? 3 : 2} placeholder="optional" />
  );
  const submit = async () => {
    const { name, seconds, command, args, env, cwd, url, headers } = values;
    const how = kind === "http" ? { url, headers } : { command, args, env, cwd };
    const fresh = await ask("keep_server", { was: server?.name ?? null, name, seconds: String(seconds), ...how });
    if (fresh) onClose(fresh);
  };
  return (
    <ui.FormDialog
      class="tool-form"
      title={server ? `Edit ${server.name}` : "Add server"}
      open
      onClose={() => onClose()}
      submit="Save"
      onSubmit={submit}
      error={error}>
      <ui.TextInput label="Name" hint="For example: files" {...field("name")} required />
      <ui.Select label="Kind" value={kind} options={KINDS} onChange={setKind} />
      {kind === "program" ? (
        <>
          <ui.TextInput label="Command" hint="For example: npx, uvx or python" {...field("command")} required />
          {lines("args", "Arguments", "One per line")}
          <p class="ft-hint">Foretoken runs this program with your permissions. Add only programs that you trust.</p>
        </>
      ) : (
        <>
          <ui.TextInput label="URL" {...field("url")} type="url" placeholder="https://example.com/mcp" required />
          {lines("headers", "Headers", "One Name: value per line, such as Authorization. Saved values are hidden.")}
        </>
      )}
      <ui.Disclosure summary="More settings">
        <div class="ft-stack ft-gap-3">
          {kind === "program" && (
            <>
              {lines("env", "Environment variables", "One NAME=value per line. Saved values are hidden.")}
              <ui.TextInput label="Working folder" {...field("cwd")} placeholder="optional" />
            </>
          )}
          <ui.NumberInput label="Time limit per call, in seconds" {...field("seconds")} min={1} max={3600} required />
        </div>
      </ui.Disclosure>
    </ui.FormDialog>
  );
}

// Imports several servers from JSON.
function ImportDialog({ onClose }: { onClose: OnClose }) {
  const { ask, error } = ui.useServer();
  const [text, setText] = useState("");
  const file = useRef<HTMLInputElement>(null);
  const submit = async () => {
    const fresh = await ask("import_servers", { text });
    if (fresh) onClose(fresh, [`Added ${fresh.added.join(", ")}.`, fresh.ignored].filter(Boolean).join(" "));
  };
  const read = async ({ files }: HTMLInputElement) => setText((await files?.[0]?.text()) ?? "");
  return (
    <ui.FormDialog
      class="tool-form"
      title="Import servers"
      open
      onClose={() => onClose()}
      submit="Import JSON"
      onSubmit={submit}
      error={error}
      more={<ui.Button icon={FileUp} text="Choose file" onClick={() => file.current?.click()} />}>
      <ui.TextInput
        label="JSON"
        hint={'Paste JSON of the form {"mcpServers": {...}}, or choose the file.'}
        {...{ value: text, onChange: setText }}
        lines={8}
        required
      />
      <input type="file" accept=".json" hidden ref={file} onChange={({ currentTarget }) => read(currentTarget)} />
      <p class="ft-hint">
        Foretoken runs the programs of these servers with your permissions. Import only what you trust.
      </p>
    </ui.FormDialog>
  );
}
