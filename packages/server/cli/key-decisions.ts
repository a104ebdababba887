/** The decisions of `nevertwice keys`: about one key, and about many whose outcome is unknown. */
import { durationMs } from "nevertwice/env";
import type { ResolvedPageJson } from "../src/api/api-json.ts";
import { API_FLAGS, type CallApi, toRefused, toResult, withApi } from "./api.ts";
import {
  type Action,
  type CommandCall,
  type CommandResult,
  type Flags,
  UsageError,
  wholeNumber,
} from "./command.ts";
import { findKeyId } from "./key-name.ts";
import { showStatus } from "./status-line.ts";
import { paint, plain } from "./terminal.ts";

const DECISIONS = ["done", "failed", "not-done"];

export const FENCE_FLAG: Flags = {
  fence: {
    value: "N",
    what: "the fence that `keys show` prints; the decision is refused if the key has changed since",
  },
};

export const NAME_FLAGS: Flags = {
  operation: { value: "NAME", what: "the operation of KEY, if several operations have this key" },
  scope: { value: "SCOPE", what: "the scope of KEY, if several scopes have this key" },
};

export const NAME_NOTES = [
  "KEY is the exact text of the key, the id that `keys list` prints, or the hash that logs show.",
];

const BULK_NOTES = [
  "Without KEY, it resolves all keys of --operation, and of --scope if given, whose outcome is unknown and whose",
  "last attempt started before --before. Keys that change in the meantime are left alone.",
];

export const resolveAction: Action = {
  summary: "Resolves a key whose outcome is unknown, or many.",
  takes: ["[KEY]"],
  flags: {
    as: {
      value: DECISIONS.join("|"),
      what: "done and failed become the outcome of the key; not-done frees the key",
    },
    value: { value: "JSON", what: "with done: the result of the work" },
    error: { value: "TEXT", what: "with failed: the error of the work" },
    before: {
      value: "TIME",
      what: "without KEY: a time such as 2026-03-01T12:00Z, or how long ago, such as 1h",
    },
    "dry-run": { what: "without KEY: count the keys, and resolve none" },
    ...FENCE_FLAG,
    ...NAME_FLAGS,
    ...API_FLAGS,
  },
  notes: [...NAME_NOTES, ...BULK_NOTES],
  run: (call) => (call.args.length === 0 ? resolveMany(call) : resolveOne(call)),
};

function resolveOne(call: CommandCall): Promise<CommandResult> {
  const [decision, value, error] = [readDecision(call), call.text("value"), call.text("error")];
  if (call.given("before") !== undefined || call.has("dry-run"))
    throw new UsageError("--before and --dry-run are for many keys; leave KEY out.");
  return decide(call, "resolve", {
    decision,
    ...(value !== undefined && { value: jsonIn(value) }),
    ...(error !== undefined && { error }),
  });
}

export function decide(call: CommandCall, verb: string, more: object = {}): Promise<CommandResult> {
  const fence = wholeNumber(call, "fence", 0);
  const [key = ""] = call.args;
  if (fence === undefined)
    throw new UsageError(`--fence N is missing; \`nevertwice keys show ${key}\` prints it.`);
  return withApi(call, async (callApi) => {
    const id = await findKeyId(call, callApi);
    const request = { method: "POST", path: `/v1/keys/${id}/${verb}`, body: { fence, ...more } } as const;
    return toResult(await callApi(request), () => [`${paint("green", "done")}: ${verb} ${plain(key)}`]);
  });
}

function resolveMany(call: CommandCall): Promise<CommandResult> {
  const decision = readDecision(call);
  const [operation, scope, before] = [call.text("operation"), call.text("scope"), call.text("before")];
  if (operation === undefined || before === undefined)
    throw new UsageError(
      "the argument KEY is missing; for many keys, give --operation and --before instead.",
    );
  if (decision === "failed") throw new UsageError("--as must be done or not-done for many keys.");
  for (const flag of ["fence", "value", "error"])
    if (call.given(flag) !== undefined) throw new UsageError(`--${flag} is for one key; name it.`);
  const dryRun = call.has("dry-run");
  const body = { operation, scope, before: timeIn(before), decision, dryRun };
  return withApi(call, async (callApi) => {
    const { matched, resolved, changed } = await resolvePages(callApi, body);
    const counts = dryRun
      ? `${matched} keys would be resolved as ${decision}`
      : `${resolved} keys were resolved as ${decision}, ${changed} had changed and were left alone`;
    return { data: { matched, resolved, changed, dryRun }, lines: [`${paint("green", "done")}: ${counts}.`] };
  });
}

async function resolvePages(callApi: CallApi, body: object): Promise<Omit<ResolvedPageJson, "next">> {
  const total = { read: 0, matched: 0, resolved: 0, changed: 0 };
  let after: string | undefined;
  do {
    const reply = await callApi({ method: "POST", path: "/v1/keys/resolve", body: { ...body, after } });
    if (reply.status !== 200) throw toRefused(reply);
    const page = reply.body as ResolvedPageJson;
    for (const name of ["read", "matched", "resolved", "changed"] as const) total[name] += page[name];
    showStatus(`${total.read} keys read, ${total.resolved} resolved, ${total.changed} changed`);
    after = page.next ?? undefined;
  } while (after !== undefined);
  return total;
}

function readDecision(call: CommandCall): string {
  const decision = call.text("as");
  if (decision === undefined) throw new UsageError("--as is missing: --as must be done, failed or not-done.");
  return decision;
}

/** Milliseconds since the epoch, of a date or of a duration ago. */
function timeIn(text: string): number {
  const date = /^\d{4}-/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(date)) return date;
  try {
    return Date.now() - durationMs("--before", text);
  } catch (cause) {
    throw new UsageError("--before must be a time such as 2026-03-01T12:00Z, or how long ago, such as 1h.", {
      cause,
    });
  }
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new UsageError(`--value must be JSON; text needs double quotes: --value '"paid"'.`, { cause });
  }
}
