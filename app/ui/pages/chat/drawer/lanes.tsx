// The list of rounds: a row each, whose signs or tokens are shown.

import { several } from "../../../shared/format";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ArrowDown, Info } from "lucide";
import { Button, Icon } from "../../../shared/components";
import { Follow } from "../../../shared/follow";
import { Chips, Probe, explains } from "../../../shared/replay/chips";
import { acceptedOf, agreedOf, type Round, type Rows } from "../../../shared/replay/timeline";
import { VirtualList, type ListHandle } from "../../../shared/virtual";
import type { RefObject } from "preact";

const CLOSED = 22; // px; as in rounds.css
const OPEN = 54; // a guess

// The list itself. Up and down go from row to row, right and left into a row's tokens and out; Tab stops at it once.
type LanesProps = {
  listed: Rows;
  allOpen: boolean;
  token: number | null;
  replayed: number;
  empty: string;
  onLight: (from: number, to: number) => void;
};
export function Lanes({ listed, allOpen, token, replayed, empty, onLight }: LanesProps) {
  const { timeline, rows } = listed;
  const node = useRef<HTMLDivElement>(null);
  const list = useRef<ListHandle>(null);
  const [turned, setTurned] = useState<Set<number>>(new Set()); // rows that differ from `allOpen`
  const isOpen = (row: number) => turned.has(row) !== allOpen;
  useEffect(() => setTurned(new Set()), [allOpen]);
  const follow = useRef<Follow>(null);
  const [atEnd, setAtEnd] = useState(true);
  useEffect(() => void (follow.current = new Follow(node.current as HTMLElement, setAtEnd)), [node]);

  const lit = token === null ? replayed - 1 : timeline.ofToken(token);
  useLayoutEffect(() => {
    if (lit >= 0) list.current?.reveal(listed.rowOf[lit]);
  }, [lit]);

  const turn = (row: number, open = !isOpen(row)) => {
    if (isOpen(row) === open) return;
    const next = new Set(turned);
    if (!next.delete(row)) next.add(row);
    setTurned(next);
  };
  const light = (event: Event) => {
    const lane = (event.target as Element).closest(".lane");
    const row = rows[Number(lane?.getAttribute("data-row") ?? -1)];
    if (row) onLight(timeline.tokensOf(row.from)[0], timeline.tokensOf(row.to - 1)[1]);
  };
  return (
    <div class="lanes-frame">
      {!timeline.length && <p class="lanes-empty ft-hint">{empty}</p>}
      <div
        class="lanes"
        tabIndex={0}
        role="region"
        aria-label="Rounds"
        data-rounds={timeline.length}
        ref={node}
        onKeyDown={(event) => walk(event, { rows: rows.length, list, turn })}
        onMouseOver={light}
        onFocusIn={light}
        onMouseLeave={() => onLight(0, 0)}>
        <VirtualList
          count={rows.length}
          estimate={(row) => (isOpen(row) ? OPEN : CLOSED)}
          varies={isOpen}
          version={String(allOpen)}
          atEnd={atEnd}
          scroller={node}
          handle={list}>
          {(row, properties) => (
            <Lane
              {...properties}
              listed={listed}
              row={row}
              open={isOpen(row)}
              lit={lit >= 0 && listed.rowOf[lit] === row}
              onTurn={() => turn(row)}
            />
          )}
        </VirtualList>
      </div>
      <Probe root={node} />
      {!atEnd && <Button small class="newest" icon={ArrowDown} text="Newest" onClick={() => follow.current?.toEnd()} />}
    </div>
  );
}

function toldOf(round: Round) {
  const told = `Round ${round.i + 1}: ${acceptedOf(round)} of ${round.d.length} accepted`;
  const rejected = round.n[1] === "c" && round.d.find(([, fate]) => fate === "r");
  return rejected ? `${told}, rejected at ${JSON.stringify(rejected[0])}` : told;
}

