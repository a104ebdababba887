/** HTTP adapters, each served in its framework's own manner by the harness that the adapter cases use. */
import { hash } from "node:crypto";
import { compositeKey } from "../../src/core/key.ts";
import { reserved } from "../../src/core/reserved.ts";
import { current } from "../../src/http/current-replay.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { joined } from "../../src/testing/adapter-cases/response-checks.ts";
import { wireTo } from "../../src/testing/adapter-cases/wire.ts";
import type { AdapterHarness } from "../../src/testing/adapter-cases.ts";
import { expressHarness } from "../http/adapters/express.ts";
import { fastifyHarness } from "../http/adapters/fastify.ts";
import { fetchHarness } from "../http/adapters/fetch.ts";
import { honoHarness } from "../http/adapters/hono.ts";
import { koaHarness } from "../http/adapters/koa.ts";
import { lambda2Harness } from "../http/adapters/lambda.ts";
import { nestExpressHarness } from "../http/adapters/nest.ts";
import { nodeHarness } from "../http/adapters/node.ts";
import { type Door, FrameworkError, type OpenDoor } from "./door.ts";

/** Longer than any answer takes: what has not come by then never comes. */
const PATIENCE_MS = 30_000;

/** The code of a problem, in whatever style a profile writes it. */
function codeIn(body: string): string | undefined {
  try {
    const { code, error } = JSON.parse(body) as { code?: string; error?: { code?: string } };
    return code ?? error?.code;
  } catch {
    return undefined;
  }
}

function httpDoor<Native>(
  harness: AdapterHarness<Native>,
  options: Partial<HttpOptions<Native>> = {},
  subject: Door["subject"] = (key) => ({ operation: "charge", scope: "tenant", key }),
): OpenDoor {
  return async (guard, effect) => {
    const layer = { guard, options: { scope: () => "tenant", operation: "charge", ...options } };
    const served = await harness.serve({
      layer: layer as unknown as { guard: typeof guard; options: HttpOptions<Native> },
      parser: "none",
      async handle({ attempt }) {
        effect(attempt?.key as string);
        return { status: 201, headers: [], body: { kind: "json", value: { ok: true } } };
      },
    });
    const wire = wireTo(served);
    return {
      subject,
      async deliver(key) {
        const signal = AbortSignal.timeout(PATIENCE_MS);
        const asked = { method: "POST", target: "/charges", body: Buffer.from("{}"), signal };
        const headers = [
          ["idempotency-key", key],
          ["content-type", "application/json"],
        ] as const;
        const response = await wire.send({ ...asked, headers });
        const chunks: Uint8Array[] = [];
        for await (const chunk of response.body) chunks.push(chunk);
        const { status } = response;
        const body = joined(chunks).toString();
        const code = codeIn(body);
        if (status >= 500 && code === undefined) throw new FrameworkError(body);
        return `${status} ${code ?? ""}`;
      },
      async stop() {
        wire.close();
        await served.stop();
      },
    };
  };
}

/** What is decided about a request is decided alike for every adapter: one is asked everything. */
export const exchangeDoors: Readonly<Record<string, OpenDoor>> = {
  fetch: httpDoor(fetchHarness),
  "fetch with replays of today": httpDoor(fetchHarness, { replay: current(() => ({ body: "now" })) }),
  "fetch with a profile": httpDoor(fetchHarness, { profile: "stripe-v1", onPending: "reject" }),
  "fetch with a window that refuses afterwards": httpDoor(fetchHarness, { expired: "refuse" }),
  "the quota of a caller": httpDoor(
    fetchHarness,
    { scope: (request: Request) => request.headers.get("idempotency-key") ?? "", quota: { keys: 1 } },
    (key) => ({
      ...reserved("quota"),
      key: compositeKey("keys", 1, hash("sha256", key, "hex"), 0).text,
    }),
  ),
};

export const frameworkDoors: Readonly<Record<string, OpenDoor>> = {
  express: httpDoor(expressHarness),
  fastify: httpDoor(fastifyHarness),
  hono: httpDoor(honoHarness),
  koa: httpDoor(koaHarness),
  lambda: httpDoor(lambda2Harness),
  nest: httpDoor(nestExpressHarness),
  node: httpDoor(nodeHarness),
};
