/** What happens now: one picture, or one a second, for a dashboard. Counts of this server alone, and no key. */
import { PassThrough } from "node:stream";
import { type Caller, ROLES } from "../access.ts";
import type { Context } from "../context.ts";
import { RATES } from "../live.ts";
import { createDoctor, DIAGNOSIS_SCHEMA } from "./doctor.ts";
import type { JsonSchema, Route } from "./route.ts";

const SECONDS = 60;
const TICK_MS = 1_000;
/** A client that reads this much too slowly is cut off: it may come back. */
const MOST_UNREAD_BYTES = 1_000_000;

const SECOND_SCHEMA: JsonSchema = {
  type: "object",
  required: ["at", "counts", "ranMs"],
  properties: {
    at: { type: "integer", description: "Seconds since the epoch." },
    counts: {
      type: "object",
      required: RATES,
      properties: Object.fromEntries(RATES.map((rate) => [rate, { type: "integer" }])),
    },
    ranMs: {
      type: "object",
      required: ["count", "p50", "p99"],
      properties: { count: { type: "integer" }, p50: { type: "number" }, p99: { type: "number" } },
    },
  },
};

const SNAPSHOT_SCHEMA: JsonSchema = {
  type: "object",
  required: ["at", "inFlight", "seconds", "store"],
  properties: {
    at: { type: "integer", description: "Milliseconds since the epoch." },
    inFlight: { type: "integer", description: "Work that runs behind this server now." },
    seconds: { type: "array", items: SECOND_SCHEMA, description: "The last minute, oldest first." },
    store: {
      type: ["object", "null"],
      description: "The doctor's row; null while the store does not answer.",
      required: ["title", "rung"],
      properties: { title: { type: "string" }, rung: { type: ["string", "null"] } },
    },
  },
};

export function liveRoutes(context: Context): readonly Route[] {
  const doctor = createDoctor(context.store);
  async function snapshot() {
    const store = await doctor().then(
      ({ title, rung }) => ({ title, rung }),
      () => null,
    );
    const { live } = context;
    return { at: Date.now(), inFlight: live.inFlight(), seconds: live.seconds(SECONDS), store };
  }
  const stream = createStream(context, snapshot);
  const shared = { method: "GET", tag: "live", roles: ["operator", "auditor"], problems: [] } as const;
  return [
    {
      ...shared,
      path: "/v1/live",
      id: "live",
      summary: "What happened in the last minute",
      answers: { 200: { description: "One picture.", schema: SNAPSHOT_SCHEMA } },
      handle: async () => ({ status: 200, body: await snapshot() }),
    },
    {
      ...shared,
      path: "/v1/live/stream",
      id: "liveStream",
      summary: "The same, once a second",
      answers: {
        200: {
          description: "Server-sent events, each with a picture as its data.",
          type: "text/event-stream",
          schema: { type: "string" },
        },
      },
      handle: ({ caller }) => ({ status: 200, body: stream.open(caller) }),
      close: stream.close,
    },
    {
      ...shared,
      roles: ROLES,
      path: "/v1/doctor",
      id: "doctor",
      summary: "Which faults an acknowledged claim survives on this store",
      answers: { 200: { description: "The doctor's findings.", schema: DIAGNOSIS_SCHEMA } },
      handle: async () => ({ status: 200, body: await doctor() }),
    },
  ];
}

/** One clock for all who watch, and none while nobody does. */
function createStream(context: Context, snapshot: () => Promise<unknown>) {
  const watching = new Map<PassThrough, Caller>();
  let timer: NodeJS.Timeout | undefined;

  async function tick(): Promise<void> {
    const event = `data: ${JSON.stringify(await snapshot())}\n\n`;
    for (const [client, caller] of watching) {
      if (client.writableLength + client.readableLength > MOST_UNREAD_BYTES) client.destroy();
      else if (await isStillWelcome(caller)) client.write(event);
      else client.end();
    }
  }

  /** A stream ends when its token is revoked; while the store does not answer, nobody can say. */
  async function isStillWelcome({ tokenId }: Caller): Promise<boolean> {
    if (tokenId === undefined) return true;
    return context.access.recall(tokenId).then(
      (caller) => caller !== undefined,
      () => true,
    );
  }

  function leave(client: PassThrough): void {
    watching.delete(client);
    if (watching.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  return {
    open(caller: Caller): PassThrough {
      const client = new PassThrough();
      watching.set(client, caller);
      client.once("close", () => leave(client));
      timer ??= setInterval(() => void tick(), TICK_MS);
      void snapshot().then(
        (picture) => client.writable && client.write(`data: ${JSON.stringify(picture)}\n\n`),
      );
      return client;
    },
    close(): void {
      for (const client of watching.keys()) client.end();
    },
  };
}
