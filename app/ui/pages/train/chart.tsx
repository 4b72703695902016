// A small line chart over time.

import { fixed } from "../../shared/format";
import { Fitted } from "../../shared/replay/charts";

const HEIGHT = 170;
const LEFT = 42;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 24;
const MARKED = 40; // with more points only the last has a dot

// Draws `points`, [x, y] in order. `from`: where the y axis begins, unless a point is lower.
type ChartProps = {
  points: [number, number][];
  label: string;
  at: (x: number) => string;
  from?: number;
  axis?: string;
};
export function Chart({ points, label, at, from = Infinity, axis }: ChartProps) {
  const ys = points.map(([, y]) => y);
  const least = Math.min(from, ...ys);
  const most = Math.max(...ys);
  const room = Math.max(0, 0.1 - (most - least)); // a flat line has some above and below
  const low = least === from ? least : least - room / 2;
  const high = low + Math.max(most - least, 0.1);
  const end = Math.max(points[points.length - 1][0], 1e-9);
  const y = (value: number) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const dots = points.length <= MARKED ? points : points.slice(-1);
  return (
    <Fitted label={`${label}: ${fixed(ys.at(-1))}`} class="chart" height={HEIGHT}>
      {(width) => {
        const x = (value: number) => LEFT + (value / end) * (width - LEFT - RIGHT);
        return (
          <>
            {[low, (low + high) / 2, high].map((value) => (
              <g key={value}>
                <line x1={LEFT} x2={width - RIGHT} y1={y(value)} y2={y(value)} class="grid" />
                <text x={LEFT - 6} y={y(value) + 4} text-anchor="end">
                  {fixed(value)}
                </text>
              </g>
            ))}
            <text x={LEFT} y={HEIGHT - 6}>
              {at(0)}
            </text>
            <text x={width - RIGHT} y={HEIGHT - 6} text-anchor="end">
              {at(end)}
            </text>
            {axis && (
              <text x={LEFT + 4} y={TOP + 12}>
                {axis}
              </text>
            )}
            <polyline class="curve" points={points.map((each) => `${x(each[0])},${y(each[1])}`).join(" ")} />
            {dots.map((each) => (
              <circle key={each[0]} cx={x(each[0])} cy={y(each[1])} r={2.6} class="dot" />
            ))}
          </>
        );
      }}
    </Fitted>
  );
}
