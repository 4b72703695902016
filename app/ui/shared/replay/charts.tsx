// Small SVG charts in pixels; their text keeps its size at any width.

import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";

const HEIGHT = 92;
const TOP = 16;
const BOTTOM = 16;
const WIDEST = 34;
const LABEL = 20; // the least width for a number at a bar
const UNSEEN = 320; // the width of a chart that is not in the page yet

// An SVG of this height and as wide as its container; `children(width)` is its content.
type FittedProps = { label: string; class: string; height: number; children: (width: number) => ComponentChildren };
export function Fitted({ label, height, children, class: look }: FittedProps) {
  const node = useRef<SVGSVGElement>(null);
  const [width, setWidth] = useState(UNSEEN);
  useEffect(() => {
    const sizes = new ResizeObserver(([entry]) => setWidth((old) => Math.floor(entry.contentRect.width) || old));
    if (node.current) sizes.observe(node.current);
    return () => sizes.disconnect();
  }, []);
  return (
    <svg
      ref={node}
      class={`fitted ${look}`}
      role="img"
      aria-label={label}
      style={{ height: `${height}px` }}
      viewBox={`0 0 ${width} ${height}`}>
      {children(width)}
    </svg>
  );
}

// `values` as bars up to `most`, counted from `first`. `label` and all values are the accessible name. Narrow bars are
// not all numbered.
type BarsProps = { values: number[]; label: string; first: number; format: (x: number) => string; most?: number };
export function Bars({ values, label, first, format, most = Math.max(...values, 1e-9) }: BarsProps) {
  const told = values.map((value, i) => `${first + i}: ${format(value)}`).join(", ");
  return (
    <Fitted label={`${label}: ${told}`} class="bars" height={HEIGHT}>
      {(width) => {
        const each = Math.min(WIDEST, width / Math.max(values.length, 1));
        const numbered = Math.ceil(LABEL / each);
        const gap = Math.min(2, each / 6);
        const base = HEIGHT - BOTTOM;
        return (
          <>
            <line x1={0} x2={each * values.length} y1={base + 0.5} y2={base + 0.5} class="grid" />
            {values.map((value, i) => {
              const height = Math.max(value > 0 ? 1 : 0, (value / most) * (base - TOP));
              const middle = each * (i + 0.5);
              return (
                <g key={i}>
                  <rect
                    class="bar"
                    x={each * i + gap}
                    y={base - height}
                    width={each - 2 * gap}
                    height={height}
                    rx={Math.min(2, gap)}
                  />
                  {i % numbered === 0 && (
                    <>
                      <text class="value" x={middle} y={base - height - 4} text-anchor="middle">
                        {format(value)}
                      </text>
                      <text x={middle} y={HEIGHT - 4} text-anchor="middle">
                        {first + i}
                      </text>
                    </>
                  )}
                </g>
              );
            })}
          </>
        );
      }}
    </Fitted>
  );
}
