/** `nevertwice holds`: what is held, and the actions of reservations by hand. */
import { randomUUID } from "node:crypto";
import { durationMs } from "nevertwice/env";
import { type Action, type Call, type Command, type Flags, UsageError, wholeNumber } from "./command.ts";
import { asking, REACH_FLAGS } from "./reach.ts";
import { agoText, fields, paint, table } from "./terminal.ts";

interface Hold {
  readonly id: string;
  readonly resource: string;
  readonly requester: string;
  readonly units: number;
  readonly state: string;
  readonly isElapsed: boolean;
  readonly placedAt: number;
  readonly expiresAt: number;
}

interface Resource {
  readonly name: string;
  readonly capacity: number;
  readonly taken: number;
  readonly free: number;
  readonly state: string;
}

interface Page<Row> {
  readonly rows: readonly Row[];
  readonly next?: string;
}

const PAGE_FLAGS: Flags = {
  limit: { value: "N", what: "how many at most" },
  after: { value: "NEXT", what: "goes on where the page before ended" },
};
const KEY_FLAG: Flags = {
  key: { value: "KEY", what: "the key of this action: the same again is done once; without it, a new one" },
};
const UNITS_FLAG: Flags = { units: { value: "N", what: "some of its units; without it, all" } };

export const holdsCommand: Command = {
  summary: "lists holds, and places, confirms, releases or expires them",
  actions: {
    list: {
      summary: "Lists holds.",
      flags: {
        state: { value: "held|confirmed|released|expired", what: "only in this state" },
        resource: { value: "NAME", what: "only of this resource" },
        requester: { value: "NAME", what: "only of this requester" },
        ...PAGE_FLAGS,
        ...REACH_FLAGS,
      },
      run: (call) => {
        const [state, resource, requester] = ["state", "resource", "requester"].map(call.text);
        const query = { state, resource, requester, ...paging(call) };
        return asking(call, { method: "GET", path: "/v1/holds", query }, holdLines);
      },
    },
    show: {
      summary: "Shows one hold.",
      takes: ["ID"],
      flags: REACH_FLAGS,
      run: (call) => asking(call, { method: "GET", path: `/v1/holds/${idIn(call)}` }, oneHold),
    },
    place: {
      summary: "Holds units of a resource for a while.",
      takes: ["RESOURCE"],
      flags: {
        requester: { value: "NAME", what: "who holds it" },
        for: { value: "DURATION", what: "how long, such as 10m" },
        units: { value: "N", what: "how many", default: "1" },
        ...KEY_FLAG,
        ...REACH_FLAGS,
      },
      run: place,
    },
    confirm: ending("confirm", "Makes a hold final.", UNITS_FLAG),
    release: ending("release", "Gives a hold up.", {}),
    expire: ending("expire", "Writes down that a hold's time is over.", {}),
    "give-back": ending("give-back", "Gives back what was confirmed.", UNITS_FLAG),
    resources: {
      summary: "Lists resources, and how much of each is free.",
      flags: { ...PAGE_FLAGS, ...REACH_FLAGS },
      run: (call) =>
        asking(call, { method: "GET", path: "/v1/resources", query: paging(call) }, resourceLines),
    },
    declare: {
      summary: "Says how many units of a resource there are.",
      takes: ["RESOURCE"],
      flags: { capacity: { value: "N", what: "how many" }, ...KEY_FLAG, ...REACH_FLAGS },
      run: (call) => {
        const [resource] = call.args;
        const capacity = wholeNumber(call, "capacity", 0);
        if (capacity === undefined)
          throw new UsageError("--capacity N is missing: how many units are there?");
        const request = { ...keyed(call), path: "/v1/resources", body: { resource, capacity } };
        return asking(call, request, () => [`${paint("green", "declared")} ${resource}: ${capacity}`]);
      },
    },
  },
};

function place(call: Call) {
  const [resource] = call.args;
  const [requester, duration] = [call.text("requester"), call.text("for")];
  if (requester === undefined) throw new UsageError("--requester NAME is missing: who holds it?");
  if (duration === undefined) throw new UsageError("--for DURATION is missing: how long, such as 10m?");
  const body = {
    resource,
    requester,
    durationMs: durationMs("--for", duration),
    units: wholeNumber(call, "units", 1),
  };
  const request = { ...keyed(call), path: "/v1/holds", body };
  return asking(call, request, ({ id }: { readonly id: string }) => [
    `${paint("green", "held")} ${id}`,
    paint("dim", `nevertwice holds confirm ${id}`),
  ]);
}

function ending(word: string, summary: string, flags: Flags): Action {
  return {
    summary,
    takes: ["ID"],
    flags: { ...flags, ...KEY_FLAG, ...REACH_FLAGS },
    run: (call) => {
      const units = wholeNumber(call, "units", 1);
      const request = {
        ...keyed(call),
        path: `/v1/holds/${idIn(call)}/${word}`,
        body: units === undefined ? {} : { units },
      };
      return asking(call, request, () => [`${paint("green", "done")}: ${word} ${call.args[0]}`]);
    },
  };
}

function keyed(call: Call) {
  return {
    method: "POST",
    headers: { "idempotency-key": JSON.stringify(call.text("key") ?? randomUUID()) },
  } as const;
}

function idIn(call: Call): string {
  return encodeURIComponent(call.args[0] ?? "");
}

function paging(call: Call) {
  return { limit: wholeNumber(call, "limit", 1), after: call.text("after") };
}

function holdLines({ rows, next }: Page<Hold>): readonly string[] {
  if (rows.length === 0) return ["Nothing is held."];
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
    ...nextLine(next),
  ];
}

const STYLES: Readonly<Record<string, "green" | "yellow" | "dim">> = {
  held: "yellow",
  confirmed: "green",
  released: "dim",
  expired: "dim",
};

function oneHold(hold: Hold): readonly string[] {
  const { placedAt, expiresAt, ...rest } = hold;
  return fields({ ...rest, placedAt: isoOf(placedAt), expiresAt: isoOf(expiresAt) });
}

function isoOf(ms: number): string {
  return new Date(ms).toISOString();
}

function resourceLines({ rows, next }: Page<Resource>): readonly string[] {
  if (rows.length === 0) return ["There is no resource yet."];
  const cells = rows.map(({ name, capacity, taken, free, state }) => [name, capacity, taken, free, state]);
  return [...table(["name", "capacity", "taken", "free", "state"], cells), ...nextLine(next)];
}

export function nextLine(next: string | null | undefined): readonly string[] {
  return next ? [paint("dim", `There is more: --after ${next}`)] : [];
}
