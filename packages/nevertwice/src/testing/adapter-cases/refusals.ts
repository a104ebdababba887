/** Every refusal of the layer has the application's own form, if it has one, whichever part of the layer refuses. */
import { expect } from "../cases/expect.ts";
import { expectRetryAfter, headerValues, toText } from "./response-checks.ts";
import { answer, countingRuns, type HandlerScript, json } from "./script.ts";
import type { AppSetup, CaseApp, CaseStage, ExchangeCase, ExchangeCases } from "./stage.ts";

type Asked = Awaited<ReturnType<CaseApp["ask"]>>;

interface ProvokedRefusal {
  readonly code: string;
  readonly status: number;
  readonly isRetryable?: boolean;
  readonly options?: AppSetup["options"];
  readonly script?: (stage: CaseStage) => HandlerScript;
  /** Resolves with the refused answer. */
  provoke(app: CaseApp, stage: CaseStage): Promise<Asked>;
}

async function second(app: CaseApp, ...asked: Parameters<CaseApp["ask"]>): Promise<Asked> {
  await app.ask();
  return app.ask(...asked);
}

/** A clock that goes on by more than the layer allows two clocks to differ, whenever it is read. */
function inMinutes(): () => number {
  let ahead = 0;
  return () => {
    ahead += 120_000;
    return Date.now() + ahead;
  };
}

const REFUSALS: readonly ProvokedRefusal[] = [
  {
    code: "key-missing",
    status: 400,
    options: { required: true },
    provoke: (app) => app.ask({ key: [] }),
  },
  { code: "key-invalid", status: 400, provoke: (app) => app.ask({ key: "a key" }) },
  {
    code: "fingerprint-invalid",
    status: 400,
    options: { fingerprint: "content-digest" },
    provoke: (app) => app.ask(),
  },
  {
    code: "request-invalid",
    status: 400,
    options: { operation: () => "o".repeat(2_000) },
    provoke: (app) => app.ask(),
  },
  {
    code: "not-authorized",
    status: 403,
    options: { authorize: () => false },
    provoke: (app) => app.ask(),
  },
  { code: "conflict", status: 422, provoke: (app) => second(app, { body: '{"amount":8}' }) },
  {
    code: "already-done",
    status: 409,
    options: { onNotKept: "refuse", keep: "marker" },
    provoke: (app) => second(app),
  },
  {
    code: "unknown",
    status: 409,
    options: { keep: "unknown", onLapsed: "hold" },
    provoke: (app) => second(app),
  },
  {
    code: "expired",
    status: 409,
    options: { retentionMs: 1, expired: "refuse", clock: { now: inMinutes() } },
    provoke: (app) => second(app),
  },
  {
    code: "body-too-large",
    status: 413,
    options: { maxBodyBytes: 4 },
    provoke: (app) => app.ask(),
  },
  {
    code: "quota-exceeded",
    status: 429,
    isRetryable: true,
    options: { quota: 1 },
    provoke: (app) => second(app, { key: "other" }),
  },
  {
    code: "options-invalid",
    status: 500,
    options: { fingerprint: () => undefined },
    provoke: (app) => app.ask(),
  },
  {
    code: "unavailable",
    status: 503,
    isRetryable: true,
    options: { storeTimeoutMs: 60 },
    async provoke(app) {
      app.store.setRates({ refuse: 1 });
      return app.ask();
    },
  },
  {
    code: "pending",
    status: 409,
    isRetryable: true,
    options: { onPending: "reject" },
    script: (stage) => {
      const gate = stage.gate();
      return async () => {
        await gate.opened;
        return answer(201, json({}));
      };
    },
    async provoke(app, stage) {
      app.visit();
      await stage.until(() => app.runs() === 1);
      return app.ask();
    },
  },
];

const OWN = "x-own";

function ownForm({
  code,
  status,
  isRetryable = false,
  options,
  script,
  provoke,
}: ProvokedRefusal): ExchangeCase {
  return {
    why: "A client that knows one form of errors takes any other for a failure of the network, or for a success.",
    async check(stage) {
      const app = await stage.app(script?.(stage) ?? countingRuns, {
        options: {
          ...options,
          refusal: (problem, native) => ({
            headers: { [OWN]: stage.header(native, "content-type") ?? "", "Retry-After": "99" },
            body: { error: { code: problem.code, detail: typeof problem.detail } },
          }),
        },
      });
      const found = await provoke(app, stage);
      expect("the status", found.status, status);
      expect("the body", toText(found.body), JSON.stringify({ error: { code, detail: "string" } }));
      expect("the type", headerValues(found, "content-type"), ["application/json"]);
      expect("a header of the own form", headerValues(found, OWN), ["application/json"]);
      expect("Cache-Control", headerValues(found, "cache-control"), ["no-store"]);
      expect("X-Should-Retry", headerValues(found, "x-should-retry"), [String(isRetryable)]);
      if (isRetryable) expectRetryAfter(found);
      else expect("Retry-After", headerValues(found, "retry-after"), []);
    },
  };
}

export const refusals: ExchangeCases = Object.fromEntries(
  REFUSALS.map((refusal) => [`the application's own form is sent for ${refusal.code}`, ownForm(refusal)]),
);
