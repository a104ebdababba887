/** Tests the profile oasis, over the fetch adapter: Repeatable Requests 1.0, with the window of Azure's guidelines. */
import { describe, expect, it } from "vitest";
import { DAY_MS, type Scene, scene, slow } from "./profile-scene.ts";
import { REPLAYED, REPLAYED_HEADER } from "./replayed-header.ts";

const ID = "2dfc4a1e-9b1c-4a53-8d7e-0f6b2c3d4e5f";

function fields({ clock }: Scene, { id = ID, agoMs = 0 } = {}): Readonly<Record<string, string>> {
  return {
    "repeatability-request-id": id,
    "repeatability-first-sent": new Date(clock.now() - agoMs).toUTCString(),
  };
}

function resultOf(response: Response): string | null {
  return response.headers.get("repeatability-result");
}

describe("oasis", () => {
  it("OA-01 executes an unseen id and accepts it", async () => {
    const service = scene({ profile: "oasis" });
    const first = await service.send({ headers: fields(service) });
    expect(first.status).toBe(201);
    expect(resultOf(first)).toBe("accepted");
    expect(service.runs()).toBe(1);
  });

  it.each(["repeatability-request-id", "repeatability-first-sent"])(
    "OA-02 rejects %s alone",
    async (name) => {
      const service = scene({ profile: "oasis" });
      const refused = await service.send({ headers: { [name]: fields(service)[name] ?? "" } });
      expect(refused.status).toBe(400);
      expect(resultOf(refused)).toBe("rejected");
      expect(service.runs()).toBe(0);
    },
  );

  it.each([
    "2026-01-01T00:00:00Z",
    "Thu, 1 Jan 2026 00:00:00 GMT",
    "Thursday, 01-Jan-26 00:00:00 GMT",
    "Thu Jan  1 00:00:00 2026",
    "Fri, 01 Jan 2026 00:00:00 GMT",
    "Thu, 01 Jan 2026 00:00:00 +0000",
    "thu, 01 jan 2026 00:00:00 gmt",
    "Thu, 01 Jan 2026 24:00:00 GMT",
    "",
  ])("OA-03 rejects the date %j", async (date) => {
    const service = scene({ profile: "oasis" });
    const refused = await service.send({
      headers: { ...fields(service), "repeatability-first-sent": date },
    });
    expect(refused.status).toBe(400);
    expect(resultOf(refused)).toBe("rejected");
    expect(service.runs()).toBe(0);
  });

  it("OA-04 rejects a request that was first sent before the window with 412, seen or not", async () => {
    const service = scene({ profile: "oasis" });
    const headers = fields(service);
    await service.send({ headers });
    service.clock.advance(DAY_MS);
    expect((await service.send({ headers })).headers.get(REPLAYED)).toBe("true");
    service.clock.advance(1_000);
    for (const old of [headers, fields(service, { id: "another-id", agoMs: DAY_MS + 1_000 })]) {
      const refused = await service.send({ headers: old });
      expect(refused.status).toBe(412);
      expect(resultOf(refused)).toBe("rejected");
      expect(await refused.json()).toMatchObject({ code: "expired", status: 412 });
    }
    expect(service.runs()).toBe(1);
  });

  it("OA-04 rejects a request that was first sent more than a minute in the future", async () => {
    const service = scene({ profile: "oasis", retentionMs: 300_000 });
    expect((await service.send({ headers: fields(service, { agoMs: -61_000 }) })).status).toBe(412);
    const headers = fields(service, { agoMs: -60_000 });
    expect((await service.send({ headers })).status).toBe(201);
    // A client whose clock is ahead is inside its window longer than the retention of an answer.
    service.clock.advance(360_000);
    expect((await service.send({ headers })).headers.get(REPLAYED)).toBe("true");
    service.clock.advance(1_000);
    expect((await service.send({ headers })).status).toBe(412);
    expect(service.runs()).toBe(1);
  });

  it("OA-05 rejects a request that cannot be repeated with 501, and runs nothing", async () => {
    const service = scene({ profile: "oasis", methods: ["POST"] });
    const refused = await service.send({ method: "PATCH", headers: fields(service) });
    expect(refused.status).toBe(501);
    expect(resultOf(refused)).toBe("rejected");
    expect(service.runs()).toBe(0);
  });

  it("OA-05 ignores other methods without the fields, and rejects bad fields there too", async () => {
    const service = scene({ profile: "oasis", methods: ["POST"] });
    expect((await service.send({ method: "PATCH" })).status).toBe(201);
    const bad = { ...fields(service), "repeatability-first-sent": "yesterday" };
    expect((await service.send({ method: "PATCH", headers: bad })).status).toBe(400);
    expect(service.runs()).toBe(1);
  });

  it.each([
    ["URI", { path: "/other" }],
    ["method", { method: "PATCH" }],
    ["body", { body: { amount: 6 } }],
  ])("OA-06 rejects a seen id with another %s", async (_what, other) => {
    const service = scene({ profile: "oasis" });
    const headers = fields(service);
    await service.send({ headers });
    const conflict = await service.send({ headers, ...other });
    expect(conflict.status).toBe(400);
    expect(resultOf(conflict)).toBe("rejected");
    expect(await conflict.json()).toMatchObject({ code: "conflict" });
    expect(service.runs()).toBe(1);
  });

  it.each(["POST", "PUT", "PATCH", "DELETE"])(
    "OA-07 repeats the answer to a %s, accepted",
    async (method) => {
      const service = scene({ profile: "oasis" });
      const sent = { method, headers: fields(service) };
      const first = await service.send(sent);
      const repeat = await service.send(sent);
      expect(repeat.status).toBe(first.status);
      expect(await repeat.text()).toBe(await first.text());
      expect(resultOf(repeat)).toBe("accepted");
      expect(service.runs()).toBe(1);
    },
  );

  it("OA-08 executes a request again after a 5xx, and accepts it", async () => {
    const service = scene({ profile: "oasis" });
    const headers = fields(service);
    service.answers(() => new Response(null, { status: 502 }));
    expect(resultOf(await service.send({ headers }))).toBe("accepted");
    service.answers(() => new Response("done"));
    const again = await service.send({ headers });
    expect(await again.text()).toBe("done");
    expect(resultOf(again)).toBe("accepted");
    expect(service.runs()).toBe(2);
  });

  it.each(["GET", "HEAD"])("OA-09 ignores the fields on %s", async (method) => {
    const service = scene({ profile: "oasis" });
    for (const headers of [fields(service), fields(service), { "repeatability-request-id": ID }]) {
      const answer = await service.send({ method, headers });
      expect(answer.status).toBe(201);
      expect(resultOf(answer)).toBeNull();
    }
    expect(service.runs()).toBe(3);
  });

  it("OA-10 treats an id in upper case as the same id", async () => {
    const service = scene({ profile: "oasis" });
    await service.send({ headers: fields(service, { id: ID.toUpperCase() }) });
    const repeat = await service.send({ headers: fields(service) });
    expect(repeat.headers.get(REPLAYED)).toBe("true");
    expect(service.runs()).toBe(1);
  });

  it("OA-11 refuses a window of less than five minutes at construction", () => {
    expect(() => scene({ profile: "oasis", retentionMs: 299_999 })).toThrow(
      "retentionMs is 299999; the profile oasis needs at least 300000.",
    );
    expect(() => scene({ profile: "oasis" }, { retentionMs: 299_999 })).toThrow("the profile oasis");
    expect(() => scene({ profile: "oasis", retentionMs: 300_000 })).not.toThrow();
  });

  it("says accepted to a duplicate of a running request", async () => {
    const service = scene({ profile: "oasis" });
    const { handler, began, finish } = slow(() => new Response("done"));
    service.answers(handler);
    const headers = fields(service);
    const first = service.send({ headers });
    await began;
    const pending = await service.send({ headers });
    expect(pending.status).toBe(409);
    expect(resultOf(pending)).toBe("accepted");
    finish();
    await first;
  });

  it("rejects a batch that carries the fields, and runs none of it", async () => {
    const service = scene({ profile: "oasis" });
    const refused = await service.send({ path: "/service/$batch?x=1", headers: fields(service) });
    expect(refused.status).toBe(400);
    expect(resultOf(refused)).toBe("rejected");
    expect(service.runs()).toBe(0);
  });

  it("does not change requests without the fields", async () => {
    const service = scene({ profile: "oasis" });
    const answer = await service.send();
    expect(answer.status).toBe(201);
    expect(resultOf(answer)).toBeNull();
  });

  it("shows its result to browsers of other origins", async () => {
    const service = scene({ profile: "oasis" });
    const first = await service.send({ headers: { ...fields(service), origin: "https://shop.test" } });
    expect(first.headers.get("access-control-expose-headers")).toBe(
      `${REPLAYED_HEADER}, Retry-After, Repeatability-Result`,
    );
  });

  it("allows both fields to browsers of other origins", async () => {
    const service = scene({ profile: "oasis" });
    service.answers(() => new Response(null, { status: 204 }));
    const preflight = await service.send({
      method: "OPTIONS",
      headers: { origin: "https://shop.test", "access-control-request-method": "POST" },
    });
    expect(preflight.headers.get("access-control-allow-headers")).toBe(
      "Repeatability-Request-ID, Repeatability-First-Sent",
    );
  });
});
