/** Decides many keys whose outcome is unknown, page by page: after a failure of the service behind the gateway, for example. */
import { type Decision, type Guard, NevertwiceError, type RecordView } from "nevertwice";
import type { Context } from "../context.ts";
import type { ResolvedPageJson } from "./api-json.ts";
import type { ApiRoute } from "./route.ts";
import { partSchema } from "./subjects.ts";

const PAGE = 100;
const MAX_PAGE = 500;
/** So many decisions are sent at once. */
const AT_ONCE = 16;

interface BulkRequest {
  readonly operation: string;
  readonly scope?: string;
  readonly before: number;
  readonly decision: "done" | "not-done";
  readonly dryRun?: boolean;
  readonly after?: string;
  readonly limit?: number;
}

const COUNT = { type: "integer", minimum: 0 };

export function bulkResolveRoute(context: Context): ApiRoute {
  return {
    method: "POST",
    path: "/v1/keys/resolve",
    id: "resolveKeys",
    tag: "keys",
    summary: "Decide many keys whose outcome is unknown, page by page",
    description:
      "done: every retry is told that the work was done. not-done frees the keys. Each key is decided only if it has not changed since the page was read.",
    roles: ["operator"],
    body: {
      type: "object",
      required: ["operation", "before", "decision"],
      properties: {
        operation: partSchema("Only keys of this operation."),
        scope: partSchema("Only keys of this scope."),
        before: {
          type: "integer",
          minimum: 0,
          description:
            "Only keys whose last attempt was claimed before this time, in milliseconds since the epoch.",
        },
        decision: { enum: ["done", "not-done"] },
        dryRun: { type: "boolean", description: "Count the keys, and decide nothing." },
        after: {
          type: "string",
          minLength: 1,
          maxLength: 8_000,
          description: "The `next` of the previous page.",
        },
        limit: {
          type: "integer",
          minimum: 1,
          maximum: MAX_PAGE,
          description: `The most keys to read; default ${PAGE}.`,
        },
      },
      additionalProperties: false,
    },
    answers: {
      200: {
        description: "What was done with this page. A page can match nothing and still have a `next`.",
        schema: {
          type: "object",
          required: ["read", "matched", "resolved", "changed", "next"],
          properties: {
            read: { ...COUNT, description: "The keys of this page." },
            matched: { ...COUNT, description: "Those with an unknown outcome that the request means." },
            resolved: { ...COUNT, description: "Those that were decided." },
            changed: {
              ...COUNT,
              description: "Those that changed before the decision, which was not applied.",
            },
            next: { type: ["string", "null"] },
          },
          additionalProperties: false,
        },
      },
    },
    problems: ["not-supported"],
    async handle({ body, caller }) {
      if (context.store.list === undefined)
        return {
          problem: new NevertwiceError("not-supported", "the store of this server cannot list records."),
        };
      const { scope, after, limit = PAGE, dryRun = false, ...which } = body as BulkRequest;
      const guard = context.guard(caller.namespace);
      const page = await guard.list({ state: "lapsed", scope, after, limit });
      const matching = page.records.filter((record) => isMeant(record, which));
      const resolved = dryRun ? 0 : await resolveAll(guard, matching, toDecision(which.decision));
      const answer: ResolvedPageJson = {
        read: page.records.length,
        matched: matching.length,
        resolved,
        changed: dryRun ? 0 : matching.length - resolved,
        next: page.next ?? null,
      };
      return { status: 200, body: answer };
    },
  };
}

function isMeant(
  { operation, key, claimedAt }: RecordView,
  wanted: Pick<BulkRequest, "operation" | "before">,
): boolean {
  return key !== undefined && operation === wanted.operation && claimedAt < wanted.before;
}

function toDecision(decision: BulkRequest["decision"]): Decision {
  return decision === "done" ? { status: "done", value: null } : { status: "not-done" };
}

/** How many were decided. Each claims its key by the fence that was read, so a decision about a key that changed loses. */
async function resolveAll(guard: Guard, records: readonly RecordView[], decision: Decision): Promise<number> {
  let resolved = 0;
  for (let at = 0; at < records.length; at += AT_ONCE) {
    const answers = await Promise.all(
      records.slice(at, at + AT_ONCE).map(({ operation = "", key = "", scope = "", fence }) => {
        const owner = scope === "" ? {} : { scope };
        return guard.resolve({ operation, key, ...owner, fence }, decision);
      }),
    );
    resolved += answers.filter((isResolved) => isResolved).length;
  }
  return resolved;
}
