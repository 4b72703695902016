// The rows in which a reply's rounds are listed: consecutive rounds that drafted nothing, for one reason, share a row.
// No DOM.

import { Timeline, type Round } from "./timeline";

// Its rounds, without `to`.
type Row = { from: number; to: number; folded: boolean };

export class Rows {
  timeline = new Timeline();
  rows: Row[] = [];
  rowOf: number[] = []; // the row of each round
  changes = new Set<number>(); // rounds from which another method drafts
  drafter: string | null = null;

  // Adds the rounds of `all` that are not here yet.
  take(all: Round[]) {
    for (const round of all.slice(this.timeline.length)) this.add(round);
  }

  add(round: Round) {
    const { timeline, rows } = this;
    const index = timeline.length;
    timeline.add([round]);
    if (round.o && this.drafter && round.o !== this.drafter) this.changes.add(index);
    this.drafter = round.o ?? this.drafter;
    const last = rows.at(-1);
    const folded = round.d.length === 0;
    if (folded && last?.folded && timeline.why(last.from) === timeline.why(index)) last.to += 1;
    else rows.push({ from: index, to: index + 1, folded });
    this.rowOf.push(rows.length - 1);
  }

  // Returns whether anything was drafted.
  get drafted() {
    return this.timeline.drafted[this.timeline.length] > 0;
  }
}
