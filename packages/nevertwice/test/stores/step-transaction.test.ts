/**
 * Tests `attempt.step(name, database, work)` on real databases: the write of the step and the step commit together or not at
 * all. The rows of the table `ledger` count what was committed, without asking the library.
 */
import { randomUUID } from "node:crypto";
import { describe, expect, onTestFinished, test } from "vitest";
import { isNevertwiceError, type NevertwiceError } from "../../src/core/errors.ts";
import { type Attempt, createGuard } from "../../src/index.ts";
import { sealed } from "../../src/sealing/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { pgDatabase } from "../../src/transaction/pg.ts";
import { startProxy } from "../services/proxy.ts";
import { createDatabase, poolOf, query } from "./postgres/database.ts";
import { onPg, SERVERS, SUBJECTS } from "./transaction/step-subjects.ts";

const request = () => ({ operation: "order", key: randomUUID() });
const codeOf = (error: unknown) => (isNevertwiceError(error) ? error.code : error);

/** The drivers of servers answer with promises, those of SQLite do not. */
function after(answer: unknown, next: () => void): unknown {
  return typeof (answer as PromiseLike<unknown> | undefined)?.then === "function"
    ? (answer as PromiseLike<unknown>).then(next)
    : next();
}

for (const [name, create] of Object.entries(SUBJECTS)) {
  describe(name, () => {
    test("commits the write and the step together, and a later attempt skips both", async (context) => {
      const { guard, step, rows } = await create(context);
      const [asked, events] = [request(), [] as string[]];
      const observed = guard({ observer: ({ kind }) => events.push(kind) });
      const order = async (attempt: Attempt) => {
        const receipt = await step(attempt, "charge", () => ({ paid: attempt.number }));
        if (attempt.number === 1) throw new Error("the mail server is down");
        return receipt;
      };
      await expect(observed.run(asked, order)).rejects.toThrow("the mail server is down");
      expect(await observed.read(asked)).toMatchObject({
        state: "released",
        steps: [{ name: "charge", outcome: { kind: "value", value: { paid: 1 } } }],
      });
      expect(await observed.run(asked, order)).toEqual({ paid: 1 });
      expect(await rows()).toBe(1);
      expect(events.filter((kind) => kind.startsWith("step"))).toEqual(["step-kept", "step-skipped"]);
    });

    test("steps with and without a transaction keep their order", async (context) => {
      const { guard, step, rows } = await create(context);
      const [asked, ran] = [request(), [] as string[]];
      const order = async (attempt: Attempt) => {
        await attempt.step("reserve", () => void ran.push("reserve"));
        await step(attempt, "charge", () => void ran.push("charge"));
        await attempt.step("ship", () => void ran.push("ship"));
        await step(attempt, "book", () => void ran.push("book"));
        if (attempt.number < 3) throw new Error("once more");
        return ran.join();
      };
      const shop = guard();
      await expect(shop.run(asked, order)).rejects.toThrow("once more");
      await expect(shop.run(asked, order)).rejects.toThrow("once more");
      expect(await shop.run(asked, order)).toBe("reserve,charge,ship,book");
      expect(await rows()).toBe(2);
    });

    test("rolls back what throws, and the work may try the same step again", async (context) => {
      const { guard, step, rows } = await create(context);
      const asked = request();
      const shop = guard();
      const value = await shop.run(asked, async (attempt) => {
        const declined = () => {
          throw new Error("card declined");
        };
        await expect(step(attempt, "charge", declined)).rejects.toThrow("card declined");
        expect(await rows()).toBe(0);
        return step(attempt, "charge", () => "paid");
      });
      expect(value).toBe("paid");
      expect(await rows()).toBe(1);
    });

    test("runs nothing and keeps nothing once another attempt owns the key", async (context) => {
      const { guard, step, rows, takeOver } = await create(context);
      let runs = 0;
      const late = guard().run(request(), async (attempt) => {
        await takeOver();
        const lost = step(attempt, "charge", () => ++runs);
        await expect(lost).rejects.toMatchObject({ code: "lease-lost" });
        expect(attempt.signal.aborted).toBe(true);
        throw new Error("stopped");
      });
      await expect(late).rejects.toThrow("stopped");
      expect([runs, await rows()]).toEqual([0, 0]);
    });

    test("work that commits by itself ends the attempt unknown, also if it throws afterwards", async (context) => {
      const { guard, step, rows } = await create(context);
      const held = guard({ onLapsed: "hold" });
      for (const isThrowing of [false, true]) {
        const asked = request();
        const fail = () => {
          if (isThrowing) throw new Error("after the commit");
        };
        const leaving = held.run(asked, async (attempt) => {
          const charged = step(attempt, "charge", (run) => after(run("COMMIT"), fail));
          await charged.catch(() => {});
          // Work that swallows the error does not make the key look done.
          return "shipped";
        });
        await expect(leaving).rejects.toMatchObject({
          code: "unknown",
          message: expect.stringContaining("charge"),
        });
        expect(await held.read(asked)).toMatchObject({ state: "lapsed" });
      }
      expect(await rows()).toBe(2);
    });

    test("keeps to the rules of steps: names, order, number and size", async (context) => {
      const { guard, step, rows } = await create(context);
      const shop = guard({ maxSteps: 2, maxOutcomeBytes: 600 });
      const codes: unknown[] = [];
      const attemptAll = async (attempt: Attempt) => {
        const note = (result: Promise<unknown>) => result.then(() => "ok", codeOf);
        codes.push(await note(step(attempt, "", () => 1)));
        codes.push(await note(attempt.step("charge", {} as never, () => 1)));
        codes.push(await note(attempt.step("charge", undefined as never, undefined as never)));
        codes.push(await note(step(attempt, "charge", () => "x".repeat(1_000))));
        codes.push(await note(step(attempt, "charge", () => 1)));
        codes.push(await note(step(attempt, "ship", () => 1)));
        codes.push(await note(step(attempt, "mail", () => 1)));
        throw new Error("failed");
      };
      const asked = request();
      await expect(shop.run(asked, attemptAll)).rejects.toThrow("failed");
      const invalid = "options-invalid";
      expect(codes).toEqual([invalid, invalid, invalid, "ok", invalid, "ok", invalid]);
      expect(await rows()).toBe(2);
      await expect(shop.run(asked, (attempt) => step(attempt, "charge"))).rejects.toMatchObject({
        code: "not-kept",
      });
      const changed = shop.run(asked, (attempt) => step(attempt, "pay"));
      await expect(changed).rejects.toMatchObject({
        code: "unknown",
        message: expect.stringContaining("pay"),
      });
      expect(await rows()).toBe(2);
    });

    test("refuses a step inside a step", async (context) => {
      const { guard, step, rows } = await create(context);
      const codes: unknown[] = [];
      await guard().run(request(), (attempt) =>
        step(attempt, "outer", () => {
          void step(attempt, "inner").catch((error) => codes.push(codeOf(error)));
          return 1;
        }),
      );
      expect(codes).toEqual(["options-invalid"]);
      expect(await rows()).toBe(1);
    });

    test("seals the outcome of the step, and opens it for a later attempt", async (context) => {
      const { store, step, keptText, rows } = await create(context);
      const keys = { keys: { k1: Buffer.alloc(32, 7).toString("base64") }, current: "k1" };
      const shop = createGuard({ store: sealed(store, keys), purgeEveryMs: 0 });
      onTestFinished(async () => void (await shop.close()));
      const asked = request();
      const order = async (attempt: Attempt) => {
        const receipt = await step(attempt, "charge", () => "receipt-of-alice");
        if (attempt.number === 1) throw new Error("failed");
        return receipt;
      };
      await expect(shop.run(asked, order)).rejects.toThrow("failed");
      expect(await keptText()).toContain("sealed.1.k1.");
      expect(await keptText()).not.toContain("alice");
      expect(await shop.run(asked, order)).toBe("receipt-of-alice");
      expect(await rows()).toBe(1);
    });

    test("a name with quotes, line breaks and letters of every kind is kept exactly", async (context) => {
      const { guard, step } = await create(context);
      const asked = request();
      const step1 = 'don\'t "quote"\n\\ é 語 🐘 $1 ?';
      const shop = guard();
      const order = async (attempt: Attempt) => {
        const value = await step(attempt, step1, () => step1);
        if (attempt.number === 1) throw new Error("failed");
        return value;
      };
      await expect(shop.run(asked, order)).rejects.toThrow("failed");
      expect((await shop.read(asked))?.steps?.map((kept) => kept.name)).toEqual([step1]);
      expect(await shop.run(asked, order)).toBe(step1);
    });
  });
}

