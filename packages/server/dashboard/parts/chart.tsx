/** A chart of the last minute that moves every second, and the small line chart under a number. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { resolveColour, whenThemeChanges } from "../theme.ts";

export interface Series {
  readonly name: string;
  /** A variable of the style sheet. */
  readonly colour: string;
  readonly isFilled?: boolean;
}

export interface ChartProps {
  /** What the chart shows, for users who cannot see it. */
  readonly label: string;
  readonly series: readonly Series[];
  /** Seconds since the epoch, then a row for each series. */
  readonly rows: readonly (readonly number[])[];
  readonly height: number;
  readonly unit?: string;
}

export function Chart(props: ChartProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  const [theme, setTheme] = useState(0);
  useEffect(() => whenThemeChanges(() => setTheme((turn) => turn + 1)), []);

  useEffect(() => {
    const ground = place.current as HTMLDivElement;
    const made = new uPlot(chartOptions(props, ground.clientWidth), props.rows as uPlot.AlignedData, ground);
    chart.current = made;
    const resized = new ResizeObserver(() =>
      made.setSize({ width: ground.clientWidth, height: props.height }),
    );
    resized.observe(ground);
    return () => {
      resized.disconnect();
      made.destroy();
    };
  }, [theme, props.height]);

  useEffect(() => chart.current?.setData(props.rows as uPlot.AlignedData), [props.rows]);

  return <div class="chart" ref={place} role="img" aria-label={props.label} />;
}

function chartOptions({ series, height, unit = "" }: ChartProps, width: number): uPlot.Options {
  const [muted, line] = [resolveColour("--muted"), resolveColour("--line")];
  const axis = {
    stroke: muted,
    font: '11px "Inter", system-ui, sans-serif',
    ticks: { show: false },
    grid: { stroke: line, width: 1 },
  };
  return {
    width,
    height,
    padding: [8, 24, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
    scales: { y: { range: (_, __, most) => [0, Math.max(4, most * 1.15)] } },
    axes: [
      { ...axis, grid: { show: false }, size: 26, space: 80, values: (_, ticks) => ticks.map(clock) },
      {
        ...axis,
        size: unit === "" ? 42 : 58,
        space: 36,
        values: (_, ticks) => ticks.map((tick) => `${tick}${unit}`),
      },
    ],
    series: [{}, ...series.map(seriesStroke)],
  };
}

function seriesStroke({ name, colour, isFilled = false }: Series): uPlot.Series {
  const stroke = resolveColour(colour);
  const fill = isFilled ? { fill: stroke.replace(/^rgb\((.*)\)$/, "rgba($1, 0.1)") } : {};
  const paths = uPlot.paths.spline?.();
  return { label: name, stroke, width: 1.75, points: { show: false }, ...fill, ...(paths && { paths }) };
}

function clock(seconds: number): string {
  const at = new Date(seconds * 1_000);
  return [at.getHours(), at.getMinutes(), at.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
}

const WIDTH = 100;
const HEIGHT = 28;

/** Shows only the shape; the number above it says how much. */
export function Spark({
  values,
  tone,
}: {
  readonly values: readonly number[];
  readonly tone: string;
}): JSX.Element | null {
  const most = Math.max(...values);
  if (!(most > 0)) return null;
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.map((value, index) => {
    const y = HEIGHT - 1.5 - (value / most) * (HEIGHT - 3);
    return `${(index * step).toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <svg
      class={`spark is-${tone}`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      focusable="false"
    >
      <polygon points={`0,${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`} />
      <polyline points={points.join(" ")} />
    </svg>
  );
}
