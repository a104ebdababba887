/**
 * The cases that every HTTP adapter must pass, as plain objects that need no test runner. `nevertwice/testing` publishes
 * them, so that the author of an adapter for another framework can test it like our own adapters.
 */
import { bodyKeys } from "./adapter-cases/body-keys.ts";
import { choices } from "./adapter-cases/choices.ts";
import { codings } from "./adapter-cases/codings.ts";
import { disconnects } from "./adapter-cases/disconnects.ts";
import { duplicates } from "./adapter-cases/duplicates.ts";
import { failures } from "./adapter-cases/failures.ts";
import { firstAnswers } from "./adapter-cases/first-answers.ts";
import type { AdapterHarness } from "./adapter-cases/harness.ts";
import { keys } from "./adapter-cases/keys.ts";
import { refusals } from "./adapter-cases/refusals.ts";
import { replays } from "./adapter-cases/replays.ts";
import { requestBodies } from "./adapter-cases/request-bodies.ts";
import { routes } from "./adapter-cases/routes.ts";
import { type ExchangeCase, type ExchangeCases, startStage } from "./adapter-cases/stage.ts";
import { storeFaults } from "./adapter-cases/store-faults.ts";
import { streams } from "./adapter-cases/streams.ts";
import { isUnexpected } from "./cases/expect.ts";

export type {
  AdapterHarness,
  HandledRequest,
  Need,
  ReceivedResponse,
  ScriptedAnswer,
  ScriptedApp,
  ScriptedBody,
  SentRequest,
  Served,
} from "./adapter-cases/harness.ts";

const CASES = {
  "first-answer": firstAnswers,
  replay: replays,
  coding: codings,
  stream: streams,
  "request-body": requestBodies,
  key: keys,
  "body-key": bodyKeys,
  choice: choices,
  refusal: refusals,
  duplicate: duplicates,
  route: routes,
  failure: failures,
  disconnect: disconnects,
  "store-fault": storeFaults,
} as const satisfies Readonly<Record<string, ExchangeCases>>;

/** The subject of a case. */
export type AdapterSubject = keyof typeof CASES;

/** A case that an HTTP adapter must pass. */
export interface AdapterCase {
  /** A sentence about behaviour. */
  readonly name: string;
  /** What the case is about. */
  readonly subject: AdapterSubject;
  /** Why the framework cannot run this case; undefined if it can. */
  readonly skip: string | undefined;
  /**
   * Resolves if the adapter passes the case, or if the framework cannot run it. Rejects with an error that says what was
   * expected, what came, and why it matters. A case that hangs is rejected too.
   */
  run(): Promise<void>;
}

/**
 * The cases of all subjects. Each run serves its own applications, so cases may run in parallel.
 * @example
 * ```ts server
 * import { type AdapterHarness, adapterCases } from "nevertwice/testing";
 * import { describe, test } from "vitest";
 *
 * export function describeAdapter<Native>(harness: AdapterHarness<Native>) {
 *   describe("the adapter", () => {
 *     for (const { name, skip, run } of adapterCases(harness)) test.skipIf(skip !== undefined)(name, run);
 *   });
 * }
 * ```
 */
export function adapterCases<Native>(harness: AdapterHarness<Native>): readonly AdapterCase[] {
  return (Object.entries(CASES) as [AdapterSubject, ExchangeCases][]).flatMap(([subject, cases]) =>
    Object.entries(cases).map(([name, asked]) => {
      const lack = asked.needs?.find((need) => harness.lacks?.[need] !== undefined);
      const skip = lack && harness.lacks?.[lack];
      const run = async () =>
        skip === undefined ? runCase(harness, asked, `${subject}: ${name}`) : undefined;
      return { name, subject, skip, run };
    }),
  );
}

/** Longer than any case takes on a busy machine. A case that takes longer hangs. */
const PATIENCE_MS = 45_000;
/** Time limit for closing the applications of a case. */
const END_MS = 10_000;

async function runCase<Native>(
  harness: AdapterHarness<Native>,
  asked: ExchangeCase,
  title: string,
): Promise<void> {
  const { stage, end } = startStage(harness);
  const [failed] = await Promise.allSettled([
    within(harness.patienceMs ?? PATIENCE_MS, asked.check(stage), "the case"),
  ]);
  const [left] = await Promise.allSettled([within(END_MS, end(), "ending the applications")]);
  // If the case failed, its error counts, even if closing its applications failed too.
  if (failed.status === "rejected") throw failure(title, asked.why, failed.reason);
  if (left.status === "rejected") throw left.reason;
}

async function within(ms: number, work: Promise<void>, what: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not end within ${ms} ms: something hangs`)), ms);
  });
  await Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function failure(title: string, why: string, error: unknown): Error {
  const said = isUnexpected(error) ? error.message : `the exchange failed\n  came:     ${String(error)}`;
  return new Error(`${title}\n  asked:    ${said}\n  why:      ${why}`, { cause: error });
}
