/**
 * Tests what happens around an open transaction of the application that holds something: other transactions at every
 * isolation level, actions of this and other processes, the sweeper, the audit, a killed process. Nothing is oversold, and
 * nobody waits who has nothing to do with it.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Answer, Reservations } from "../../src/reservations/index.ts";
import { HOUR_MS } from "./reservation-requests.ts";
import { type Execute, type InTransaction, ROOM, SERVERS } from "./transaction/reservations.ts";

const LEVELS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/** What each server answers to a transaction that comes second, or whose snapshot is older than what it asks about. */
const ANSWERS: Readonly<
  Record<string, { second: Readonly<Record<string, string>>; old: readonly string[] }>
> = {
  Postgres: {
    second: { "READ COMMITTED": "resource-unavailable", "REPEATABLE READ": "40001", SERIALIZABLE: "40001" },
    old: ["40001", "40001", "40001", "40001"],
  },
  MariaDB: {
    second: {
      "READ COMMITTED": "resource-unavailable",
      "REPEATABLE READ": "concurrent-modification",
      SERIALIZABLE: "resource-unavailable",
    },
    old: ["concurrent-modification", "not-held", "not-held", "ok"],
  },
};

interface OpenTransaction {
  readonly tx: unknown;
  readonly execute: Execute;
  end(how: "COMMIT" | "ROLLBACK"): Promise<void>;
}

/** An open transaction, which has taken its snapshot if a level is given. */
function begin(inTransaction: InTransaction, setLevel?: string): Promise<OpenTransaction> {
  return new Promise((resolve, reject) => {
    const done = inTransaction(async (tx, execute) => {
      if (setLevel !== undefined)
        for (const text of ["COMMIT", setLevel, "BEGIN", "SELECT count(*) FROM ledger"]) await execute(text);
      const how = await new Promise((resolveHow) => {
        const end = async (ending: "COMMIT" | "ROLLBACK") => {
          resolveHow(ending);
          await done;
        };
        // A test that fails would leave it open, and the pool could not be closed.
        onTestFinished(async () => {
          resolveHow("ROLLBACK");
          await Promise.allSettled([done]);
        });
        resolve({ tx, execute, end });
      });
      if (how === "ROLLBACK") throw new Error("rolled back");
    }).catch((error: Error) => {
      if (error.message !== "rolled back") throw error;
    });
    done.catch(reject);
  });
}

/** What an action came to: an answer, or the server's reason for refusing. */
async function outcome(action: Promise<Answer> | Answer): Promise<string> {
  try {
    const answer = await action;
    return answer.ok ? "ok" : answer.reason;
  } catch (error) {
    const { code, errno } = error as { code?: string; errno?: number };
    return String(errno ?? code);
  }
}

const held = (answer: Answer) => ("id" in answer ? answer.id : "");

async function expectSound(desk: Reservations, counts: object = {}): Promise<void> {
  expect(await desk.audit()).toMatchObject({ ok: true, counts });
}