for (const [name, create] of Object.entries(SERVERS)) {
  describe(name, () => {
    test("sets the lease for the transaction, sends no renewal while it runs, and renews again afterwards", async (context) => {
      const { guard, step } = await create(context);
      const renewals: { readonly leaseMs: number; readonly isInside: boolean }[] = [];
      let isInside = false;
      const limits = { leaseMs: 300, transactionMs: 2_000, storeTimeoutMs: 1_000 };
      const shop = guard({
        ...limits,
        observer: (event) => event.kind === "renewed" && renewals.push({ leaseMs: event.leaseMs, isInside }),
      });
      const asked = request();
      await shop.run(asked, async (attempt) => {
        await step(attempt, "charge", async () => {
          isInside = true;
          expect((await shop.read(asked))?.leaseLeftMs).toBeGreaterThan(3_000);
          expect(await attempt.renew()).toBe(true);
          await new Promise((resolve) => setTimeout(resolve, 700));
          isInside = false;
        });
        await expect.poll(() => renewals.length).toBeGreaterThan(1);
        expect(attempt.signal.aborted).toBe(false);
      });
      expect(renewals[0]?.leaseMs).toBeGreaterThan(4_000);
      expect(renewals.filter((renewal) => renewal.isInside)).toEqual([]);
      expect(renewals.at(-1)?.leaseMs).toBe(300);
    });

    for (const side of ["cutRequest", "cutReply"] as const) {
      test(`tells the truth when COMMIT is lost by ${side}`, async (context) => {
        const { url, guard, stepThrough, rows } = await create(context);
        const proxy = await startProxy(url);
        onTestFinished(() => proxy.stop());
        const remote = stepThrough(proxy.url);
        const asked = request();
        let runs = 0;
        const order = async (attempt: Attempt) => {
          const value = await remote(attempt, "charge", () => {
            runs++;
            if (runs === 1) proxy[side](1, (chunk) => /commit/i.test(chunk.toString("latin1")));
            return runs;
          });
          if (attempt.number === 1) throw new Error("failed");
          return value;
        };
        const shop = guard();
        await expect(shop.run(asked, order)).rejects.toThrow("failed");
        // A COMMIT that never arrived rolled back, so the step ran again.
        const expected = side === "cutRequest" ? 2 : 1;
        expect(await shop.run(asked, order)).toBe(expected);
        expect([runs, await rows()]).toEqual([expected, 1]);
      });
    }

    test("ends a step that takes longer than transactionMs with all that it wrote, and the work may go on", async (context) => {
      const { guard, step, rows } = await create(context);
      const asked = request();
      const value = await guard({ transactionMs: 300 }).run(asked, async (attempt) => {
        const slow = step(attempt, "charge", () => new Promise((resolve) => setTimeout(resolve, 1_000)));
        await expect(slow).rejects.toMatchObject({ code: "unavailable" });
        expect(await rows()).toBe(0);
        return attempt.step("charge", () => "not charged");
      });
      expect(value).toBe("not charged");
    });

    test("a conflict with another transaction repeats the step, and one that never ends goes to the work", async (context) => {
      const { guard, step, rows } = await create(context);
      let runs = 0;
      const conflict = () =>
        Object.assign(
          new Error("deadlock"),
          name === "mysql2" ? { errno: 1213, sqlState: "40001" } : { code: "40P01" },
        );
      const value = await guard().run(request(), async (attempt) => {
        const once = await step(attempt, "charge", () => {
          if (++runs === 1) throw conflict();
          return runs;
        });
        const always = step(attempt, "ship", () => {
          runs++;
          throw conflict();
        });
        await expect(always).rejects.toThrow("deadlock");
        return once;
      });
      expect([value, runs, await rows()]).toEqual([2, 7, 1]);
    });
  });
}

