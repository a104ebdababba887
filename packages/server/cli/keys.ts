/** `nevertwice keys`: lists keys, and carries out the decisions of an operator. */

import type { KeyDetailsJson, KeyPageJson } from "../src/api/api-json.ts";
import { API_FLAGS, printApiCall } from "./api.ts";
import {
  type Action,
  type Command,
  type CommandCall,
  type Exit,
  type Flags,
  UsageError,
  wholeNumber,
} from "./command.ts";
import { nextLine } from "./holds.ts";
import { agoText, durationText, fields, paint, plain, table } from "./terminal.ts";

const STATES = ["pending", "lapsed", "completed", "released"];
const DECISIONS = ["done", "failed", "not-done"];

const FENCE_FLAG: Flags = {
  fence: {
    value: "N",
    what: "the fence that `keys show` prints; the decision is refused if the key has changed since",
  },
};

export const keysCommand: Command = {
  summary: "list keys, show one, and resolve, release or forget it",
  actions: {
    list: {
      summary: "Lists keys.",
      flags: {
        state: {
          value: STATES.join("|"),
          what: "only keys in this state; lapsed keys wait for a decision or a takeover",
        },
        scope: { value: "SCOPE", what: "only keys of this scope" },
        search: { value: "TEXT", what: "only keys with this text in their key, operation or scope" },
        limit: { value: "N", what: "the most rows to print" },
        after: { value: "NEXT", what: "continue after the previous page" },
        ...API_FLAGS,
      },
      run: (call) => {
        const [state, scope, search, after] = ["state", "scope", "search", "after"].map(call.text);
        const query = { state, scope, search, after, limit: wholeNumber(call, "limit", 1) };
        return printApiCall(call, { method: "GET", path: "/v1/keys", query }, listLines);
      },
    },
    show: {
      summary: "Shows one key: its record and the events that the server observed.",
      takes: ["ID"],
      flags: API_FLAGS,
      run: (call) => printApiCall(call, { method: "GET", path: keyPath(call) }, showLines),
    },
    resolve: {
      summary: "Resolves a key whose outcome is unknown.",
      takes: ["ID"],
      flags: {
        as: {
          value: DECISIONS.join("|"),
          what: "done and failed become the outcome of the key; not-done frees the key",
        },
        value: { value: "JSON", what: "with done: the result of the work" },
        error: { value: "TEXT", what: "with failed: the error of the work" },
        ...FENCE_FLAG,
        ...API_FLAGS,
      },
      run: resolve,
    },
    release: decisionAction("release", "Releases a key, so that its work can be done again."),
    forget: decisionAction(
      "forget",
      "Forgets a key and its outcome. A completed key leaves a mark that its work is done.",
    ),
  },
};

function resolve(call: CommandCall): Promise<Exit> {
  const [decision, value, error] = [call.text("as"), call.text("value"), call.text("error")];
  if (decision === undefined || !DECISIONS.includes(decision))
    throw new UsageError("--as must be done, failed or not-done.");
  return decide(call, "resolve", {
    decision,
    ...(value !== undefined && { value: jsonIn(value) }),
    ...(error !== undefined && { error }),
  });
}

function decisionAction(verb: string, summary: string): Action {
  return {
    summary,
    takes: ["ID"],
    flags: { ...FENCE_FLAG, ...API_FLAGS },
    run: (call) => decide(call, verb),
  };
}

function decide(call: CommandCall, verb: string, more: object = {}): Promise<Exit> {
  const fence = wholeNumber(call, "fence", 0);
  const [id = ""] = call.args;
  if (fence === undefined)
    throw new UsageError(`--fence N is missing; \`nevertwice keys show ${id}\` prints it.`);
  const request = { method: "POST", path: `${keyPath(call)}/${verb}`, body: { fence, ...more } } as const;
  return printApiCall(call, request, () => [`${paint("green", "done")}: ${verb} ${id}`]);
}

function keyPath(call: CommandCall): string {
  return `/v1/keys/${encodeURIComponent(call.args[0] ?? "")}`;
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new UsageError(`--value must be JSON; text needs double quotes: --value '"paid"'.`, { cause });
  }
}

const STYLES: Readonly<Record<string, "green" | "yellow" | "red" | "dim">> = {
  pending: "yellow",
  lapsed: "red",
  completed: "green",
  released: "dim",
};

function listLines({ records, unreadable = [], next }: KeyPageJson): readonly string[] {
  const damaged = unreadable.map(({ id, reason }) => `${paint("red", "unreadable")}  ${plain(reason ?? id)}`);
  if (records.length === 0 && damaged.length === 0)
    return [next === null ? "No matching keys." : "No matching keys on this page.", ...nextLine(next)];
  if (records.length === 0) return [...damaged, ...nextLine(next)];
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
    ...damaged,
    ...nextLine(next),
  ];
}

function showLines({ record, events }: KeyDetailsJson): readonly string[] {
  const { claimedAt, completedAt, keptUntil, leaseLeftMs, number, held, steps, ...rest } = record;
  const decision = `nevertwice keys resolve ${record.id} --fence ${record.fence} --as done|failed|not-done`;
  return [
    ...fields({
      ...rest,
      attempts: number,
      steps: steps?.map(({ name, keptAt }) => `${name} (${toIsoOrNull(keptAt)})`).join(", ") ?? null,
      held: held || null,
      lease: leaseLeftMs && record.state === "pending" ? `${durationText(leaseLeftMs)} left` : null,
      claimed: toIsoOrNull(claimedAt),
      completed: toIsoOrNull(completedAt),
      "kept until": toIsoOrNull(keptUntil),
    }),
    ...events.map(({ at, kind }) => `${paint("dim", toIsoOrNull(at) ?? "")}  ${kind}`),
    ...(record.state === "lapsed"
      ? ["", `The outcome of this key is unknown. To resolve it: ${paint("cyan", decision)}`]
      : []),
  ];
}

function toIsoOrNull(ms: number | null): string | null {
  return ms === null || Math.abs(ms) > 8.64e15 ? null : new Date(ms).toISOString();
}
