// Every word about tools in a chat.

import { seconds, several, speed, times } from "../../../shared/format";
import type { Call } from "./calls";
import type { Turn } from "./turn";

const STATES: Record<Call["state"], string> = {
  waiting: "waiting for you",
  running: "running …",
  done: "done",
  failed: "failed",
  refused: "refused",
  stopped: "stopped",
  interrupted: "interrupted: Foretoken was closed",
};

export const words = {
  calling: (tool: string) => `Calling ${tool}`,
  starting: (servers: string[]) => `Starting ${servers.join(", ")} …`,
  state: (call: Call) =>
    call.seconds === null ? STATES[call.state] : `${STATES[call.state]}, ${seconds(call.seconds)}`,
  of: (server: string) => `from ${server}`,
  ask: ({ name, server }: Call) => `Run ${name} from ${server}?`,
  arguments: "Arguments",
  result: "Result",
  cut: (n: number) => `${several(n, "character")} left out: the result was too long for the model.`,
  once: "Run once",
  trust: (server: string) => `Trust ${server} in this chat`,
  trustHint: (server: string) => `Run every tool from ${server} in this chat without asking`,
  refuse: "Refuse",
  back: "Back",
  reason: "Reason for the model (optional)",
  elsewhere: "This call was already answered in another window.",
  limit: (n: number) => `Stopped after ${several(n, "tool step")}.`,
  unanswered: "The model has not replied to these results yet.",
  continue: "Continue",

  tools: "Tools",
  menu: (on: number) => (on ? `Tools: ${several(on, "server")} on` : "Tools"),
  none: "No tool servers yet. Add one in Settings.",
  toSettings: "Tool servers in Settings",
  use: (name: string, tools: number) => (tools ? `${name} (${several(tools, "tool")})` : name),
  trusted: "Runs without asking in this chat.",
  distrust: "Ask again",
  phases: { starting: "Starting …", stopped: "Starts with the next message", ready: "", failed: "" },
  off: "Off in Settings",

  turn: ({ completion_tokens: tokens, tokens_per_s: perSecond, speedup }: Turn) =>
    [
      "Whole turn",
      several(tokens, "token"),
      perSecond && `${speed(perSecond)} tokens/s`,
      speedup && `${times(speedup)} the speed without drafting`,
    ]
      .filter(Boolean)
      .join(" · "),
};
