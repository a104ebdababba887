/** `nevertwice keys`: lists keys, and carries out the decisions of an operator. */

import type { HistoryJson, KeyDetailsJson, KeyPageJson, NamespacePageJson } from "../src/api/api-json.ts";
import { API_FLAGS, callApiOnce, toResult, withApi } from "./api.ts";
import { type Action, type Command, wholeNumber } from "./command.ts";
import { nextLine } from "./holds.ts";
import { decide, FENCE_FLAG, NAME_FLAGS, NAME_NOTES, resolveAction } from "./key-decisions.ts";
import { findKeyId } from "./key-name.ts";
import { agoText, durationText, fields, paint, plain, table } from "./terminal.ts";
import { timeIn } from "./time-flag.ts";

const STATES = ["pending", "lapsed", "completed", "released"];

const TEXT_FILTERS = ["state", "key", "operation", "scope", "search", "after"];

export const keysCommand: Command = {
  summary: "list keys and namespaces, show one key, and resolve, release or forget it",
  actions: {
    list: {
      summary: "Lists keys.",
      flags: {
        state: {
          value: STATES.join("|"),
          what: "only keys in this state; lapsed keys wait for a decision or a takeover",
        },
        undecided: { what: "only keys that wait for a decision: they are held and lapsed" },
        key: { value: "TEXT", what: "only keys that are exactly this text, of every operation and scope" },
        operation: { value: "NAME", what: "only keys of this operation" },
        scope: { value: "SCOPE", what: "only keys of this scope" },
        before: {
          value: "TIME",
          what: "only keys claimed at this time or earlier: 2026-11-18T20:00:00Z, or 2h for two hours ago",
        },
        search: { value: "TEXT", what: "only keys with this text in their key, operation or scope" },
        limit: { value: "N", what: "the most rows to print" },
        after: { value: "NEXT", what: "continue after the previous page" },
        ...API_FLAGS,
      },
      run: (call) => {
        const query = {
          ...Object.fromEntries(TEXT_FILTERS.map((name) => [name, call.text(name)])),
          ...(call.has("undecided") && { undecided: "true" }),
          before: timeIn(call, "before"),
          limit: wholeNumber(call, "limit", 1),
        };
        return callApiOnce(call, { method: "GET", path: "/v1/keys", query }, listLines);
      },
    },
    namespaces: {
      summary: "Lists the namespaces that have keys.",
      flags: {
        limit: { value: "N", what: "the most rows to print" },
        after: { value: "NEXT", what: "continue after the previous page" },
        ...API_FLAGS,
      },
      run: (call) => {
        const query = { limit: wholeNumber(call, "limit", 1), after: call.text("after") };
        return callApiOnce(call, { method: "GET", path: "/v1/namespaces", query }, namespaceLines);
      },
    },
    show: {
      summary: "Shows one key: its record, its attempts, and the events that the server observed.",
      takes: ["KEY"],
      flags: { ...NAME_FLAGS, ...API_FLAGS },
      notes: NAME_NOTES,
      run: (call) =>
        withApi(call, async (callApi) => {
          const id = await findKeyId(call, callApi);
          return toResult(await callApi({ method: "GET", path: `/v1/keys/${id}` }), showLines);
        }),
    },
    resolve: resolveAction,
    release: decisionAction("release", "Releases a key, so that its work can be done again."),
    forget: decisionAction(
      "forget",
      "Forgets a key and its outcome. A completed key leaves a mark that its work is done.",
    ),
  },
};

function decisionAction(verb: string, summary: string): Action {
  return {
    summary,
    takes: ["KEY"],
    flags: { ...FENCE_FLAG, ...NAME_FLAGS, ...API_FLAGS },
    notes: NAME_NOTES,
    run: (call) => decide(call, verb),
  };
}

const STYLES: Readonly<Record<string, "green" | "yellow" | "red" | "dim">> = {
  pending: "yellow",
  lapsed: "red",
  completed: "green",
  released: "dim",
};

function listLines({ records, unreadable = [], next, order }: KeyPageJson): readonly string[] {
  const damaged = unreadable.map(({ id, reason }) => `${paint("red", "unreadable")}  ${plain(reason ?? id)}`);
  if (records.length === 0 && damaged.length === 0)
    return [next === null ? "No matching keys." : "No matching keys on this page.", ...nextLine(next)];
  if (records.length === 0) return [...damaged, ...nextLine(next)];
  const unordered = order === "none" && (next !== null || records.length > 1);
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
    ...(unordered ? [paint("dim", "This store keeps no order: a new key can be on any page.")] : []),
    ...nextLine(next),
  ];
}

function namespaceLines({ namespaces, next }: NamespacePageJson): readonly string[] {
  const none = next === null ? "No namespace has keys." : "No namespaces on this page.";
  return [...(namespaces.length === 0 ? [none] : namespaces.map(plain)), ...nextLine(next)];
}

function showLines({ record, events }: KeyDetailsJson): readonly string[] {
  const { claimedAt, completedAt, lapsedAt, keptUntil, leaseLeftMs, number, held, steps, history, ...rest } =
    record;
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
      lapsed: toIsoOrNull(lapsedAt),
      "kept until": toIsoOrNull(keptUntil),
    }),
    ...(history === undefined ? [] : attemptLines(history)),
    ...events.map(({ at, kind }) => `${paint("dim", toIsoOrNull(at) ?? "")}  ${kind}`),
    ...(record.state === "lapsed"
      ? ["", `The outcome of this key is unknown. To resolve it: ${paint("cyan", decision)}`]
      : []),
  ];
}

function attemptLines({ attempts, dropped }: HistoryJson): readonly string[] {
  const rows = attempts.map(({ number, claimedAt, renewals, renewedAt, endedAt, ended }) => [
    number,
    toIsoOrNull(claimedAt),
    renewals === 0 ? null : `${renewals}, last ${toIsoOrNull(renewedAt)}`,
    ended,
    toIsoOrNull(endedAt),
  ]);
  return [
    "",
    ...(dropped > 0 ? [paint("dim", `${dropped} earlier attempts are not listed.`)] : []),
    ...table(["attempt", "claimed", "renewed", "ended", "at"], rows),
    "",
  ];
}

function toIsoOrNull(ms: number | null): string | null {
  return ms === null || Math.abs(ms) > 8.64e15 ? null : new Date(ms).toISOString();
}