describe.for(Object.entries(SERVERS))("on %s", ([server, { on, connect }]) => {
  const isolation = (level: string) =>
    `SET SESSION ${server === "Postgres" ? "CHARACTERISTICS AS " : ""}TRANSACTION ISOLATION LEVEL ${level}`;

  test.for(LEVELS)("two transactions at %s cannot both get the last seat", async (level, context) => {
    const { url, desk } = await on(context);
    await desk.resources.declare({ resource: "room", capacity: 2, key: "declare" });
    await desk.placeHold({ ...ROOM, key: "before" });
    const inTransaction = connect(context, url);
    const [one, other] = [
      await begin(inTransaction, isolation(level)),
      await begin(inTransaction, isolation(level)),
    ];
    expect(await outcome(desk.placeHold({ ...ROOM, key: "one" }, { tx: one.tx }))).toBe("ok");
    const second = outcome(desk.placeHold({ ...ROOM, key: "other" }, { tx: other.tx }));
    await sleep(50);
    await one.end("COMMIT");
    expect(await second).toBe(ANSWERS[server]?.second[level]);
    await other.end("COMMIT").catch(() => {});
    expect((await desk.resource("room"))?.taken).toBe(2);
    await expectSound(desk, { commitments: 2 });
  });

  test("an old snapshot does not hide what happened since", async (context) => {
    const { url, desk } = await on(context);
    const ended = held(await desk.placeHold({ ...ROOM, resource: "hall", key: "ended" }));
    const inTransaction = connect(context, url);
    const stale = () => begin(inTransaction, isolation("REPEATABLE READ"));
    const [b, c, d] = [await stale(), await stale(), await stale()];
    // Its time must be over soon, but not before it is confirmed.
    const sold = held(await desk.placeHold({ ...ROOM, durationMs: 1_000, key: "sold" }));
    const a = await stale();
    expect(await desk.confirm({ id: sold, key: "paid" })).toEqual({ ok: true });
    await desk.release({ id: ended, key: "released" });
    const late = held(await desk.placeHold({ ...ROOM, resource: "loft", key: "late" }));
    await desk.placeHold({ ...ROOM, key: "seen" });
    const expiresAt = (await desk.get(sold))?.expiresAt as number;
    while (Date.now() <= expiresAt + 20) await sleep(20);

    const within = async (open: OpenTransaction, act: (tx: unknown) => Promise<Answer>) => {
      const came = await outcome(act(open.tx));
      await open.end(came === "40001" ? "ROLLBACK" : "COMMIT");
      return came;
    };
    expect([
      // The snapshot shows a hold whose time is over. It was confirmed, and must not be expired to make room.
      await within(a, async (tx) => desk.placeHold({ ...ROOM, key: "again" }, { tx })),
      await within(b, async (tx) => desk.confirm({ id: ended, key: "c" }, { tx })),
      await within(c, async (tx) => desk.expire({ id: ended, key: "e" }, { tx })),
      await within(d, async (tx) => desk.confirm({ id: late, key: "l" }, { tx })),
    ]).toEqual(ANSWERS[server]?.old);
    expect(await desk.get(sold)).toMatchObject({ state: "confirmed" });
    await expectSound(desk, { commitments: 3 });
  });

  test("a stored answer is the same in a transaction with an older snapshot, or the server says so", async (context) => {
    const { url, desk } = await on(context);
    const open = await begin(connect(context, url), isolation("REPEATABLE READ"));
    const first = await desk.placeHold({ ...ROOM, key: "k" });
    const again = await Promise.resolve(desk.placeHold({ ...ROOM, key: "k" }, { tx: open.tx })).catch(
      ({ code }) => code,
    );
    expect(again).toEqual(server === "Postgres" ? "40001" : first);
    await open.end("ROLLBACK");
  });

  test("delays no action that has nothing to do with it, in this process or another", async (context) => {
    const { url, desk, open } = await on(context);
    const neighbour = open();
    await desk.resources.declare({ resource: "room", capacity: 5, key: "declare" });
    const early = held(await desk.placeHold({ ...ROOM, key: "early" }));
    await neighbour.placeHold({ ...ROOM, resource: "warm", key: "warm" });
    const { tx, end } = await begin(connect(context, url));
    const inside = await desk.placeHold({ ...ROOM, key: "k" }, { tx });
    expect(inside).toMatchObject({ ok: true });
    await desk.placeHold({ ...ROOM, resource: "attic", key: "attic" }, { tx });

    const startedAt = performance.now();
    const blocked = [desk, neighbour].flatMap((process) => [
      process.placeHold({ ...ROOM, key: "k" }),
      process.placeHold({ ...ROOM, resource: "attic", key: randomUUID() }),
      ...Array.from({ length: 10 }, () => process.placeHold({ ...ROOM, key: randomUUID() })),
      process.confirm({ id: early, key: "early/confirm" }),
    ]);
    // Only the key is locked: the resource is another one.
    const reused = [desk, neighbour].map((process) =>
      process.placeHold({ ...ROOM, resource: randomUUID(), key: "k" }),
    );
    const unrelated = [desk, neighbour].flatMap((process) =>
      Array.from({ length: 40 }, () =>
        process.placeHold({ ...ROOM, resource: randomUUID(), key: randomUUID() }),
      ),
    );
    const answers = await Promise.all(unrelated);
    const tookMs = performance.now() - startedAt;
    expect(answers.filter(({ ok }) => !ok)).toEqual([]);
    expect(tookMs).toBeLessThan(1_800);
    const stillOpen = await Promise.race([
      Promise.any([...blocked, ...reused]).then(() => "answered"),
      sleep(20, "open"),
    ]);
    expect(stillOpen).toBe("open");
    await end("COMMIT");
    const settled = await Promise.all(blocked);
    expect(settled[0]).toEqual(inside);
    expect(settled[13]).toEqual(inside);
    for (const answer of await Promise.all(reused))
      expect(answer).toMatchObject({ reason: "token-collision" });
    expect(settled.filter((answer) => !answer.ok && answer.reason !== "resource-unavailable")).toEqual([]);
    expect((await desk.resource("room"))?.taken).toBe(5);
    await expectSound(desk);
  });

  test("delays a group only shortly if it locks a row after the group has looked", async (context) => {
    const { url, desk, open } = await on(context);
    const stranger = open();
    for (const process of [desk, stranger])
      await process.placeHold({ ...ROOM, resource: "warm", durationMs: 1, key: randomUUID() });
    await desk.resources.declare({ resource: "room", capacity: 5, key: "declare" });
    const { tx, end, execute } = await begin(connect(context, url));
    // From now on this process looks first; the other one does not know of the transaction.
    await desk.placeHold({ ...ROOM, resource: "attic", key: "attic" }, { tx });
    await execute(
      "SELECT name FROM nevertwice_resources WHERE namespace = 'default' AND name = 'room' FOR UPDATE",
    );
    const groups = [desk, stranger].map((process) => ({
      blocked: process.placeHold({ ...ROOM, key: randomUUID() }),
      unrelated: process.placeHold({ ...ROOM, resource: randomUUID(), key: randomUUID() }),
    }));
    // Both wait for the row, which has no mark yet.
    await sleep(60);
    const startedAt = performance.now();
    expect(await desk.placeHold({ ...ROOM, key: "k" }, { tx })).toMatchObject({ ok: true });
    for (const { unrelated } of groups) expect(await unrelated).toMatchObject({ ok: true });
    expect(performance.now() - startedAt).toBeLessThan(1_500);
    await end("COMMIT");
    for (const { blocked } of groups) expect(await blocked).toMatchObject({ ok: true });
    expect((await desk.resource("room"))?.taken).toBe(3);
    await expectSound(desk);
  });

  test("is not waited for by an erasure, which leaves what it has locked and counts it as more", async (context) => {
    const { url, desk } = await on(context);
    const id = held(await desk.placeHold({ ...ROOM, key: "k" }));
    await desk.release({ id, key: "k/release" });
    const { tx, end } = await begin(connect(context, url));
    // Only the key is locked: the resource is another one.
    const reused = await desk.placeHold({ ...ROOM, resource: "attic", key: "k" }, { tx });
    expect(reused).toMatchObject({ reason: "token-collision" });
    const { requester } = ROOM;
    expect(await desk.erase({ requester })).toEqual({ erased: 0, held: 0, more: true });
    await end("COMMIT");
    expect(await desk.erase({ requester })).toEqual({ erased: 1, held: 0, more: false });
    await expectSound(desk);
  });

  // It waits for seconds on either server, and one of them is enough.
  if (server !== "MariaDB")
    test("an action that waits for too long answers storage-failure, and the same key works afterwards", async (context) => {
      const { url, desk } = await on(context);
      const { tx, end } = await begin(connect(context, url));
      await desk.placeHold({ ...ROOM, key: "k" }, { tx });
      const request = { ...ROOM, key: "mine" };
      expect(await desk.placeHold(request)).toMatchObject({
        reason: "storage-failure",
        detail: expect.stringContaining("open transaction"),
      });
      await end("ROLLBACK");
      expect(await desk.placeHold(request)).toMatchObject({ ok: true });
      await expectSound(desk, { keys: 1, commitments: 1 });
    });

  test("the sweeper and the audit see nothing of it and do not wait", async (context) => {
    const { url, desk } = await on(context);
    await desk.resources.declare({ resource: "room", capacity: 2, key: "declare" });
    await desk.placeHold({ ...ROOM, durationMs: 1, key: "short" });
    await sleep(5);
    const { tx, end } = await begin(connect(context, url));
    await desk.placeHold({ ...ROOM, key: "inside" }, { tx });
    const startedAt = performance.now();
    expect(await desk.sweep()).toBe(0);
    await expectSound(desk, { commitments: 1, keys: 2 });
    expect((await desk.listHeld()).rows).toHaveLength(1);
    expect(performance.now() - startedAt).toBeLessThan(900);
    await end("ROLLBACK");
    expect(await desk.sweep()).toBe(1);
    await expectSound(desk, { commitments: 1 });
  });

  test("a process that is killed in its transaction leaves nothing and blocks nobody", async (context) => {
    const { url, desk, rows } = await on(context);
    const child = spawn(process.execPath, ["--input-type=module", "-e", KILLED[server] as string, url], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [printed] = await once(child.stdout, "data");
    expect(String(printed).trim()).toBe("true");
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(await desk.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
    expect(await rows()).toBe(0);
    await expectSound(desk, { keys: 1, commitments: 1 });
  });

  test("commits and rollbacks mixed at random oversell nothing, and the audit passes", async (context) => {
    const { url, desk, open, rows } = await on(context);
    const neighbour = open();
    const random = seeded(7);
    const rooms = ["room", "hall", "attic"];
    const capacity = 4;
    for (const resource of rooms) await desk.resources.declare({ resource, capacity, key: resource });
    const inTransaction = connect(context, url);
    const ids: string[] = [];
    let committed = 0;
    const pick = <T>(values: readonly T[]) => values[Math.floor(random() * values.length)] as T;

    async function act(process: Reservations, options?: { tx: unknown }): Promise<void> {
      const key = pick(["a", "b", "c", randomUUID(), randomUUID(), randomUUID()]);
      const perform = <Request>(
        action: (request: Request, options?: never) => Promise<Answer>,
        request: Request,
      ): Promise<Answer> => action(request, options as never);
      const answer =
        ids.length === 0 || random() < 0.5
          ? await perform(process.placeHold as never, { ...ROOM, resource: pick(rooms), key })
          : await perform(pick([process.confirm, process.release, process.giveBack]) as never, {
              id: pick(ids),
              key,
            });
      if (answer.ok && "id" in answer && options === undefined) ids.push(answer.id);
      expect(answer.ok || answer.reason).not.toBe("recording-failure");
    }

    async function transaction(): Promise<void> {
      const isKept = random() < 0.5;
      const done = inTransaction(async (tx, execute) => {
        await execute("INSERT INTO ledger VALUES ('booked')");
        for (let i = 0; i < (random() < 0.2 ? 2 : 1); i++) await act(desk, { tx });
        if (!isKept) throw new Error("rolled back");
      });
      await done.then(
        () => committed++,
        // The application owns its transaction, and would repeat it after a deadlock or a lock that it did not get.
        ({ message, code, errno }) =>
          expect([undefined, "40P01", "55P03", 1205, 1213], message).toContain(errno ?? code),
      );
    }

    for (let round = 0; round < 15; round++)
      await Promise.all([transaction(), transaction(), act(desk), act(neighbour), act(neighbour)]);
    for (const resource of rooms)
      expect((await desk.resource(resource))?.taken).toBeLessThanOrEqual(capacity);
    expect(await rows()).toBe(committed);
    expect(committed).toBeGreaterThan(5);
    await expectSound(desk);
  });
});

test("leaves the limits of the transaction unchanged on Postgres, and waits no longer than they say", async (context) => {
  const { on, connect } = SERVERS.Postgres as (typeof SERVERS)[string];
  const { url, desk } = await on(context);
  const inTransaction = connect(context, url);
  const { tx, end } = await begin(inTransaction);
  await desk.placeHold({ ...ROOM, key: "k" }, { tx });
  await inTransaction(async (other, execute) => {
    await execute("SET LOCAL lock_timeout = '70ms'");
    await desk.placeHold({ ...ROOM, resource: "hall", key: "hall" }, { tx: other });
    expect(await execute("SHOW lock_timeout")).toMatchObject({ rows: [{ lock_timeout: "70ms" }] });
    const startedAt = performance.now();
    expect(await outcome(desk.placeHold({ ...ROOM, key: "mine" }, { tx: other }))).toBe("55P03");
    expect(performance.now() - startedAt).toBeLessThan(900);
    expect(await execute("SHOW lock_timeout")).toMatchObject({ rows: [{ lock_timeout: "70ms" }] });
    expect(await execute("SHOW idle_in_transaction_session_timeout")).toMatchObject({
      rows: [{ idle_in_transaction_session_timeout: "0" }],
    });
  });
  await end("COMMIT");
  await expectSound(desk, { keys: 2, commitments: 2 });
});

/** The same numbers for the same seed. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

const dist = (path: string) => JSON.stringify(new URL(`../../dist/${path}`, import.meta.url).href);
const program = (open: string, store: string, beginning: string) => `
  import { createReservations } from ${dist("reservations/index.js")};
  ${open}
  const desk = createReservations({ store: ${store}, windowMs: ${HOUR_MS} });
  await tx.query(${JSON.stringify(beginning)});
  await tx.query("INSERT INTO ledger VALUES ('booked')");
  const { ok } = await desk.placeHold({ ...${JSON.stringify(ROOM)}, key: "k" }, { tx });
  console.log(ok);
  setInterval(() => {}, 1_000);`;

/** Programs that hold something in a transaction and never end it. */
const KILLED: Readonly<Record<string, string>> = {
  Postgres: program(
    `import pg from ${JSON.stringify(import.meta.resolve("pg"))};
    import { postgresReservations } from ${dist("reservations/postgres.js")};
    const client = new pg.Pool({ connectionString: process.argv[1] });
    const tx = await client.connect();`,
    "postgresReservations({ client })",
    "BEGIN",
  ),
  MariaDB: program(
    `import { createPool } from ${JSON.stringify(import.meta.resolve("mysql2/promise"))};
    import { mysqlReservations } from ${dist("reservations/mysql.js")};
    const client = createPool(process.argv[1]);
    const tx = await client.getConnection();`,
    "mysqlReservations({ client })",
    "START TRANSACTION",
  ),
};