type LaneProps = { listed: Rows; row: number; open: boolean; lit: boolean; onTurn: () => void };
function Lane({ listed, row, open, lit, onTurn, ...properties }: LaneProps) {
  const { timeline, changes } = listed;
  const { from, to, folded } = listed.rows[row];
  const rounds = timeline.rounds.slice(from, to);
  const [first] = rounds;
  // A folded row always has a reason; another one tells it where the controller changed its mind.
  const why = folded ? timeline.why(from) : (first.w?.[0] ?? null);
  const summary = folded ? `${several(to - from, "round")} not drafted` : toldOf(first);
  return (
    <li
      {...properties}
      class={`lane${folded ? " folded" : ""}${lit ? " lit" : ""}`}
      data-round={first.i}
      data-rounds={to - from}
      data-row={row}>
      <button
        class="row-head ft-bare"
        type="button"
        tabIndex={-1}
        aria-expanded={open}
        aria-label={why ? `${summary}: ${why}` : summary}
        onClick={onTurn}>
        <span class="index" aria-hidden="true">
          {first.i + 1}
        </span>
        {folded ? <span class="run">{summary}</span> : <Cells round={first} />}
        {changes.has(from) && (
          <span class="drafter tag" title="Drafting method from this round on">
            {first.o}
          </span>
        )}
        {why && (
          <span class="why" ref={explains({ sentence: [why] })}>
            <Icon of={Info} size={14} />
          </span>
        )}
      </button>
      {open && (
        <div class="row-words">
          {folded && why && <p class="reason ft-fine">{why}</p>}
          {folded ? (
            <p class="ft-fine">{rounds.map(({ s }) => s).join("")}</p>
          ) : (
            rounds.map((round) => <Chips round={round} />)
          )}
        </div>
      )}
    </li>
  );
}

// A closed row: signs in place of the tokens.
function Cells({ round }: { round: Round }) {
  const accepted = agreedOf(round);
  const judged = round.n[1] === "c";
  const left = round.b ? 0 : Math.max(0, round.d.length - accepted - Number(judged));
  return (
    <span class="cells" aria-hidden="true">
      {accepted > 0 && <i class="cell-kept" style={{ "--n": accepted }} />}
      {judged && <i class="cell-cap" />}
      {left > 0 && <i class="cell-left" style={{ "--n": left }} />}
      <i class={judged ? "cell-own correction" : "cell-own bonus"} />
    </span>
  );
}

type Walk = { rows: number; list: RefObject<ListHandle | null>; turn: (row: number, open?: boolean) => void };

function walk(event: KeyboardEvent, { rows, list, turn }: Walk) {
  const lanes = event.currentTarget as HTMLElement;
  const current = document.activeElement as HTMLElement;
  const lane = current.closest(".lane");
  const at = lane ? Number(lane.getAttribute("data-row")) : -1;
  const chips = [...(lane?.querySelectorAll<HTMLElement>(".chip") ?? [])];
  const chip = chips.indexOf(current);
  const head = (row: number) => {
    list.current?.reveal(row);
    const find = () => lanes.querySelector<HTMLElement>(`[data-row="${row}"] .row-head`);
    // A row that comes into view is drawn first.
    if (find()) find()?.focus();
    else queueMicrotask(() => find()?.focus());
  };
  if (!rows) return;
  const { key } = event;
  if (key === "ArrowDown") head(Math.min(at + 1, rows - 1));
  else if (key === "ArrowUp" && at >= 0) head(Math.max(at - 1, 0));
  else if (key === "Home" || (key === "ArrowRight" && at < 0)) head(0);
  else if (key === "End") head(rows - 1);
  else if (key === "ArrowRight" && chip < 0) {
    turn(at, true);
    queueMicrotask(() => lanes.querySelector<HTMLElement>(`[data-row="${at}"] .chip`)?.focus());
  } else if (key === "ArrowRight") chips[chip + 1]?.focus();
  else if (key === "ArrowLeft" && chip > 0) chips[chip - 1].focus();
  else if (key === "ArrowLeft" && chip === 0) head(at);
  else if (key === "ArrowLeft" && at >= 0) turn(at, false);
  else if (key === "Escape" && lane) chip < 0 ? lanes.focus() : head(at);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
