/** Tests what a retry gets if the function of `replay: current(fn)` fails. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { current } from "../../src/http/current-replay.ts";
import { scene } from "./profile-scene.ts";
import { REPLAYED } from "./replayed-header.ts";

const KEY = { "idempotency-key": '"k"' };

const warnings: Error[] = [];
const note = (warning: Error) => warnings.push(warning);
beforeEach(() => {
  warnings.length = 0;
  process.on("warning", note);
});
afterEach(() => {
  process.off("warning", note);
});

const FAILURES: readonly [string, () => never][] = [
  [
    "throws",
    () => {
      throw new RangeError("the database is away");
    },
  ],
  ["rejects", () => Promise.reject(new RangeError("the database is away")) as never],
  ["returns a header that cannot be sent", () => ({ headers: { "x-owner": "\u0416" } }) as never],
  ["returns nothing", () => undefined as never],
];

describe.each(FAILURES)("if the function %s", (_, read) => {
  it("the retry gets an error that it may retry, and the handler does not run again", async () => {
    const { send, runs } = scene({ replay: current(read) });
    await send({ headers: KEY });
    const refused = await send({ headers: KEY });
    expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([500, "true"]);
    expect(await refused.json()).toMatchObject({ code: "not-kept", retryable: true });
    expect(runs()).toBe(1);
  });

  it("the retry gets the first response if the route says so", async () => {
    const { send, runs } = scene({ replay: current(read, { onError: "kept" }) });
    const first = await send({ headers: KEY });
    const again = await send({ headers: KEY });
    expect([again.status, again.headers.get(REPLAYED)]).toEqual([201, "true"]);
    expect(await again.json()).toEqual(await first.json());
    expect(runs()).toBe(1);
  });
});

it("a retry after the failure gets the current state", async () => {
  let isAway = true;
  const read = () => {
    if (isAway) throw new Error("the database is away");
    return { body: { state: "shipped" } };
  };
  const { send } = scene({ replay: current(read) });
  await send({ headers: KEY });
  expect((await send({ headers: KEY })).status).toBe(500);
  isAway = false;
  expect(await (await send({ headers: KEY })).json()).toEqual({ state: "shipped" });
});

it("the first failure is a warning with the error, and the client does not see it", async () => {
  const read = () => {
    throw new RangeError("the database is away");
  };
  const { send } = scene({ replay: current(read) });
  await send({ headers: KEY });
  for (let i = 0; i < 2; i++) expect(await (await send({ headers: KEY })).text()).not.toContain("database");
  await expect
    .poll(() =>
      warnings.filter((warning) => (warning as { code?: string }).code === "NEVERTWICE_CURRENT_FAILED"),
    )
    .toEqual([expect.objectContaining({ detail: expect.stringContaining("the database is away") })]);
});

it("an unknown choice is refused", () => {
  expect(() => current(() => ({}), { onError: "ignore" as never })).toThrow("options-invalid: onError");
  expect(() => current(() => ({}), { onFailure: "kept" } as never)).toThrow("options-invalid");
});
