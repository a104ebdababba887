/** Tests that every function which takes the name of an operation refuses the library's own operations. */
import { afterAll, describe, expect, test } from "vitest";
import { createClaims } from "../../src/claims/index.ts";
import { idempotentMessages } from "../../src/events/a2a.ts";
import { consumer } from "../../src/events/index.ts";
import { idempotentTool } from "../../src/events/mcp.ts";
import { protect, protectedFunction, replay } from "../../src/functions/protect.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { createGuard, idempotent } from "../../src/index.ts";
import { definePipeline } from "../../src/pipeline/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const store = memoryStore();
const guard = createGuard({ store, purgeEveryMs: 0 });
afterAll(async () => {
  await guard.close();
});

const OURS = "nevertwice:quota";
const SUBJECT = { operation: OURS, key: "k" };
const work = async () => "done";
const letter = {
  id: "1",
  ...SUBJECT,
  error: { name: "Error", message: "" },
  attempts: 1,
  failedAt: 0,
  replays: 0,
};
const answer = async () => new Response("ok");
const post = () => new Request("http://localhost/", { method: "POST", headers: { "idempotency-key": "k" } });

/** Each passes an operation of the library in its own way, and would otherwise run or construct something. */
const DOORS: Readonly<Record<string, () => unknown>> = {
  "guard.run": () => guard.run(SUBJECT, work),
  "guard.tryRun": () => guard.tryRun(SUBJECT, work),
  "a domain that forms the name": () =>
    guard.run({ domain: "nevertwice", operation: "quota", key: "k" }, work),
  "guard.wrap": () => guard.wrap(work, { operation: OURS, key: () => "k" }),
  "guard.wrap with a domain": () =>
    guard.wrap(work, { domain: "nevertwice", operation: "quota", key: () => "k" }),
  "@idempotent": () => idempotent(guard, { operation: OURS, key: () => "k" }),
  "guard.claim": () => guard.claim(SUBJECT),
  "guard.claimBatch": () => guard.claimBatch([SUBJECT]),
  "guard.seen": () => guard.seen(SUBJECT),
  "guard.seenBatch": () => guard.seenBatch([SUBJECT]),
  "guard.mark": () => guard.mark(SUBJECT),
  "guard.release": () => guard.release(SUBJECT),
  "guard.markBatch": () => guard.markBatch([SUBJECT]),
  protect: () => protect(guard, { operation: OURS, key: () => "k" }, work),
  protectedFunction: () => protectedFunction(guard, work, { operation: OURS, key: () => "k" }),
  "replay of a dead letter": () => replay(guard, letter, work),
  "createClaims().claim": () => createClaims({ store }).claim(SUBJECT),
  "an HTTP layer": () => withIdempotency(guard, { scope: "anyone", operation: OURS }, answer),
  "a consumer's operation": () => consumer(guard, { name: "mail", operation: OURS, key: () => "k", work }),
  "a consumer's name": () => consumer(guard, { name: OURS, key: () => "k", work }),
  "an MCP tool": () => idempotentTool(guard, { operation: OURS, scope: "anyone" }),
  "messages of agents": () =>
    idempotentMessages(guard, { operation: OURS, scope: "anyone" } as never, { sendMessage: work } as never),
};

describe("an operation that starts with nevertwice: is refused by", () => {
  test.each(Object.entries(DOORS))("%s", async (_, door) => {
    await expect((async () => door())()).rejects.toMatchObject({
      code: "options-invalid",
      message: expect.stringMatching(/"nevertwice:quota"; names that begin with "nevertwice:" are reserved/),
    });
  });
});

test("an HTTP layer refuses a request whose computed operation is reserved", async () => {
  const handle = withIdempotency(guard, { scope: "anyone", operation: () => OURS }, answer);
  const response = await handle(post());
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({
    code: "request-invalid",
    detail: expect.stringContaining("reserved"),
  });
});

test("refuses a network whose id starts with nevertwice:", async () => {
  const network = {
    network: { id: "nevertwice:billing", version: "1.0.0" },
    nodes: {},
  };
  await expect((async () => definePipeline(network as never))()).rejects.toMatchObject({
    code: "manifest-invalid",
    message: expect.stringContaining("reserved for nevertwice itself"),
  });
});

test("accepts names that only contain or resemble the prefix", async () => {
  for (const operation of ["nevertwice", "nevertwice.quota", "my:nevertwice:quota", "Nevertwice:quota"])
    expect(await guard.run({ operation, key: "k" }, () => operation)).toBe(operation);
});

test("operators may read and forget the library's own records", async () => {
  await guard.exclusive("report", async () => {
    const subject = { operation: "nevertwice:exclusive", key: "report" };
    expect((await guard.read(subject))?.state).toBe("pending");
  });
  expect(await guard.forget({ operation: "nevertwice:exclusive", key: "report" })).toBe(true);
});
