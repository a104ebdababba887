/** Keys for people: operators look at them and decide what is unknown, auditors look at less. */
import { type Decision, NevertwiceError, type RecordState, type RecordView, type Subject } from "nevertwice";
import type { Caller } from "../access.ts";
import type { Context } from "../context.ts";
import { searchKeys } from "./key-search.ts";
import { RECORD_SCHEMA, recordJson, STATES } from "./records.ts";
import type { ApiAnswer, ApiRequest, JsonSchema, Route } from "./route.ts";
import { DONE_SCHEMA, FENCE_SCHEMA, ID_PARAMETER, partSchema, recordIn } from "./subjects.ts";

const PAGE = 50;
const MOST_ON_A_PAGE = 500;

export function keysRoutes(context: Context): readonly Route[] {
  return [
    listRoute(context),
    showRoute(context),
    resolveRoute(context),
    releaseRoute(context),
    forgetRoute(context),
  ];
}

function isOperator({ roles }: Caller): boolean {
  return roles.includes("operator");
}

function listRoute(context: Context): Route {
  return {
    method: "GET",
    path: "/v1/keys",
    id: "listKeys",
    tag: "keys",
    summary: "List keys, page by page",
    roles: ["operator", "auditor"],
    query: {
      state: { schema: { enum: STATES }, description: "Only keys in this state." },
      scope: { schema: partSchema("A scope."), description: "Only keys of this scope, as records show it." },
      search: {
        schema: { type: "string", minLength: 1, maxLength: 200 },
        description:
          "Only keys that have this text in their key, operation or scope, or whose id begins with it. A page may come back empty with a `next`: there is more to search.",
      },
      after: {
        schema: { type: "string", minLength: 1, maxLength: 8_000 },
        description: "The `next` of the page before.",
      },
      limit: {
        schema: { type: "integer", minimum: 1, maximum: MOST_ON_A_PAGE },
        description: `How many at most; ${PAGE} if not given.`,
      },
    },
    answers: {
      200: {
        description: "A page. What moves meanwhile may be missed, or seen twice.",
        schema: {
          type: "object",
          required: ["records", "next"],
          properties: {
            records: { type: "array", items: RECORD_SCHEMA },
            next: { type: ["string", "null"] },
          },
          additionalProperties: false,
        },
      },
    },
    problems: ["not-supported"],
    async handle({ query, caller }) {
      if (context.store.list === undefined) return cannot("list records");
      const {
        search,
        limit = PAGE,
        ...which
      } = query as {
        readonly state?: RecordState;
        readonly scope?: string;
        readonly after?: string;
        readonly search?: string;
        readonly limit?: number;
      };
      const isWhole = isOperator(caller);
      const guard = context.guard(caller.namespace);
      const page =
        search === undefined
          ? await guard.list({ ...which, limit })
          : await searchKeys(guard, { ...which, limit, search, isWhole });
      // A page is for looking around: outcomes are told one by one.
      const records = page.records
        // What was forgotten is nobody's any more, and is not found by its id either.
        .filter(({ operation }) => operation !== undefined)
        .map((record) => recordJson({ ...record, outcome: undefined }, isWhole));
      return { status: 200, body: { records, next: page.next ?? null } };
    },
  };
}

const EVENT_SCHEMA: JsonSchema = {
  type: "object",
  required: ["at", "kind", "detail"],
  properties: { at: { type: "integer" }, kind: { type: "string" }, detail: { type: "object" } },
  additionalProperties: false,
};

function showRoute(context: Context): Route {
  return {
    method: "GET",
    path: "/v1/keys/{id}",
    id: "showKey",
    tag: "keys",
    summary: "One key: its record, and what this server saw of it",
    description:
      "The outcome and the whole key are told to operators alone. Events are of this server, and lost with it.",
    roles: ["operator", "auditor"],
    params: ID_PARAMETER,
    answers: {
      200: {
        description: "The key as it stands.",
        schema: {
          type: "object",
          required: ["record", "events"],
          properties: { record: RECORD_SCHEMA, events: { type: "array", items: EVENT_SCHEMA } },
          additionalProperties: false,
        },
      },
    },
    problems: ["not-found"],
    async handle({ params, caller }) {
      const found = await recordIn(context, caller, params.id as string);
      if (found === undefined) return notFound();
      const { record } = found;
      const events = context.live.eventsOf(caller.namespace, record.keyHash);
      return { status: 200, body: { record: recordJson(record, isOperator(caller)), events } };
    },
  };
}

