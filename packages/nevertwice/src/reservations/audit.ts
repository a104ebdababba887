/** The auditor: every invariant of the three modules, the registry and the journal, verified from stored records alone. */

import { type Diagnosis, diagnose } from "../core/doctor.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { type Check, checkOptions, isText, wholeFrom } from "../core/policy.ts";
import { MAX_KEY_BYTES } from "./actions.ts";
import { DIGEST_VERSION } from "./asked.ts";
import type { Reading } from "./audit/anew.ts";
import { createFindings, type Judgement, openJudgement } from "./audit/findings.ts";
import { type AuditData, type AuditPage, pageOf, textOf } from "./audit/report.ts";
import { type Counts, inRounds } from "./audit/rounds.ts";
import { type Doubles, type DoublesQuery, doublesOf, type Trace, traceOf } from "./audit/trace.ts";
import type { ReservationStore, Rules } from "./ledger.ts";

export interface AuditOptions {
  /** All values that `windowMs` ever had in this namespace; default: the one it has. */
  readonly windowsMs?: readonly number[] | undefined;
  /** The counts of an earlier report: nothing may have become fewer, keys apart. */
  readonly previous?: Counts | undefined;
  /** How many offenders of an invariant are listed; the count goes on. */
  readonly maxOffenders?: number | undefined;
  /** How many names are kept in memory at once; more rows are more rounds through the pages. */
  readonly rowsAtOnce?: number | undefined;
  readonly pageSize?: number | undefined;
  /** Ends the audit with its reason. */
  readonly signal?: AbortSignal | undefined;
}

export const AUDIT_DEFAULTS = { maxOffenders: 100, rowsAtOnce: 100_000, pageSize: 1_000 } as const;

export interface AuditReport {
  readonly data: AuditData;
  /** Sections and rows, ready to be drawn. */
  readonly page: AuditPage;
  toString(): string;
}

/** What a deployment decided: no record says it, so whoever checks from outside is given this. */
export interface Configuration {
  readonly namespace: string;
  readonly windowMs: number;
  readonly historyMs: number;
  readonly maxDurationMs: number;
  readonly actionMs: number;
  readonly sweepEveryMs: number;
  readonly purgeEveryMs: number;
  readonly maxKeyBytes: number;
  readonly digest: { readonly algorithm: string; readonly version: string; readonly over: string };
  readonly journal: { readonly algorithm: string; readonly version: string };
  readonly availability: "capacity" | "capacity and a function";
  /** Which faults an acknowledged action survives, by the store's live settings. */
  readonly store: Diagnosis;
}

export interface Auditor {
  /** Verifies every invariant. What was written after it began may not be in it. */
  audit(options?: AuditOptions): Promise<AuditData>;
  /** The same as data, as text and as a page. */
  auditReport(options?: AuditOptions): Promise<AuditReport>;
  /** A commitment, its events, and the keys behind them. */
  trace(id: string): Promise<Trace | undefined>;
  /** Every pair of one resource and one requester that was placed near each other, and whether it was one request. */
  doubles(query: DoublesQuery): Promise<Doubles>;
  configuration(): Promise<Configuration>;
}

export interface AuditorOptions {
  readonly store: ReservationStore;
  readonly rules: Rules;
  readonly actionMs: number;
  readonly sweepEveryMs: number;
  readonly purgeEveryMs: number;
}

const AUDIT_CHECKS: { readonly [Name in keyof AuditOptions]-?: Check } = {
  windowsMs: areWindows,
  previous: areCounts,
  maxOffenders: wholeFrom(0),
  rowsAtOnce: wholeFrom(1),
  pageSize: wholeFrom(1),
  signal: isSignal,
};

const DOUBLES_CHECKS: { readonly [Name in keyof DoublesQuery]-?: Check } = {
  withinMs: wholeFrom(0),
  resource: isText,
  requester: isText,
  limit: wholeFrom(0),
};

