// The runs of a race as dots on one axis: below 1 slower, above it faster.

import { Fitted } from "../../shared/replay/charts";
import { words } from "./words";

// What the runs show.
export type Found = { median: number; low: number; high: number; favours: number };

const LEFT = 16;
const RIGHT = 16;
const TOP = 14;
const BOTTOM = 34;
const TICKS = [
  0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128,
];
const LEAST = Math.log(1.25); // the axis shows at least from 0.8 to 1.25
const APART = 44; // between two ticks

// Returns the ticks between two logarithms that have room: 1 first, then those before and after it.
function ticks(low: number, high: number, x: (ratio: number) => number) {
  let last = -Infinity;
  return TICKS.filter((each) => {
    if (Math.log(each) < low || Math.log(each) > high) return false;
    if (each !== 1 && (x(each) - last < APART || Math.abs(x(each) - x(1)) < APART)) return false;
    last = x(each);
    return true;
  });
}

// `ratios` are in the order they were measured.
export function Chart({ ratios, found }: { ratios: number[]; found: Found }) {
  const logs = ratios.map(Math.log);
  const low = Math.min(-LEAST, ...logs) - 0.08;
  const high = Math.max(LEAST, ...logs) + 0.08;
  const row = ratios.length > 12 ? 5 : 11;
  const height = TOP + BOTTOM + row * Math.max(ratios.length, 5);
  const end = height - BOTTOM;
  const look = ["slow", "open", "fast"][found.favours + 1];
  return (
    <Fitted label={words.chart(ratios, found)} class={`dots ${look}`} height={height}>
      {(width) => {
        const x = (ratio: number) => LEFT + ((Math.log(ratio) - low) / (high - low)) * (width - LEFT - RIGHT);
        const upright = (ratio: number, kind: string) => (
          <line x1={x(ratio)} x2={x(ratio)} y1={TOP - 8} y2={end} class={kind} />
        );
        return (
          <>
            <rect
              class="range"
              x={x(found.low)}
              y={TOP - 6}
              width={Math.max(x(found.high) - x(found.low), 2)}
              height={end - TOP + 6}
              rx={4}
            />
            {ticks(low, high, x).map((tick) => (
              <g key={tick}>
                {upright(tick, tick === 1 ? "one" : "grid")}
                <text x={x(tick)} y={end + 14} text-anchor="middle">
                  {words.tick(tick)}
                </text>
              </g>
            ))}
            {upright(found.median, "median")}
            {ratios.map((ratio, i) => (
              <circle key={i} class="dot" cx={x(ratio)} cy={TOP + row * (i + 0.5)} r={row > 6 ? 5 : 3} />
            ))}
            <text class="way" x={LEFT} y={height - 4}>
              ← {words.slower}
            </text>
            <text class="way" x={width - RIGHT} y={height - 4} text-anchor="end">
              {words.faster} →
            </text>
          </>
        );
      }}
    </Fitted>
  );
}