test("a step whose COMMIT gets no answer while its record stays locked ends the attempt unknown", async (context) => {
  const { url, guard, rows } = await onPg(context);
  const proxy = await startProxy(url);
  onTestFinished(() => proxy.stop());
  const pool = poolOf(proxy.url);
  onTestFinished(() => pool.end());
  const remote = pgDatabase(pool);
  const database: typeof remote = {
    ...remote,
    transact: (body, limits) =>
      remote.transact(async (tx, run) => {
        await body(tx, run);
        proxy.silence();
      }, limits),
  };
  const shop = guard({ storeTimeoutMs: 500, transactionMs: 2_000, onLapsed: "hold" });
  const asked = request();
  let next = "not run";
  const lost = shop.run(asked, async (attempt) => {
    await attempt
      .step("charge", database, (tx) => tx.query("INSERT INTO ledger VALUES ('x')").then(() => 1))
      .catch(() => {});
    next = await attempt.step("ship", () => "ran").catch((error: NevertwiceError) => error.code);
    return "shipped";
  });
  await expect(lost).rejects.toMatchObject({ code: "unknown", message: expect.stringContaining("charge") });
  expect(next).toBe("unknown");
  await expect.poll(async () => (await shop.read(asked))?.state).toBe("lapsed");
  expect(await rows()).toBe(0);
  await expect(shop.run(asked, () => "again")).rejects.toMatchObject({ code: "unknown" });
});

