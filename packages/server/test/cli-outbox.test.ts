/** Tests `nevertwice outbox`, on a store and on a running server. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { FOLDER, json, run, type Serving, serving, stop, words } from "./cli-process.ts";
import { type Application, relayUntil, sqliteApplication } from "./outbox-stage.ts";

const FILE = join(FOLDER, "outbox.db");
let application: Application;
let server: Serving;

beforeAll(async () => {
  application = await sqliteApplication(FILE);
  server = await serving("--store", application.url);
});

afterAll(async () => {
  expect((await stop(server)).code).toBe(0);
  await application.close();
});

it("lists, retries, parks and discards messages, with JSON for programs", { timeout: 120_000 }, async () => {
  const [first, second] = await application.send(
    { topic: "refuse", key: "customer-1", body: "secret body" },
    { topic: "receipt", key: "customer-1", body: 2 },
  );
  const relay = await relayUntil(application, async () => (await application.outbox.figures()).behind === 1);
  await relay.stop();
  const reach = ["--server", server.url];
  const list = await run(["outbox", "list", ...reach]);
  expect(list.out[0]).toMatch(/^id +state +topic +key +attempts +sent +next try +last error$/);
  expect(list.out[1]).toMatch(
    new RegExp(
      `^${first} +parked +refuse +customer-1 +1 +\\S+ ago +Error: the receiver answered 422: unknown customer$`,
    ),
  );
  expect(list.out[2]).toMatch(new RegExp(`^${second} +behind +receipt +customer-1 +0 +\\S+ ago$`));
  expect(list.out.join("\n")).not.toContain("secret body");
  const retried = await run(["outbox", "retry", first as string, ...reach]);
  expect(retried).toMatchObject({ code: 0, out: [`done: retry ${first}`] });
  // Directly on the store.
  const page = await json<{ readonly messages: readonly object[] }>(
    "outbox",
    "list",
    "--store",
    application.url,
  );
  expect(page.messages).toMatchObject([{ id: first, state: "waiting", attempts: 0 }, { id: second }]);
  expect((await run(["outbox", "park", second as string, ...reach])).code).toBe(0);
  const parked = await run([
    ...words("outbox list --state parked --topic receipt --key customer-1"),
    ...reach,
  ]);
  expect(parked.out).toHaveLength(2);
  expect(await json("outbox", "discard", first as string, ...reach)).toEqual({ id: first });
  const again = await run(["outbox", "discard", first as string, ...reach]);
  expect([again.code, again.err[0]]).toEqual([1, expect.stringContaining("concurrent-modification")]);
});