export function createAuditor({ store, rules, ...timing }: AuditorOptions): Auditor {
  const { namespace, windowMs } = rules;

  function readingOf({ windowsMs = [windowMs], pageSize, signal }: AuditOptions): Reading {
    const windows = { all: windowsMs, shortest: Math.min(...windowsMs) };
    return { store, namespace, windows, pageSize: pageSize ?? AUDIT_DEFAULTS.pageSize, signal };
  }

  async function audit(options: AuditOptions = {}): Promise<AuditData> {
    checkOptions(options, AUDIT_CHECKS);
    const { maxOffenders = AUDIT_DEFAULTS.maxOffenders, rowsAtOnce = AUDIT_DEFAULTS.rowsAtOnce } = options;
    const findings = createFindings(maxOffenders);
    const startedAt = await store.now();
    const counts = await inRounds(readingOf(options), findings, rowsAtOnce);
    if (options.previous !== undefined) findings.add(fewerThan(options.previous, counts));
    const invariants = findings.results();
    const open = { count: findings.open.count, subjects: findings.open.subjects };
    return {
      ok: invariants.every(({ ok }) => ok),
      namespace,
      startedAt,
      endedAt: await store.now(),
      counts,
      invariants,
      open,
      notes: notesOn(options, open.count),
    };
  }

  return {
    audit,
    async auditReport(options) {
      const data = await audit(options);
      const page = pageOf(data);
      return { data, page, toString: () => textOf(page) };
    },
    trace: async (id) => traceOf(readingOf({}), checkedPart(id, "id", "options-invalid")),
    async doubles(query) {
      checkOptions(query, DOUBLES_CHECKS);
      if (query.withinMs === undefined) throw wrong("withinMs is missing: say how near two of them are.");
      return doublesOf(readingOf({}), query, AUDIT_DEFAULTS.rowsAtOnce);
    },
    async configuration() {
      const { historyMs, maxDurationMs, available } = rules;
      return {
        namespace,
        windowMs,
        historyMs,
        maxDurationMs,
        ...timing,
        maxKeyBytes: MAX_KEY_BYTES,
        digest: {
          algorithm: "SHA-256",
          version: DIGEST_VERSION,
          over: "the version, the action and its parameters by name, each with its type and its length in bytes before it",
        },
        journal: { algorithm: "SHA-256", version: "1" },
        availability: available === undefined ? "capacity" : "capacity and a function",
        store: await diagnose(store),
      };
    },
  };
}

function fewerThan(previous: Counts, counts: Counts): Judgement {
  const judgement = openJudgement();
  const fewer = (name: keyof Counts) => `there were ${previous[name]}, and there are ${counts[name]}`;
  const asked = { commitments: "C10", events: "J1", checkpoints: "J3" } as const;
  for (const name of ["commitments", "events", "checkpoints"] as const)
    judgement.ask(asked[name], name, counts[name] >= previous[name], fewer(name));
  return judgement;
}

function notesOn({ previous, windowsMs }: AuditOptions, open: number): string[] {
  const notes = ["What was written after the audit began may not be in it."];
  if (windowsMs === undefined)
    notes.push("Keys were judged by the window in force now; give windowsMs if it ever was another one.");
  if (previous === undefined)
    notes.push(
      "Without the counts of an earlier report, rows that were removed with all their traces do not show.",
    );
  if (open > 0)
    notes.push(`${open} records changed each time they were read, and were not judged; audit again.`);
  return notes;
}

function areWindows(name: string, value: unknown): void {
  if (!Array.isArray(value) || value.length === 0)
    throw wrong(`${name} must be a list of durations, with one at least.`);
  for (const one of value) wholeFrom(1)(name, one);
}

function areCounts(name: string, value: unknown): void {
  const counts = value as Partial<Counts> | null;
  if ([counts?.commitments, counts?.events, counts?.checkpoints].every(Number.isSafeInteger)) return;
  throw wrong(`${name} must be the counts of an earlier report.`);
}

function isSignal(name: string, value: unknown): void {
  if (!(value instanceof AbortSignal)) throw wrong(`${name} must be an AbortSignal.`);
}

function wrong(message: string): NevertwiceError {
  return new NevertwiceError("options-invalid", message);
}
