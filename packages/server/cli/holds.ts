/** `nevertwice holds`: lists holds and resources, and runs the actions of reservations by hand. */
import { randomUUID } from "node:crypto";
import { durationMs } from "nevertwice/env";
import type { HoldJson, PageJson, ResourceJson } from "../src/api/api-json.ts";
import { API_FLAGS, callApiOnce } from "./api.ts";
import {
  type Action,
  type Command,
  type CommandCall,
  type Flags,
  UsageError,
  wholeNumber,
} from "./command.ts";
import { agoText, fields, paint, table } from "./terminal.ts";

const PAGE_FLAGS: Flags = {
  limit: { value: "N", what: "the most rows to print" },
  after: { value: "NEXT", what: "continue after the previous page" },
};
const KEY_FLAG: Flags = {
  key: { value: "KEY", what: "the key of this action, so that a repeat does nothing; default: a new key" },
};
const UNITS_FLAG: Flags = { units: { value: "N", what: "how many of its units; default: all" } };

export const holdsCommand: Command = {
  summary: "list holds, and place, confirm, release or expire them",
  actions: {
    list: {
      summary: "Lists holds.",
      flags: {
        state: { value: "held|confirmed|released|expired", what: "only holds in this state" },
        resource: { value: "NAME", what: "only holds of this resource" },
        requester: { value: "NAME", what: "only holds of this requester" },
        ...PAGE_FLAGS,
        ...API_FLAGS,
      },
      run: (call) => {
        const [state, resource, requester] = ["state", "resource", "requester"].map(call.text);
        const query = { state, resource, requester, ...paging(call) };
        return callApiOnce(call, { method: "GET", path: "/v1/holds", query }, holdLines);
      },
    },
    show: {
      summary: "Shows one hold.",
      takes: ["ID"],
      flags: API_FLAGS,
      run: (call) => callApiOnce(call, { method: "GET", path: `/v1/holds/${idIn(call)}` }, oneHold),
    },
    place: {
      summary: "Holds units of a resource for a limited time.",
      takes: ["RESOURCE"],
      flags: {
        requester: { value: "NAME", what: "who holds the units" },
        for: { value: "DURATION", what: "how long to hold them, such as 10m" },
        units: { value: "N", what: "how many units", default: "1" },
        ...KEY_FLAG,
        ...API_FLAGS,
      },
      run: place,
    },
    confirm: endAction("confirm", "Confirms a hold.", UNITS_FLAG),
    release: endAction("release", "Releases a hold.", {}),
    expire: endAction("expire", "Records that the time of a hold is over.", {}),
    "give-back": endAction("give-back", "Gives back confirmed units.", UNITS_FLAG),
    resources: {
      summary: "Lists resources and their free units.",
      flags: { ...PAGE_FLAGS, ...API_FLAGS },
      run: (call) =>
        callApiOnce(call, { method: "GET", path: "/v1/resources", query: paging(call) }, resourceLines),
    },
    declare: {
      summary: "Declares the capacity of a resource.",
      takes: ["RESOURCE"],
      flags: { capacity: { value: "N", what: "the number of units" }, ...KEY_FLAG, ...API_FLAGS },
      run: (call) => {
        const [resource] = call.args;
        const capacity = wholeNumber(call, "capacity", 0);
        if (capacity === undefined) throw new UsageError("--capacity N is missing.");
        const request = { ...keyedPost(call), path: "/v1/resources", body: { resource, capacity } };
        const lines = () => [`${paint("green", "declared")} ${resource}: ${capacity}`];
        return callApiOnce(call, request, lines, { mayCreate: true });
      },
    },
  },
};

function place(call: CommandCall) {
  const [resource] = call.args;
  const [requester, duration] = [call.text("requester"), call.text("for")];
  if (requester === undefined) throw new UsageError("--requester NAME is missing.");
  if (duration === undefined) throw new UsageError("--for DURATION is missing, such as 10m.");
  const body = {
    resource,
    requester,
    durationMs: durationMs("--for", duration),
    units: wholeNumber(call, "units", 1),
  };
  const request = { ...keyedPost(call), path: "/v1/holds", body };
  const lines = ({ id }: { readonly id: string }) => [
    `${paint("green", "held")} ${id}`,
    paint("dim", `nevertwice holds confirm ${id}`),
  ];
  return callApiOnce(call, request, lines, { mayCreate: true });
}

function endAction(word: string, summary: string, flags: Flags): Action {
  return {
    summary,
    takes: ["ID"],
    flags: { ...flags, ...KEY_FLAG, ...API_FLAGS },
    run: (call) => {
      const units = wholeNumber(call, "units", 1);
      const request = {
        ...keyedPost(call),
        path: `/v1/holds/${idIn(call)}/${word}`,
        body: units === undefined ? {} : { units },
      };
      return callApiOnce(call, request, () => [`${paint("green", "done")}: ${word} ${call.args[0]}`]);
    },
  };
}

function keyedPost(call: CommandCall) {
  return {
    method: "POST",
    headers: { "idempotency-key": JSON.stringify(call.text("key") ?? randomUUID()) },
  } as const;
}

function idIn(call: CommandCall): string {
  return encodeURIComponent(call.args[0] ?? "");
}

function paging(call: CommandCall) {
  return { limit: wholeNumber(call, "limit", 1), after: call.text("after") };
}

function holdLines({ rows, next, unreadable = [] }: PageJson<HoldJson>): readonly string[] {
  if (rows.length + unreadable.length === 0) return ["No holds."];
  const now = Date.now();
  const cells = rows.map(({ id, resource, requester, units, state, isElapsed, expiresAt }) => [
    id,
    resource,
    requester,
    units,
    isElapsed ? "elapsed" : state,
    agoText(expiresAt, now),
  ]);
  return [
    ...table(["id", "resource", "requester", "units", "state", "expires"], cells, (column, text) =>
      column === "state" ? STYLES[text] : undefined,
    ),
    ...unreadableLine(unreadable),
    ...nextLine(next),
  ];
}

function unreadableLine({ length }: readonly unknown[]): readonly string[] {
  return length === 0 ? [] : [paint("red", `${length} more cannot be read; nevertwice audit lists them`)];
}

const STYLES: Readonly<Record<string, "green" | "yellow" | "dim">> = {
  held: "yellow",
  confirmed: "green",
  released: "dim",
  expired: "dim",
};

function oneHold(hold: HoldJson): readonly string[] {
  const { placedAt, expiresAt, ...rest } = hold;
  return fields({ ...rest, placedAt: toIso(placedAt), expiresAt: toIso(expiresAt) });
}

function toIso(ms: number): string {
  return new Date(ms).toISOString();
}

function resourceLines({ rows, next, unreadable = [] }: PageJson<ResourceJson>): readonly string[] {
  if (rows.length + unreadable.length === 0) return ["No resources."];
  const cells = rows.map(({ name, capacity, taken, free, state }) => [name, capacity, taken, free, state]);
  return [
    ...table(["name", "capacity", "taken", "free", "state"], cells),
    ...unreadableLine(unreadable),
    ...nextLine(next),
  ];
}

export function nextLine(next: string | null | undefined): readonly string[] {
  return next ? [paint("dim", `More rows: --after ${next}`)] : [];
}
