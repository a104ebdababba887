/** The audit for people: as text, and as sections and rows that a page can display directly. */
import type { InvariantResult } from "./findings.ts";
import type { Counts } from "./rounds.ts";

export interface AuditData {
  readonly ok: boolean;
  readonly namespace: string;
  /** By the store's clock. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly counts: Counts;
  readonly invariants: readonly InvariantResult[];
  /** Records that changed each time they were read, so that they could not be judged. */
  readonly open: { readonly count: number; readonly subjects: readonly string[] };
  /** What a reader must know to interpret the report. */
  readonly notes: readonly string[];
}

export type AuditStatus = "holds" | "broken" | "nothing-to-see";

export interface AuditPageRow {
  readonly id: string;
  readonly name: string;
  readonly status: AuditStatus;
  readonly looked: number;
  readonly broken: number;
  /** One line for each problem; the last line counts those that are not listed. */
  readonly lines: readonly string[];
  readonly shows: string;
}

export interface AuditPageSection {
  readonly title: string;
  readonly status: AuditStatus;
  readonly rows: readonly AuditPageRow[];
}

export interface AuditPage {
  readonly title: string;
  readonly status: AuditStatus;
  /** How many records of each kind were read. */
  readonly counts: readonly { readonly name: string; readonly count: number }[];
  readonly sections: readonly AuditPageSection[];
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
