/** The auditor: verifies every invariant of reservations from the stored records alone. */
import { type Diagnosis, diagnose } from "../core/doctor.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { type Check, checkOptions, isText, wholeFrom } from "../core/option-checks.ts";
import { DIGEST_VERSION, MAX_KEY_BYTES } from "./action-request.ts";
import { type Anchor, checkedAnchor, takeAnchor } from "./audit/anchor.ts";
import type { AuditContext } from "./audit/context.ts";
import { createFindings, type Judgement, openJudgement } from "./audit/findings.ts";
import { type AuditData, type AuditPage, toAuditPage, toAuditText } from "./audit/report.ts";
import { auditInRounds, type Counts } from "./audit/rounds.ts";
import { type Doubles, type DoublesQuery, findDoubles, type Trace, traceCommitment } from "./audit/trace.ts";
import { JOURNAL_VERSION } from "./journal.ts";
import type { ReservationStore, Rules } from "./store.ts";

/** Options of an audit. */
export interface AuditOptions {
  /** All values that `windowMs` ever had in this namespace, for records that do not contain theirs; default: the current value. */
  readonly windowsMs?: readonly number[] | undefined;
  /** The counts of an earlier report: no count may have decreased, except that of keys. */
  readonly previous?: Counts | undefined;
  /** What `anchor()` returned earlier: everything up to it must be unchanged. */
  readonly anchor?: Anchor | undefined;
  /**
   * The most offenders listed for each invariant; all of them are counted.
   * @default 100
   */
  readonly maxOffenders?: number | undefined;
  /**
   * The most rows kept in memory at once. A larger store is read in several rounds.
   * @default 100_000
   */
  readonly rowsAtOnce?: number | undefined;
  /**
   * How many rows one read of the store returns.
   * @default 1_000
   */
  readonly pageSize?: number | undefined;
  /** Aborts the audit, which then throws the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** The defaults of `AuditOptions`. */
export const AUDIT_DEFAULTS = { maxOffenders: 100, rowsAtOnce: 100_000, pageSize: 1_000 } as const;

/** An audit as data, as a page and as text. */
export interface AuditReport {
  /** What the audit found. */
  readonly data: AuditData;
  /** Sections and rows, ready to display. */
  readonly page: AuditPage;
  /** The report as text, with a line for each invariant. */
  toString(): string;
}

/** The settings of a deployment, for an external auditor: the stored records do not contain them. */
export interface Configuration {
  /** The namespace of the reservations. */
  readonly namespace: string;
  /** How long a key returns its answer, in milliseconds. */
  readonly windowMs: number;
  /** How long an answer is kept after its window, in milliseconds. */
  readonly historyMs: number;
  /** The longest duration of a hold, in milliseconds. */
  readonly maxDurationMs: number;
  /** How long a caller waits for an action, in milliseconds. */
  readonly actionMs: number;
  /** How often expired holds are recorded, in milliseconds; 0 if they are not. */
  readonly sweepEveryMs: number;
  /** How often keys past their time are removed, in milliseconds; 0 if they are not. */
  readonly purgeEveryMs: number;
  /** The longest key, in bytes. */
  readonly maxKeyBytes: number;
  /** How the digest of a request is computed. */
  readonly digest: {
    /** The name of the hash. */
    readonly algorithm: string;
    /** The version of the form that is hashed. */
    readonly version: string;
    /** What is hashed. */
    readonly over: string;
  };
  /** How the journal is chained. */
  readonly journal: {
    /** The name of the hash. */
    readonly algorithm: string;
    /** The version of the form that is hashed. */
    readonly version: string;
  };
  /** Whether the capacity alone decides about a hold, or the option `available` too. */
  readonly availability: "capacity" | "capacity and a function";
  /** Which faults an acknowledged action survives, according to the live settings of the database. */
  readonly store: Diagnosis;
}

/** Checks what was recorded, and answers questions about it. */
export interface Auditor {
  /** Verifies every invariant. Records written after the audit began may be missing from it. */
  audit(options?: AuditOptions): Promise<AuditData>;
  /** The audit as data, as a page, and as text (`toString`). */
  auditReport(options?: AuditOptions): Promise<AuditReport>;
  /** The ends of all chains now. Keep it where the owner of the database cannot write, and pass it to a later audit. */
  anchor(): Promise<Anchor>;
  /** A commitment, its events, and the keys that caused them. */
  trace(id: string): Promise<Trace | undefined>;
  /** Pairs of commitments of the same resource and requester, placed close together, with whether they came from one request. */
  doubles(query: DoublesQuery): Promise<Doubles>;
  /** The settings of this deployment, for an external auditor. */
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
  anchor: () => {},
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
  windowsMs: areWindows,
};

export function createAuditor({ store, rules, ...timing }: AuditorOptions): Auditor {
  const { namespace, windowMs } = rules;

  function createContext({
    windowsMs = [windowMs],
    pageSize,
    signal,
    anchor,
  }: Pick<AuditOptions, "windowsMs" | "pageSize" | "signal" | "anchor">): AuditContext {
    const windows = { all: windowsMs, shortest: Math.min(...windowsMs) };
    return {
      store,
      namespace,
      windows,
      pageSize: pageSize ?? AUDIT_DEFAULTS.pageSize,
      signal,
      anchor: anchor && checkedAnchor(anchor, namespace),
    };
  }

  async function audit(options: AuditOptions = {}): Promise<AuditData> {
    checkOptions(options, AUDIT_CHECKS);
    const { maxOffenders = AUDIT_DEFAULTS.maxOffenders, rowsAtOnce = AUDIT_DEFAULTS.rowsAtOnce } = options;
    const findings = createFindings(maxOffenders);
    const startedAt = await store.now();
    const counts = await auditInRounds(createContext(options), findings, rowsAtOnce);
    if (options.previous !== undefined) findings.add(compareCounts(options.previous, counts));
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
      notes: createNotes(options, open.count),
    };
  }

