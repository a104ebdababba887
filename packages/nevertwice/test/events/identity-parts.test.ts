/** Tests that a message with an invalid tenant or key is refused as the sender's fault, and that nothing runs. */
import { expect, onTestFinished, test } from "vitest";
import { idempotentMessages } from "../../src/events/a2a.ts";
import { cloudEvents } from "../../src/events/cloudevents.ts";
import { consumer } from "../../src/events/index.ts";
import { idempotentTool } from "../../src/events/mcp.ts";
import { standardWebhooks, webhook } from "../../src/events/webhook.ts";
import { createGuard, type Guard, isNevertwiceError } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";

interface Named {
  readonly tenant: string;
  readonly key: string;
}

interface Problem {
  readonly code: unknown;
  /** Only for receivers that have one. */
  readonly status?: number;
}

/** Sends one message through a receiver, and returns the response to its sender. */
type Door = (guard: Guard, named: Named, work: () => object) => Promise<Problem>;

const DOORS: Readonly<Record<string, Door>> = {
  async consumer(guard, { tenant, key }, work) {
    const scoped = consumer(guard, { name: "mailer", key: () => key, scope: () => tenant, work });
    const delivery = await scoped.handle({});
    expect(delivery).toMatchObject({ status: "refused", verdict: "reject" });
    return codeOf("error" in delivery ? delivery.error : undefined);
  },
  async webhook(guard, { tenant, key }, work) {
    const receive = webhook(guard, {
      name: "payments",
      scheme: standardWebhooks,
      verify: () => true,
      key: () => key,
      scope: () => tenant,
      work,
    });
    return readProblem(await receive.handle({ headers: {}, body: "{}" }));
  },
  async cloudevents(guard, { tenant, key }, work) {
    const receive = cloudEvents(guard, { name: "orders", scope: () => tenant, work });
    const event = { specversion: "1.0", type: "t", source: "/s", id: key };
    const headers = { "content-type": "application/cloudevents+json" };
    return readProblem(await receive.handle({ headers, body: JSON.stringify(event) }));
  },
  async mcp(guard, { tenant, key }, work) {
    const tool = idempotentTool(guard, { operation: "charge", scope: () => tenant, maxKeyLength: 5_000 });
    const answer = await tool.handler(work)({ idempotency_key: key }, {});
    const { _meta } = answer as { readonly _meta?: { readonly nevertwice?: { readonly code?: string } } };
    return { code: _meta?.nevertwice?.code };
  },
  async a2a(guard, { tenant, key }, work) {
    const agent = {
      sendMessage: async (_params: object, _context: object) => work(),
      async *sendMessageStream(_params: object, _context: object) {},
      getTask: async (_params: object, _context: object) => ({}),
    };
    const { sendMessage } = idempotentMessages(guard, { scope: () => tenant }, agent);
    return sendMessage({ message: { messageId: key } }, {}).then(() => ({ code: undefined }), codeOf);
  },
};

function codeOf(error: unknown): Problem {
  return isNevertwiceError(error) ? { code: error.code, status: error.status } : { code: error };
}

function readProblem({
  status,
  body,
}: {
  readonly status: number;
  readonly body: string | Uint8Array;
}): Problem {
  return { status, code: JSON.parse(String(body) || "{}").code };
}

const BAD: Readonly<Record<string, string>> = {
  "of 1,025 bytes": "x".repeat(1_025),
  "of 600 characters and 1,200 bytes": "\u00e9".repeat(600),
  "with a lone surrogate": "a\ud800",
};

const ROWS = Object.keys(DOORS).flatMap((door) =>
  Object.keys(BAD).flatMap((what) => [
    [door, "tenant", what, "request-invalid"] as const,
    [door, "key", what, "key-invalid"] as const,
  ]),
);

test.each(ROWS)("%s: a %s %s is refused with 400 %s", async (door, part, what, code) => {
  const store = faultyStore(memoryStore());
  const guard = createGuard({ store, purgeEveryMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  let runs = 0;
  const named = { tenant: "tenant-1", key: "k-1", [part]: BAD[what] };
  const problem = await (DOORS[door] as Door)(guard, named, () => {
    runs++;
    return { content: [] };
  });
  expect(problem.code).toBe(code);
  expect([undefined, 400]).toContain(problem.status);
  expect(runs).toBe(0);
  expect(store.calls.claim).toBe(0);
});
