// A race as the page knows it, from the events of app/ui/pages/race/run.py. No DOM but that of the replies.

import { Reply } from "../../shared/reply";
import type { Round } from "../../shared/replay/timeline";
import type { Played } from "./result";

// What the runs show.
export type Found = { median: number; low: number; high: number; favours: number };

type Side = "base" | "rival";
export const SIDES = ["base", "rival"] as const;

// One side's last reply; each turn of a conversation is one.
type Lane = { state: "waiting" | "warm" | "writes" | "done" | "cut"; replies: Reply[]; rounds: Round[] };

interface Pair {
  ratio: number;
  base_tokens_per_s: number;
  rival_tokens_per_s: number;
  acceptance_rate: number | null;
  same_words: boolean;
}

// Where the texts differ first, and why.
export interface Divergence {
  position: number;
  base: string | null;
  rival: string | null;
  candidates: { text: string; p: number }[];
  cause: "numerical tie" | "bug";
}

const IDLE: Lane = { state: "waiting", replies: [], rounds: [] };

export class Race {
  names: [string, string] = ["", ""];
  compared = false; // texts are compared
  about: { prompts: string[]; max_tokens: number | null; seed: number } | null = null;
  notes: string[] = [];
  pairs: Pair[] = [];
  standing: (Omit<Found, "median"> & { median: number | null; verdict: string; certainty: string }) | null = null;
  opening: { said: string; done: number | null } | null = null;
  run: { side: Side; pair: number | null; of: number; done: number; total: number } | null = null;
  lanes: Record<Side, Lane> = { base: IDLE, rival: IDLE };
  played: Played[] | null = null; // the last pair
  words: { different: number; promised: boolean; told: string; divergence: Divergence | null } | null = null;
  complete: boolean | null = null; // null while it runs
}

export const FRESH = new Race();

// Returns the race after an event.
export function take(race: Race, event: any): Race {
  if (event.t === "run") return begin(race, event);
  if (event.side) return write(race, event);
  if (["opening", "standing", "words"].includes(event.t)) return { ...race, [event.t]: event };
  if (event.t === "begun") {
    const { names, compared, notes, pairs } = event;
    return { ...race, names, compared, notes, pairs, about: event };
  }
  if (event.t === "pair") {
    const played = SIDES.map((side, i) => ({ name: race.names[i], rounds: race.lanes[side].rounds }));
    return { ...race, pairs: [...race.pairs, event], played };
  }
  if (event.t === "rest") return end(race, event.complete);
  return event.t === "broken" ? end(race, true) : race;
}

function begin(race: Race, event: any): Race {
  const { lanes } = race;
  const over = (lane: Lane) => (lane.state === "writes" ? { ...lane, state: "done" as const } : lane);
  const begun = { ...IDLE, state: event.pair === null ? "warm" : "writes" };
  return { ...race, run: event, lanes: { base: over(lanes.base), rival: over(lanes.rival), [event.side]: begun } };
}

function write(race: Race, event: any): Race {
  const side = event.side as Side;
  const lane = race.lanes[side];
  const another = event.t === "started" || (!lane.replies.length && event.t !== "queued");
  const replies = another ? [...lane.replies, new Reply()] : lane.replies;
  const rounds = replies.at(-1)?.add([event], event.thought) ?? [];
  const cut = event.t === "finished" && event.reason === "cancelled";
  const written = { replies, rounds: [...lane.rounds, ...rounds], state: cut ? "cut" : lane.state };
  return { ...race, lanes: { ...race.lanes, [side]: written } as Race["lanes"] };
}

function end(race: Race, complete: boolean): Race {
  const over = (lane: Lane) =>
    lane.replies.length && lane.state !== "cut" ? { ...lane, state: "done" as const } : lane;
  return { ...race, complete, lanes: { base: over(race.lanes.base), rival: over(race.lanes.rival) } };
}