  return {
    audit,
    async auditReport(options) {
      const data = await audit(options);
      const page = toAuditPage(data);
      return { data, page, toString: () => toAuditText(page) };
    },
    anchor: () => takeAnchor(store, createContext({})),
    trace: async (id) => traceCommitment(createContext({}), checkedPart(id, "id", "options-invalid")),
    async doubles(query) {
      checkOptions(query, DOUBLES_CHECKS);
      if (query.withinMs === undefined)
        throw wrong(
          "withinMs is missing: pass the longest time between two commitments that counts as a possible double.",
        );
      return findDoubles(createContext(query), query, AUDIT_DEFAULTS.rowsAtOnce);
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
          over: "the version, the action and its parameters sorted by name, each with its type and prefixed with its length in bytes",
        },
        journal: { algorithm: "SHA-256", version: JOURNAL_VERSION },
        availability: available === undefined ? "capacity" : "capacity and a function",
        store: await diagnose(store),
      };
    },
  };
}

function compareCounts(previous: Counts, counts: Counts): Judgement {
  const judgement = openJudgement();
  const fewer = (name: keyof Counts) =>
    `the earlier report counted ${previous[name]}, and now there are ${counts[name]}`;
  const invariants = { commitments: "C10", events: "J1", checkpoints: "J3" } as const;
  for (const name of ["commitments", "events", "checkpoints"] as const)
    judgement.check(invariants[name], name, counts[name] >= previous[name], fewer(name));
  return judgement;
}

function createNotes({ anchor, windowsMs }: AuditOptions, open: number): string[] {
  const notes = ["Records written after the audit began may be missing from it."];
  if (windowsMs === undefined)
    notes.push(
      "Keys were judged by the window that they were recorded with. Keys of earlier releases do not contain it and were judged by the current windowMs; pass windowsMs if it ever had another value.",
    );
  if (anchor === undefined)
    notes.push(
      "Without an anchor of an earlier time, the audit cannot detect that the newest events of a resource were removed together with all their traces, or that everything was rewritten.",
    );
  if (open > 0)
    notes.push(`${open} records changed each time they were read and were not judged; run the audit again.`);
  return notes;
}

function areWindows(name: string, value: unknown): void {
  if (!Array.isArray(value) || value.length === 0)
    throw wrong(`${name} must be an array of at least one duration in milliseconds.`);
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
