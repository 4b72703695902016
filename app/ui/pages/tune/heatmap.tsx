// Speed-ups as a table of colours: settings down, kinds of prompts across.

import { Table } from "../../shared/components";
import { words } from "./words";
import type { Row } from "./tune";

const MOST = Math.log(2.5); // the speed-up with the deepest colour

// `rows`: one for every setting and kind, the fastest over all first. Plain decoding is the baseline and has no line.
// `outlined`: the fastest are.
export function Heatmap({ rows, kinds: all, outlined }: { rows: Row[]; kinds: string[]; outlined: boolean }) {
  const kinds = all.length === 2 ? all.slice(0, 1) : all; // of one kind, "all" would be the same again
  const place = (row: Row) => (row.kind === "all" ? -row.speedup : 0);
  const drafted = rows.filter((row) => row.method !== "none").sort((one, other) => place(one) - place(other));
  const keyOf = (row: Row) => `${row.method} ${row.depth}`;
  const settings = [...new Map(drafted.map((row) => [keyOf(row), row])).entries()];
  const cells = new Map(drafted.map((row) => [`${keyOf(row)} ${row.kind}`, row]));
  const best = (kind: string) => Math.max(1, ...drafted.filter((row) => row.kind === kind).map((row) => row.speedup));
  return (
    <div class="tune-map ft-scroll" tabIndex={0} role="group" aria-label={words.map}>
      <Table
        class={outlined ? "heatmap outlined" : "heatmap"}
        columns={[words.method, words.depth, ...kinds.map((name) => (name === "all" ? words.all : name))]}>
        <tbody>
          {settings.map(([key, { title, depth }]) => (
            <tr key={key} data-setting={key}>
              <th scope="row">{title}</th>
              <td>{depth}</td>
              {kinds.map((kind) => (
                <Cell key={kind} row={cells.get(`${key} ${kind}`)} best={best(kind)} />
              ))}
            </tr>
          ))}
        </tbody>
      </Table>
    </div>
  );
}

function Cell({ row, best }: { row: Row | undefined; best: number }) {
  if (!row) return <td>–</td>;
  const faster = row.speedup >= 1;
  const look = ["heat", faster ? "faster" : "slower", faster && row.speedup === best && "best"];
  const heat = Math.round(Math.min(Math.abs(Math.log(row.speedup)) / MOST, 1) * 42);
  return (
    <td
      class={look.filter(Boolean).join(" ")}
      title={words.cell(row)}
      data-kind={row.kind}
      style={{ "--heat": `${heat}%` }}>
      {words.times(row.speedup)}
      {row.prompts > 1 && <small>{words.spread(row)}</small>}
    </td>
  );
}
