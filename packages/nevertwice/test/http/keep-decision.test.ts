/** What happens to a key after its handler has responded: `keep` decides with one of four values. */
import { describe, expect, test } from "vitest";
import type { HttpResponse } from "../../src/http/http-message.ts";
import { decide } from "../../src/http/keep-decision.ts";

const failed = { status: 500, headers: [], body: new Uint8Array() } as unknown as HttpResponse;

describe("a keep function", () => {
  test.each(["keep", "release", "unknown", "marker"] as const)("decides with %s", (decision) => {
    expect(
      decide(
        failed,
        () => decision,
        undefined,
        () => "release",
      ),
    ).toBe(decision);
  });

  test.each<readonly [string, () => unknown]>([
    ["a promise", async () => "keep"],
    ["a promise that fails", () => Promise.reject(new Error("down"))],
    ["true", () => true],
    ["an unknown decision", () => "yes"],
    ["nothing", () => undefined],
    [
      "an error",
      () => {
        throw new Error("down");
      },
    ],
  ])("that returns %s leaves the decision to the default, which releases a failure", (_, keep) => {
    expect(decide(failed, keep as never, undefined, () => "release")).toBe("release");
  });
});
