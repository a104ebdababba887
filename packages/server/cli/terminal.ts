/** Output for people: colours and a progress bar on a terminal, plain lines elsewhere. */
import { styleText } from "node:util";
import { clearStatus, showStatus } from "./status-line.ts";

type Style = "green" | "red" | "yellow" | "cyan" | "bold" | "dim";

/** Whether the stream is a terminal with colours and `NO_COLOR` is not set. */
function hasColour({ isTTY }: NodeJS.WriteStream): boolean {
  const { NO_COLOR, TERM } = process.env;
  return isTTY === true && !NO_COLOR && TERM !== "dumb";
}

export function paint(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return hasColour(stream) ? styleText(style, text, { validateStream: false }) : text;
}

/** Characters that control a terminal. A key or a name may contain any of them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern finds control characters.
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

export function plain(value: unknown): string {
  if (value === undefined || value === null) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.replace(CONTROLS, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A table with column names; each column is as wide as its longest cell. */
export function table(
  columns: readonly string[],
  rows: readonly (readonly unknown[])[],
  style: (column: string, text: string) => Style | undefined = () => undefined,
): readonly string[] {
  const cells = rows.map((row) => row.map(plain));
  const widths = columns.map((column, index) =>
    Math.max(column.length, ...cells.map((row) => row[index]?.length ?? 0)),
  );
  const padded = (row: readonly string[]) => row.map((text, index) => text.padEnd(widths[index] ?? 0));
  const shown = cells.map((row) =>
    padded(row)
      .map((text, index) => {
        const found = style(columns[index] ?? "", text.trim());
        return found === undefined ? text : paint(found, text);
      })
      .join("  ")
      .trimEnd(),
  );
  return [paint("dim", padded(columns).join("  ").trimEnd()), ...shown];
}

/** One `name  value` per line. */
export function fields(values: Readonly<Record<string, unknown>>): readonly string[] {
  const known = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  const width = Math.max(0, ...known.map(([name]) => name.length));
  return known.map(([name, value]) => `${paint("dim", name.padEnd(width))}  ${plain(value)}`);
}

export interface Bar {
  /** One more is done. */
  step(label: string): void;
  /** So many are done. */
  at(done: number, label: string): void;
  /** Removes the bar from the screen. */
  end(): void;
}

const WIDTH = 24;

/** A progress bar on standard error, drawn only on a terminal. Without a total, it counts. */
export function progressBar(total: number | undefined): Bar {
  let done = 0;
  const draw = (label: string) => showStatus(barText({ done, total, label }));
  return {
    step(label) {
      done += 1;
      draw(label);
    },
    at(now, label) {
      done = now;
      draw(label);
    },
    end: clearStatus,
  };
}

function barText({ done, total, label }: { done: number; total: number | undefined; label: string }): string {
  const stream = process.stderr;
  const room = stream.columns || 80;
  if (total === undefined || total === 0) return `${done} ${label}`.slice(0, room - 1);
  // The total of a store that is in use is an estimate, and more may come.
  const share = Math.min(1, done / total);
  const filled = Math.round(WIDTH * share);
  const bar = `${"█".repeat(filled)}${"░".repeat(WIDTH - filled)}`;
  return `${paint("cyan", bar, stream)} ${`${done}/${total} ${label}`.slice(0, Math.max(0, room - WIDTH - 2))}`;
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** Formats a duration as flags write it: `30s`. */
export function durationText(ms: number): string {
  const [unit, size] = UNITS.find(([, each]) => ms >= each && ms % each === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

/** `3m ago`, `in 20s`: in one unit. */
export function agoText(at: number, now: number): string {
  const ms = Math.abs(now - at);
  const [unit, size] = UNITS.find(([, each]) => ms >= each) ?? ["s", 1_000];
  const text = `${Math.floor(ms / size)}${unit}`;
  return at > now ? `in ${text}` : `${text} ago`;
}
