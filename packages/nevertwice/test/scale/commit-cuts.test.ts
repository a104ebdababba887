/**
 * Tests that the caller of a transaction learns the truth or `unknown` when the connection is cut at its COMMIT: before the
 * server has received it, after, or so that it arrives when the client is gone already. Needs the build.
 */
import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, type TestContext, test } from "vitest";
import { seededRandom } from "../../src/testing/random.ts";
import { type Filter, startProxy } from "../services/proxy.ts";
import { plant } from "../testing/plant.ts";
import type { PlantedBug } from "../testing/planted-bugs.ts";
import { createAsking, openDoor } from "./asking.ts";
import { judgeLedger } from "./effects-referee.ts";
import { EFFECT_SUBJECTS, type EffectSubject } from "./effects-subjects.ts";
import { count, reportOn, tellCounts } from "./figures.ts";
import { EFFECTS_TIMEOUT_MS, sizeOf } from "./sizes.ts";
import { DRIVERS } from "./workers/effects/transaction.js";

const LIBRARY = new URL("../../dist", import.meta.url).pathname;
const SEED = Number(process.env.NEVERTWICE_SEED ?? 1);
const LANES = 3;
const LIMITS = { storeTimeoutMs: 400, transactionMs: 1_500, waitMs: 5_000 };
/** Longer than the caller waits for the record's lock, so that it is told `unknown`. The server still waits for the COMMIT. */
const TOO_LATE_MS = 900;
/** MariaDB waits for whole seconds, and so longer than `transactionMs`. */
const LATEST_MS = 1_750;

/** When the server gets a COMMIT whose connection is cut. */
type Cut = "never" | "answer lost" | "late" | "too late";

interface Cutting {
  /** How many of each. */
  readonly cuts: Readonly<Record<Cut, number>>;
  readonly library: string;
  readonly tooLateMs?: number;
}

async function cutCommits(
  context: TestContext,
  subject: EffectSubject,
  { cuts, library, tooLateMs = TOO_LATE_MS }: Cutting,
) {
  const url = await subject.database.create(context);
  const proxy = await startProxy(url);
  context.onTestFinished(() => proxy.stop());
  const opened = await openDoor(DRIVERS[subject.driver] as never, proxy.url, library, LIMITS);
  context.onTestFinished(async () => void (await opened.close()));
  const random = seededRandom(SEED);
  const left = Object.entries(cuts).flatMap(([kind, times]) =>
    Array.from({ length: times }, () => kind as Cut),
  );
  const asking = createAsking();
  const keys: string[] = [];
  const made: Record<string, number> = {};

  function arm(kind: Cut): void {
    const isCommit: Filter = (chunk) => {
      const isMeant = /\bcommit\b/i.test(chunk.toString("latin1"));
      if (isMeant) made[kind] = (made[kind] ?? 0) + 1;
      return isMeant;
    };
    if (kind === "never") proxy.cutRequest(1, isCommit);
    else if (kind === "answer lost") proxy.cutReply(1, isCommit);
    else proxy.delayRequest(kind === "late" ? random.between(0, 100) : tooLateMs, 1, isCommit);
  }

  async function lane(): Promise<void> {
    while (left.length > 0) {
      arm(left.splice(random.between(0, left.length - 1), 1)[0] as Cut);
      const key = `key ${keys.length}`;
      keys.push(key);
      for (let tries = 1; !(await asking.ask(opened, key)) && tries < 100; tries++) await sleep(50);
    }
  }

  await Promise.all(Array.from({ length: LANES }, lane));
  // A COMMIT that was delayed may not have arrived yet.
  await sleep(tooLateMs);
  const problems = judgeLedger({ ...asking, rows: await subject.database.rows(url), keys, deliveries: [] });
  return { problems, made, answers: asking.answers() };
}

const subjects = EFFECT_SUBJECTS.filter(({ door, driver }) => door === "transaction" && driver !== "sqlite");

describe.concurrent("a caller whose COMMIT is cut learns the truth or unknown", {
  timeout: EFFECTS_TIMEOUT_MS,
}, () => {
  for (const subject of subjects)
    test(subject.name, async (context) => {
      const { commits, tooLate } = sizeOf("commit-cuts");
      const cuts = { never: commits, "answer lost": commits, late: commits / 2, "too late": tooLate };
      const { problems, made, answers } = await cutCommits(context, subject, { cuts, library: LIBRARY });
      reportOn(`${subject.name} on ${subject.database.name}`, {
        trial: "COMMIT cut",
        figures: `${tellCounts(made)}; callers were told ${tellCounts(answers)}; ${count(problems.length)} problems`,
      });
      expect(problems.slice(0, 20), `seed ${SEED}`).toEqual([]);
      for (const kind of ["never", "answer lost", "late"] as const) expect(made[kind], kind).toBe(cuts[kind]);
    });
});

interface CutBug extends PlantedBug {
  readonly subject: string;
  readonly cut: Cut;
}

const BUGS: readonly CutBug[] = [
  {
    name: "a COMMIT without an answer counts as rolled back",
    subject: "guard.transaction, pg",
    file: "stores/postgres/transactions.js",
    find: 'if (state === undefined)\n        return "ambiguous";',
    replace: 'if (state === undefined)\n        return "rolled-back";',
    cut: "answer lost",
  },
  {
    name: "a COMMIT without an answer counts as committed",
    subject: "guard.transaction, postgres.js",
    file: "transaction/transaction-runner.js",
    find: "return this.#settle(error);",
    replace: 'return { status: "committed" };',
    cut: "never",
  },
  {
    name: "the record is read without waiting for its lock",
    subject: "guard.transaction, mysql2",
    file: "stores/mysql/transactions.js",
    find: "await query(sql.isFreeSql(id), signal);\n                    const { record, now } = await read(id, signal);",
    replace:
      'const { record, now } = await read(id, signal);\n                    if (record?.state === "pending") return "pending";',
    cut: "too late",
  },
];

describe.concurrent("a planted bug is reported", () => {
  for (const bug of BUGS)
    test(bug.name, async (context) => {
      const library = await plant(bug);
      context.onTestFinished(() => rm(library, { recursive: true, force: true }));
      const none = { never: 0, "answer lost": 0, late: 0, "too late": 0 };
      const cuts = { ...none, [bug.cut]: 3 };
      const subject = subjects.find(({ name }) => name === bug.subject) as EffectSubject;
      const { problems } = await cutCommits(context, subject, { cuts, library, tooLateMs: LATEST_MS });
      expect(problems.filter((problem) => problem.startsWith("wrong answer"))).not.toEqual([]);
    });
});
