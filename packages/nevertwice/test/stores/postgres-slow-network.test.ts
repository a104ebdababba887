/** Tests a statement whose parameters arrive long before it is executed: its clock is not later than the rows that it sees. */
import { expect, onTestFinished, type TestContext, test } from "vitest";
import { createReservations, type Placed } from "../../src/reservations/index.ts";
import { postgresReservations } from "../../src/reservations/postgres.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { sharedUrl } from "../services/services.ts";
import { claimOf, completionOf, createDatabase, poolOf, query, until } from "./postgres/database.ts";
import { startExecuteGate } from "./postgres/execute-gate.ts";

const LEASE_MS = 500;

async function scene(context: TestContext) {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const gate = await startExecuteGate(url);
  onTestFinished(() => gate.stop());
  const pools = [poolOf(url), poolOf(gate.url, { max: 1 })] as const;
  for (const pool of pools) onTestFinished(() => pool.end());
  return { url, gate, near: pools[0], far: pools[1] };
}

/** The time of the server's clock. */
async function passed(url: string, ms: number): Promise<void> {
  await query(url, `SELECT pg_sleep(${ms / 1_000})`);
}

/** The calls of the slow store, each with the expected answer for a record that is renewed continuously. */
const LOOKS = {
  read: {
    ask: (store: ReturnType<typeof postgresStore>, id: string) => store.read(id),
    said: { state: "pending" },
  },
  list: {
    ask: async (store: ReturnType<typeof postgresStore>) =>
      (await store.list?.({ namespace: "n", limit: 5 }))?.records[0],
    said: { state: "pending" },
  },
  claim: {
    ask: (store: ReturnType<typeof postgresStore>) => store.claim(claimOf("renewed")),
    said: { status: "pending" },
  },
  "two reads at once": {
    ask: async (store: ReturnType<typeof postgresStore>, id: string) =>
      (await Promise.all([store.read(id), store.read("another")]))[0],
    said: { state: "pending" },
  },
};

for (const [name, { ask, said }] of Object.entries(LOOKS)) {
  test(`${name}: a record that is renewed continuously is not seen as lapsed`, async (context) => {
    const { url, gate, near, far } = await scene(context);
    const [owner, reader] = [postgresStore({ client: near }), postgresStore({ client: far })];
    await owner.migrate();
    const claim = claimOf("renewed", { leaseMs: LEASE_MS });
    await owner.claim(claim);
    // Prepared first, so that the statement at the gate already has its parameters.
    await ask(reader, claim.id);
    await owner.renew({ id: claim.id, token: claim.token, leaseMs: LEASE_MS });
    gate.close();
    const asked = ask(reader, claim.id);
    await until(() => gate.waiting === 1);
    expect(await owner.renew({ id: claim.id, token: claim.token, leaseMs: 60_000 })).toBe(true);
    await passed(url, LEASE_MS + 100);
    gate.open();
    expect(await asked).toMatchObject(said);
  });
}

test("a late completion is not refused, and purge removes no renewed record", async (context) => {
  const { url, gate, near, far } = await scene(context);
  const [owner, other] = [postgresStore({ client: near }), postgresStore({ client: far })];
  await owner.migrate();
  const claim = claimOf("renewed", { leaseMs: LEASE_MS, retentionMs: 1 });
  await owner.claim(claim);
  await other.purge(10);
  gate.close();
  const purged = other.purge(10);
  await until(() => gate.waiting === 1);
  await owner.renew({ id: claim.id, token: claim.token, leaseMs: 60_000 });
  await passed(url, LEASE_MS + 100);
  gate.open();
  expect(await purged).toEqual({ removed: 0, more: false });
  gate.close();
  const completed = other.complete(completionOf(claim));
  await until(() => gate.waiting === 1);
  gate.open();
  expect(await completed).toBe(true);
});

test("a hold that was confirmed in time is not read as expired", async (context) => {
  const { url, gate, near, far } = await scene(context);
  const open = (client: typeof near) => {
    const desk = createReservations({
      store: postgresReservations({ client }),
      windowMs: 60_000,
      purgeEveryMs: 0,
    });
    onTestFinished(() => desk.close());
    return desk;
  };
  await postgresReservations({ client: near }).migrate();
  const [desk, reader] = [open(near), open(far)];
  const held = await desk.placeHold({ resource: "room", requester: "ann", durationMs: 2_000, key: "k" });
  const id = (held as Placed).id;
  await reader.get(id);
  gate.close();
  const asked = reader.get(id);
  await until(() => gate.waiting === 1);
  expect(await desk.confirm({ id, key: "c" })).toEqual({ ok: true });
  await passed(url, 2_100);
  gate.open();
  expect(await asked).toMatchObject({ isElapsed: false });
});