type Act = (
  found: { readonly record: RecordView; readonly subject: Subject },
  request: ApiRequest & { readonly body: { readonly fence: number } },
) => Promise<ApiAnswer | boolean>;

/** What the three decisions about a key have in common: who may, and that they are about what was seen. */
function decisionRoute(
  context: Context,
  own: Pick<Route, "id" | "summary" | "description"> & {
    readonly verb: string;
    readonly done: string;
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly required?: readonly string[];
    readonly act: Act;
  },
): Route {
  const { verb, done, properties, required = [], act, ...rest } = own;
  return {
    ...rest,
    method: "POST",
    path: `/v1/keys/{id}/${verb}`,
    tag: "keys",
    roles: ["operator"],
    params: ID_PARAMETER,
    body: {
      type: "object",
      required: ["fence", ...required],
      properties: { fence: FENCE_SCHEMA, ...properties },
      additionalProperties: false,
    },
    answers: {
      200: {
        description: done,
        schema: DONE_SCHEMA,
      },
    },
    problems: ["not-found", "pending", "concurrent-modification", "not-supported"],
    async handle(request) {
      const id = request.params.id as string;
      const found = await recordIn(context, request.caller, id);
      if (found === undefined) return notFound();
      const { record } = found;
      const asked = request as Parameters<Act>[1];
      if (record.fence !== asked.body.fence) return movedOn();
      if (record.state === "pending") {
        const problem = new NevertwiceError(
          "pending",
          "the work is under way; decide when its lease has ended.",
        );
        return { problem, more: { id, leaseLeftMs: Math.ceil(record.leaseLeftMs) } };
      }
      const answer = await act(found, asked);
      if (typeof answer !== "boolean") return answer;
      return answer ? { status: 200, body: { id } } : movedOn();
    },
  };
}

function resolveRoute(context: Context): Route {
  return decisionRoute(context, {
    verb: "resolve",
    id: "resolveKey",
    summary: "Decide a key whose outcome is unknown",
    description: "done and failed answer for the key from now on; not-done frees it.",
    done: "Decided.",
    required: ["decision"],
    properties: {
      decision: { enum: ["done", "failed", "not-done"] },
      value: { description: "With done: what the work answered." },
      error: { description: "With failed: what it failed with." },
    },
    act({ record, subject }, { body, caller }) {
      if (record.state !== "lapsed") return Promise.resolve(false);
      const fenced = { ...subject, fence: record.fence };
      return context.guard(caller.namespace).resolve(fenced, decisionIn(body));
    },
  });
}

function decisionIn(body: unknown): Decision {
  const {
    decision,
    value = null,
    error = "an operator decided that it failed",
  } = body as {
    readonly decision: Decision["status"];
    readonly value?: unknown;
    readonly error?: unknown;
  };
  if (decision === "done") return { status: "done", value };
  return decision === "failed" ? { status: "failed", error } : { status: "not-done" };
}

function releaseRoute(context: Context): Route {
  return decisionRoute(context, {
    verb: "release",
    id: "releaseKey",
    summary: "Free a key, so that its work may be done again",
    description: "A completed one loses its outcome. One whose outcome is unknown is decided as not done.",
    done: "The key is free.",
    async act({ record, subject }, { caller }) {
      const guard = context.guard(caller.namespace);
      const fenced = { ...subject, fence: record.fence };
      if (record.state === "lapsed") return guard.resolve(fenced, { status: "not-done" });
      if (record.state === "released") return true;
      return context.store.forget === undefined ? cannot("reopen records") : guard.reopen(fenced);
    },
  });
}

function forgetRoute(context: Context): Route {
  return decisionRoute(context, {
    verb: "forget",
    id: "forgetKey",
    summary: "Forget a key and what was kept for it",
    description:
      "A completed one leaves a mark that its work is done, without its key or outcome, until its retention ends.",
    done: "Forgotten.",
    async act({ record, subject }, { caller }) {
      if (context.store.forget === undefined) return cannot("forget records");
      return context.guard(caller.namespace).forget({ ...subject, fence: record.fence });
    },
  });
}

function notFound(): ApiAnswer {
  return { problem: new NevertwiceError("not-found", "there is no key with this id.") };
}

function movedOn(): ApiAnswer {
  return {
    problem: new NevertwiceError(
      "concurrent-modification",
      "the key is not as it was seen: somebody else was there first. Look again.",
    ),
  };
}

function cannot(what: string): ApiAnswer {
  return { problem: new NevertwiceError("not-supported", `the store of this server cannot ${what}.`) };
}
