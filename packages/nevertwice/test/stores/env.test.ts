/** Tests `guardFromEnv` on real servers: a URL in the environment is all that production needs. */
import { expect, test } from "vitest";
import { guardFromEnv } from "../../src/env/index.ts";
import type { Store } from "../../src/index.ts";
import { freePort } from "../services/ports.ts";
import { type ServiceName, sharedUrl } from "../services/services.ts";

for (const service of ["redis", "postgres"] as const satisfies readonly ServiceName[]) {
  test(`in production, two guards from one environment share ${service}, and each closes the connections that it opened`, async (context) => {
    const env = {
      NODE_ENV: "production",
      NEVERTWICE_STORE_URL: sharedUrl(context, service),
      NEVERTWICE_NAMESPACE: `env-${Math.random()}`,
      NEVERTWICE_RETENTION: "1m",
    };
    const opened: Store[] = [];
    const wrapStore = (store: Store) => {
      opened.push(store);
      return store;
    };
    const guards = await Promise.all([
      guardFromEnv(env, { purgeEveryMs: 0, wrapStore }),
      guardFromEnv(env, { purgeEveryMs: 0, wrapStore }),
    ]);
    let runs = 0;
    const charge = () => ++runs;
    const answers = await Promise.all(
      guards.map((guard) => guard.run({ operation: "charge", key: "order-1" }, charge)),
    );
    expect(answers).toEqual([1, 1]);
    for (const guard of guards) expect(await guard.close()).toEqual([]);
    for (const store of opened) await expect(store.read("0".repeat(64))).rejects.toThrow();
  });
}

test("when the store is unreachable, the guard refuses or proceeds according to the environment", async () => {
  const url = `redis://user:hunter2@127.0.0.1:${await freePort()}`;
  const answers: string[][] = [];
  for (const onUnavailable of ["refuse", "proceed"]) {
    const env = { NEVERTWICE_STORE_URL: url, NEVERTWICE_ON_UNAVAILABLE: onUnavailable };
    const events: string[] = [];
    const guard = await guardFromEnv(env, {
      storeTimeoutMs: 50,
      completeWaitMs: 0,
      drainMs: 0,
      observer: ({ kind }) => events.push(kind),
    });
    const result = await guard.tryRun({ operation: "charge", key: "order-1" }, () => "charged");
    expect(JSON.stringify(result)).not.toContain("hunter2");
    answers.push([result.status, ...events.slice(0, 2)]);
    await guard.close();
  }
  expect(answers).toEqual([
    ["unavailable", "unavailable"],
    ["ran", "unavailable", "proceeded"],
  ]);
});
