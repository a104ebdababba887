/** Problem details as a client reads them. */
import { describe, expect, it } from "vitest";
import { problemOf } from "../../src/client/index.ts";

const MEDIA_TYPE = "application/problem+json";

function answer(body: string, contentType = MEDIA_TYPE): Response {
  return new Response(body, { status: 409, headers: { "content-type": contentType } });
}

describe("problemOf", () => {
  it("reads the members of RFC 9457 and of nevertwice, and leaves the response readable", async () => {
    const problem = {
      type: "urn:nevertwice:error:pending",
      title: "A request is outstanding for this Idempotency-Key",
      status: 409,
      detail: "Come back later.",
      instance: "/problems/1",
      code: "pending",
      retryable: true,
    };
    const response = answer(JSON.stringify(problem), "Application/Problem+JSON; charset=utf-8");
    expect(await problemOf(response)).toEqual(problem);
    expect(await problemOf(response)).toEqual(problem);
    expect(await response.json()).toEqual(problem);
  });

  it("PD-05 treats a missing type as about:blank", async () => {
    expect(await problemOf(answer('{"title":"Conflict"}'))).toEqual({
      type: "about:blank",
      title: "Conflict",
    });
    expect(await problemOf(answer("{}"))).toEqual({ type: "about:blank" });
  });

  it("PD-06 ignores members that are unknown or of the wrong type", async () => {
    const body = {
      type: 7,
      title: ["x"],
      status: "409",
      detail: null,
      instance: {},
      code: 409,
      retryable: "false",
      documentation: "https://example.com",
      balance: 30,
    };
    expect(await problemOf(answer(JSON.stringify(body)))).toEqual({ type: "about:blank" });
  });

  it("PD-06 neither reads nor changes a prototype", async () => {
    const found = await problemOf(answer('{"__proto__":{"code":"pending","retryable":true}}'));
    expect(found).toEqual({ type: "about:blank" });
    expect(found?.code).toBeUndefined();
  });

  it.each(["", "{", "null", "[]", '"text"', "7"])("PD-06 finds no problem in %j", async (body) => {
    expect(await problemOf(answer(body))).toBeUndefined();
  });

  it("finds none in another media type, or in a body that breaks off", async () => {
    expect(await problemOf(answer("{}", "application/json"))).toBeUndefined();
    expect(await problemOf(new Response(null, { status: 204 }))).toBeUndefined();
    const broken = new ReadableStream({ start: (controller) => controller.error(new Error("broken off")) });
    const response = new Response(broken, { headers: { "content-type": MEDIA_TYPE } });
    expect(await problemOf(response)).toBeUndefined();
  });
});
