// The figures of a whole turn: all its replies, which called tools in between.

import { words } from "./words";

export type Turn = { completion_tokens: number; tokens_per_s: number | null; speedup: number | null };

// `turn` is missing where a turn is a single reply.
export const TurnTotals = ({ turn }: { turn?: Turn | null }) =>
  turn ? <div class="turn-totals ft-fine">{words.turn(turn)}</div> : null;
