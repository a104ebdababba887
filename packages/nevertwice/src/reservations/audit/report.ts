/** The audit for people: as text, and as sections and rows that a page can display directly. */
import type { InvariantResult } from "./findings.ts";
import type { Counts } from "./rounds.ts";

/** What an audit found. */
export interface AuditData {
  /** Whether all invariants hold. */
  readonly ok: boolean;
  /** The namespace of the reservations. */
  readonly namespace: string;
  /** By the store's clock. */
  readonly startedAt: number;
  /** When the audit ended, by the store's clock, in milliseconds since the epoch. */
  readonly endedAt: number;
  /** How many records of each kind were read. */
  readonly counts: Counts;
  /** The result of each invariant. */
  readonly invariants: readonly InvariantResult[];
  /** Records that changed each time they were read, so that they could not be judged. */
  readonly open: {
    /** How many there are. */
    readonly count: number;
    /** The first of them. */
    readonly subjects: readonly string[];
  };
  /** What a reader must know to interpret the report. */
  readonly notes: readonly string[];
}

/** Whether an invariant holds, is broken, or had no records to look at. */
export type AuditStatus = "holds" | "broken" | "nothing-to-see";

/** An invariant on the page. */
export interface AuditPageRow {
  /** The name of the invariant: `C3`. */
  readonly id: string;
  /** What it says, in short. */
  readonly name: string;
  /** Whether it holds. */
  readonly status: AuditStatus;
  /** How many records were looked at. */
  readonly looked: number;
  /** How many of them break it. */
  readonly broken: number;
  /** One line for each problem; the last line counts those that are not listed. */
  readonly lines: readonly string[];
  /** What the row shows to a reader, in a sentence. */
  readonly shows: string;
}

/** The invariants of one module on the page. */
export interface AuditPageSection {
  /** The name of the module. */
  readonly title: string;
  /** The worst status of its rows. */
  readonly status: AuditStatus;
  /** The invariants of the module. */
  readonly rows: readonly AuditPageRow[];
}

/** An audit, ready to display. */
export interface AuditPage {
  /** The heading of the page. */
  readonly title: string;
  /** The worst status of its sections. */
  readonly status: AuditStatus;
  /** How many records of each kind were read. */
  readonly counts: readonly {
    /** What is counted. */
    readonly name: string;
    /** How many there are. */
    readonly count: number;
  }[];
  /** A section for each module. */
  readonly sections: readonly AuditPageSection[];
  /** What a reader must know to interpret the report. */
  readonly notes: readonly string[];
}

export function toAuditPage(data: AuditData): AuditPage {
  const modules = [...new Set(data.invariants.map(({ module }) => module))];
  const sections = modules.map((title) => {
    const rows = data.invariants.filter(({ module }) => module === title).map(toAuditPageRow);
    return { title, status: worst(rows), rows };
  });
  return {
    title: `Audit of ${data.namespace}, ${new Date(data.startedAt).toISOString()}`,
    status: worst(sections),
    counts: Object.entries(data.counts).map(([name, count]) => ({ name, count })),
    sections,
    notes: data.notes,
  };
}

const SIGNS: Readonly<Record<AuditStatus, string>> = { holds: "ok", broken: "BROKEN", "nothing-to-see": "-" };

export function toAuditText({ title, status, counts, sections, notes }: AuditPage): string {
  return [
    `${title}: ${status === "broken" ? "BROKEN" : "all invariants hold"}`,
    `  read: ${counts.map(({ name, count }) => `${count} ${name}`).join(", ")}`,
    ...sections.flatMap(({ title: module, rows }) => [
      module,
      ...rows.flatMap(({ id, name, status: own, looked, lines }) => [
        `  ${id.padEnd(4)} ${SIGNS[own].padEnd(7)} ${name} (${looked} checked)`,
        ...lines.map((line) => `         ${line}`),
      ]),
    ]),
    ...notes.map((note) => `note: ${note}`),
  ].join("\n");
}

function toAuditPageRow(result: InvariantResult): AuditPageRow {
  const { id, name, ok, looked, broken, offenders, restsOn, shows } = result;
  const more = broken - offenders.length;
  return {
    id,
    name,
    status: ok ? (looked === 0 ? "nothing-to-see" : "holds") : "broken",
    looked,
    broken,
    lines: [
      ...offenders.map(({ subject, problem }) => `${subject}: ${problem}`),
      ...(more > 0 ? [`and ${more} more`] : []),
      ...(restsOn.length > 0 ? [`it depends on ${restsOn.join(", ")}`] : []),
    ],
    shows,
  };
}

function worst(parts: readonly { readonly status: AuditStatus }[]): AuditStatus {
  if (parts.some(({ status }) => status === "broken")) return "broken";
  return parts.some(({ status }) => status === "holds") ? "holds" : "nothing-to-see";
}