test("runs nothing if another attempt takes the key over after the renewal and before the transaction", async (context) => {
  const { url, guard, takeOver, rows } = await onPg(context);
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  const own = pgDatabase(pool);
  const database: typeof own = {
    ...own,
    async transact(body, limits) {
      await takeOver();
      return own.transact(body, limits);
    },
  };
  let runs = 0;
  const late = guard().run(request(), (attempt) => attempt.step("charge", database, () => ++runs));
  await expect(late).rejects.toMatchObject({ code: "lease-lost" });
  expect([runs, await rows()]).toEqual([0, 0]);
});

test("runs nothing in a database that does not have the record, and the attempt may go on", async (context) => {
  const { url, guard } = await onPg(context);
  const pool = poolOf(await createDatabase(url));
  onTestFinished(() => pool.end());
  let runs = 0;
  const value = await guard().run(request(), async (attempt) => {
    await expect(attempt.step("charge", pool, () => ++runs)).rejects.toMatchObject({
      code: "options-invalid",
      message: expect.stringContaining("does not see the record"),
    });
    return attempt.step("charge", () => "free");
  });
  expect([value, runs]).toEqual(["free", 0]);
});

test("is refused for a store outside of the database, for tables without steps, and without a claim", async (context) => {
  const { url, guard } = await onPg(context);
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  const charge = (attempt: Attempt) => attempt.step("charge", pool, () => 1);
  const elsewhere = createGuard({ store: memoryStore() });
  await expect(elsewhere.run(request(), charge)).rejects.toMatchObject({ code: "options-invalid" });
  const silent = { ...memoryStore(), claim: () => new Promise<never>(() => {}) };
  const proceeding = createGuard({ store: silent, storeTimeoutMs: 20, onUnavailable: "proceed" });
  await expect(proceeding.run(request(), charge)).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("without a claim"),
  });
  await query(url, "ALTER TABLE nevertwice_records DROP COLUMN steps");
  await expect(guard().run(request(), charge)).rejects.toMatchObject({
    code: "options-invalid",
    message: expect.stringContaining("migrated"),
  });
});

test("a transaction above READ COMMITTED keeps its step although the claim is renewed before and after", async (context) => {
  const { url, guard, rows } = await onPg(context);
  const pool = poolOf(url, { options: "-c default_transaction_isolation=serializable" });
  onTestFinished(() => pool.end());
  const shop = guard({ leaseMs: 200 });
  let runs = 0;
  await shop.run(request(), async (attempt) => {
    for (const name of ["charge", "ship"])
      await attempt.step(name, pool, async (tx) => {
        runs++;
        await tx.query("INSERT INTO ledger VALUES ('x')");
        await new Promise((resolve) => setTimeout(resolve, 300));
      });
  });
  expect([runs, await rows()]).toEqual([2, 2]);
});
