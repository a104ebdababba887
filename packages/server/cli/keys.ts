/** `nevertwice keys`: what operators look at and decide. */
import {
  type Action,
  type Call,
  type Command,
  type Exit,
  type Flags,
  UsageError,
  wholeNumber,
} from "./command.ts";
import { nextLine } from "./holds.ts";
import { asking, REACH_FLAGS } from "./reach.ts";
import { agoText, durationText, fields, paint, table } from "./terminal.ts";

interface KeyRecord {
  readonly id: string;
  readonly operation: string | null;
  readonly scope: string | null;
  readonly key: string | null;
  readonly state: string;
  readonly fence: number;
  readonly number: number;
  readonly held: boolean;
  readonly claimedAt: number;
  readonly leaseLeftMs: number | null;
  readonly completedAt: number | null;
  readonly keptUntil: number | null;
  readonly outcome?: unknown;
}

interface SeenEvent {
  readonly at: number;
  readonly kind: string;
  readonly detail: object;
}

const STATES = ["pending", "lapsed", "completed", "released"];
const DECISIONS = ["done", "failed", "not-done"];

const FENCE_FLAG: Flags = {
  fence: { value: "N", what: "as `keys show` said it: a decision about what has moved on since is refused" },
};

export const keysCommand: Command = {
  summary: "lists keys, shows one, and decides, frees or forgets it",
  actions: {
    list: {
      summary: "Lists keys.",
      flags: {
        state: {
          value: STATES.join("|"),
          what: "only in this state; lapsed ones wait for a decision or a takeover",
        },
        scope: { value: "SCOPE", what: "only of this scope" },
        search: { value: "TEXT", what: "only with this in their key, operation or scope" },
        limit: { value: "N", what: "how many at most" },
        after: { value: "NEXT", what: "goes on where the page before ended" },
        ...REACH_FLAGS,
      },
      run: (call) => {
        const [state, scope, search, after] = ["state", "scope", "search", "after"].map(call.text);
        const query = { state, scope, search, after, limit: wholeNumber(call, "limit", 1) };
        return asking(call, { method: "GET", path: "/v1/keys", query }, listLines);
      },
    },
    show: {
      summary: "Shows one key: its record, and what the server saw of it.",
      takes: ["ID"],
      flags: REACH_FLAGS,
      run: (call) => asking(call, { method: "GET", path: pathOf(call) }, showLines),
    },
    resolve: {
      summary: "Decides a key whose outcome is unknown.",
      takes: ["ID"],
      flags: {
        as: {
          value: DECISIONS.join("|"),
          what: "done and failed answer for the key from now on; not-done frees it",
        },
        value: { value: "JSON", what: "with done: what the work answered" },
        error: { value: "TEXT", what: "with failed: what it failed with" },
        ...FENCE_FLAG,
        ...REACH_FLAGS,
      },
      run: resolve,
    },
    release: deciding("release", "Frees a key, so that its work may be done again."),
    forget: deciding(
      "forget",
      "Forgets a key and what was kept for it; that a completed one is done stays known.",
    ),
  },
};

function resolve(call: Call): Promise<Exit> {
  const [decision, value, error] = [call.text("as"), call.text("value"), call.text("error")];
  if (decision === undefined || !DECISIONS.includes(decision))
    throw new UsageError("--as is done, failed or not-done: what became of the work?");
  return decide(call, "resolve", {
    decision,
    ...(value !== undefined && { value: jsonIn(value) }),
    ...(error !== undefined && { error }),
  });
}

function deciding(verb: string, summary: string): Action {
  return {
    summary,
    takes: ["ID"],
    flags: { ...FENCE_FLAG, ...REACH_FLAGS },
    run: (call) => decide(call, verb),
  };
}

function decide(call: Call, verb: string, more: object = {}): Promise<Exit> {
  const fence = wholeNumber(call, "fence", 0);
  const [id = ""] = call.args;
  if (fence === undefined)
    throw new UsageError(`--fence N is missing: \`nevertwice keys show ${id}\` says it.`);
  const request = { method: "POST", path: `${pathOf(call)}/${verb}`, body: { fence, ...more } } as const;
  return asking(call, request, () => [`${paint("green", "done")}: ${verb} ${id}`]);
}

function pathOf(call: Call): string {
  return `/v1/keys/${encodeURIComponent(call.args[0] ?? "")}`;
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new UsageError(`--value is JSON; text has quotes of its own: --value '"paid"'.`, { cause });
  }
}

const STYLES: Readonly<Record<string, "green" | "yellow" | "red" | "dim">> = {
  pending: "yellow",
  lapsed: "red",
  completed: "green",
  released: "dim",
};

function listLines({
  records,
  next,
}: {
  readonly records: readonly KeyRecord[];
  readonly next: string | null;
}): readonly string[] {
  if (records.length === 0)
    return [next === null ? "There is no such key." : "None on this page.", ...nextLine(next)];
  const now = Date.now();
  const rows = records.map(({ id, operation, scope, key, state, number, claimedAt }) => [
    id,
    state,
    operation,
    scope,
    key,
    number,
    agoText(claimedAt, now),
  ]);
  const columns = ["id", "state", "operation", "scope", "key", "attempts", "claimed"];
  return [
    ...table(columns, rows, (column, text) => (column === "state" ? STYLES[text] : undefined)),
    ...nextLine(next),
  ];
}

function showLines({
  record,
  events,
}: {
  readonly record: KeyRecord;
  readonly events: readonly SeenEvent[];
}): readonly string[] {
  const { claimedAt, completedAt, keptUntil, leaseLeftMs, number, held, ...rest } = record;
  const decision = `nevertwice keys resolve ${record.id} --fence ${record.fence} --as done|failed|not-done`;
  return [
    ...fields({
      ...rest,
      attempts: number,
      held: held || null,
      lease: leaseLeftMs && record.state === "pending" ? `${durationText(leaseLeftMs)} left` : null,
      claimed: timeOf(claimedAt),
      completed: timeOf(completedAt),
      "kept until": timeOf(keptUntil),
    }),
    ...events.map(({ at, kind }) => `${paint("dim", timeOf(at) ?? "")}  ${kind}`),
    ...(record.state === "lapsed" ? ["", `Its outcome is unknown. Decide: ${paint("cyan", decision)}`] : []),
  ];
}

function timeOf(ms: number | null): string | null {
  return ms === null || Math.abs(ms) > 8.64e15 ? null : new Date(ms).toISOString();
}
