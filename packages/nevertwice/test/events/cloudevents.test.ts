/** CloudEvents in every content mode, compared with the official library. */
import { HTTP, CloudEvent as Official } from "cloudevents";
import { describe, expect, it } from "vitest";
import { type CloudEvent, type CloudEventsOptions, cloudEvents } from "../../src/events/cloudevents.ts";
import type { ConsumerEvent } from "../../src/events/index.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore, manualClock } from "../../src/testing/index.ts";

function scene(options: Partial<CloudEventsOptions<unknown>> = {}) {
  const store = faultyStore(memoryStore({ clock: manualClock() }));
  const guard = createGuard({ store, purgeEveryMs: 0 });
  const seen: CloudEvent[] = [];
  const events: ConsumerEvent[] = [];
  const receive = cloudEvents<unknown>(guard, {
    name: "orders",
    work: (event) => {
      seen.push(event);
      return event.id;
    },
    onEvent: (event) => events.push(event),
    ...options,
  });
  return { receive, seen, events, store };
}

const EVENT = { specversion: "1.0", id: "1", source: "/shop", type: "order.placed" } as const;

const structured = (event: unknown) => ({
  headers: { "content-type": "application/cloudevents+json; charset=utf-8" },
  body: JSON.stringify(event),
});

const batched = (...events: readonly unknown[]) => ({
  headers: { "Content-Type": "application/cloudevents-batch+json" },
  body: JSON.stringify(events),
});

const binary = (headers: Readonly<Record<string, string>> = {}, body: string | Uint8Array = "") => ({
  headers: {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "/shop",
    "ce-type": "order.placed",
    ...headers,
  },
  body,
});

/** A message of the official library, as it goes over the wire. */
function sent({ headers, body }: ReturnType<typeof HTTP.binary>) {
  const lines = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  return { headers: Object.fromEntries(lines) as Record<string, string>, body: (body ?? "") as string };
}

describe("the key of an event", () => {
  it("EV-06 is its source and id: the same pair is a duplicate in every content mode", async () => {
    const { receive, seen, events } = scene();
    const forms = [
      structured(EVENT),
      binary(),
      batched(EVENT),
      structured({ ...EVENT, time: "2026-01-01T00:00:00Z" }),
    ];
    for (const form of forms) expect((await receive.handle(form)).status).toBe(204);
    expect((await receive.handleEvent(EVENT)).status).toBe("done-before");
    expect(seen).toHaveLength(1);
    expect(events.map(({ kind }) => kind)).toEqual(["done", ...new Array(4).fill("done-before")]);
  });

  it("EV-07 differs for the same id with another source: both are processed", async () => {
    const { receive, seen } = scene();
    for (const source of ["/shop", "/bank"]) await receive.handle(structured({ ...EVENT, source }));
    expect(seen.map(({ source }) => source)).toEqual(["/shop", "/bank"]);
    // The boundary between source and id cannot be moved.
    await receive.handleEvent({ ...EVENT, source: "a", id: "b|c" });
    await receive.handleEvent({ ...EVENT, source: "a|b", id: "c" });
    expect(seen).toHaveLength(4);
  });

  it.each([
    ["no id", { id: undefined }, "key-missing"],
    ["an empty id", { id: "" }, "key-missing"],
    ["an id that is null", { id: null }, "key-missing"],
    ["no source", { source: undefined }, "key-missing"],
    ["an empty source", { source: "" }, "key-missing"],
    ["an id that is no text", { id: 7 }, "key-invalid"],
    ["no type", { type: undefined }, "key-invalid"],
    ["an empty type", { type: "" }, "key-invalid"],
    ["no specversion", { specversion: undefined }, "key-invalid"],
    ["another specversion", { specversion: "0.3" }, "key-invalid"],
    ["an empty subject", { subject: "" }, "key-invalid"],
    ["a time that is none", { time: "yesterday" }, "key-invalid"],
    ["a time without its zone", { time: "2026-01-01T00:00:00" }, "key-invalid"],
    ["a day that is none", { time: "2026-13-01T00:00:00Z" }, "key-invalid"],
    ["an attribute with a name that is none", { my_extension: "x" }, "key-invalid"],
    ["an attribute that is no simple value", { extension: { a: 1 } }, "key-invalid"],
    ["data twice", { data: 1, data_base64: "AA==" }, "key-invalid"],
    ["data_base64 that is none", { data_base64: "A" }, "key-invalid"],
  ])("EV-08 with %s is rejected as invalid, and writes nothing to the store", async (_, flaw, code) => {
    const { receive, seen, store, events } = scene();
    const answer = await receive.handle(structured({ ...EVENT, ...flaw }));
    expect(answer.status).toBe(400);
    expect(JSON.parse(String(answer.body)).code).toBe(code);
    expect(await receive.handleEvent({ ...EVENT, ...flaw })).toMatchObject({
      status: "refused",
      verdict: "reject",
      error: { code },
    });
    expect(seen).toEqual([]);
    expect(store.calls.claim).toBe(0);
    expect(events.map(({ kind }) => kind)).toEqual(["refused", "refused"]);
  });

  it("EV-08 in binary mode needs the same attributes, and none that the binding forbids", async () => {
    const { receive, seen, events } = scene();
    const flaws = [
      { "ce-id": "" },
      { "ce-source": "" },
      { "ce-type": "" },
      { "ce-specversion": "2.0" },
      { "ce-datacontenttype": "text/plain" },
      { "ce-data": "x" },
      { "ce-id": "%ff" },
    ];
    for (const flaw of flaws)
      expect((await receive.handle(binary(flaw))).status, JSON.stringify(flaw)).toBe(400);
    expect(seen).toEqual([]);
    expect(events).toHaveLength(flaws.length);
  });

  it.each([
    ["no CloudEvent at all", { headers: {}, body: "{}" }],
    ["JSON that is none", { ...structured(EVENT), body: "{" }],
    ["a list where one is to be", structured([EVENT])],
    ["one where a list is to be", { ...batched(), body: JSON.stringify(EVENT) }],
    [
      "a format that is not JSON",
      { ...structured(EVENT), headers: { "content-type": "application/cloudevents+avro" } },
    ],
    ["null", structured(null)],
  ])("EV-08 refuses %s", async (_, request) => {
    const { receive, events } = scene();
    expect((await receive.handle(request)).status).toBe(400);
    expect(events).toMatchObject([{ kind: "refused", verdict: "reject" }]);
  });
});

describe("an event of the official library", () => {
  const data = { order: 17, note: "ünïcödé ☃" };
  const attributes = {
    specversion: "1.0",
    id: "o-17",
    source: "https://shop.example/orders",
    type: "order.placed",
    subject: "order 17",
    time: "2026-11-15T10:00:00.000Z",
    dataschema: "https://shop.example/schema",
    datacontenttype: "application/json",
    traceparent: "00-1",
  };
  const official = new Official({ ...attributes, priority: 3, urgent: true, data });

  it("is read correctly in binary and in structured mode, and processed once", async () => {
    const { receive, seen } = scene();
    expect((await receive.handle(sent(HTTP.structured(official)))).status).toBe(204);
    expect(seen[0]).toEqual({ ...attributes, priority: 3, urgent: true, data });
    const other = scene();
    expect((await other.receive.handle(sent(HTTP.binary(official)))).status).toBe(204);
    // A header is text, whatever the value was before.
    expect(other.seen[0]).toEqual({ ...attributes, priority: "3", urgent: "true", data });
    expect((await receive.handle(sent(HTTP.binary(official)))).status).toBe(204);
    expect(seen).toHaveLength(1);
  });

  it("may be passed as an object", async () => {
    const { receive, seen } = scene();
    expect((await receive.handleEvent(official)).status).toBe("done");
    expect(seen[0]).toMatchObject({ id: "o-17", priority: 3, data });
  });

  it("has binary data as bytes", async () => {
    const bytes = Uint8Array.of(0, 1, 254, 255);
    const event = new Official({ ...EVENT, datacontenttype: "application/octet-stream", data: bytes });
    const { receive, seen } = scene();
    await receive.handle(sent(HTTP.structured(event)));
    expect(Array.from(seen[0]?.data as Uint8Array)).toEqual([0, 1, 254, 255]);
    expect(seen[0]).not.toHaveProperty("data_base64");
  });

  it("reads the requests of our tests in the same way", async () => {
    const forms = [
      {
        headers: { "content-type": "application/cloudevents+json" },
        body: JSON.stringify({ ...EVENT, data }),
      },
      binary({ "content-type": "application/json" }, JSON.stringify(data)),
    ];
    for (const form of forms) {
      const { receive, seen } = scene();
      await receive.handle(form);
      const [{ id, source, type } = EVENT] = seen;
      expect(HTTP.toEvent(form)).toMatchObject({ id, source, type, data });
      expect(seen[0]).toMatchObject({ ...EVENT, data });
    }
  });
});

describe("binary mode", () => {
  it("decodes percent-encoded headers", async () => {
    const { receive, seen } = scene();
    await receive.handle(
      binary({
        "CE-Subject": "Euro %E2%82%AC 100%25",
        "ce-quoted": '"a \\"b\\" %41"',
        "ce-plain": "50% off",
      }),
    );
    expect(seen[0]).toMatchObject({ subject: "Euro € 100%", quoted: 'a "b" A', plain: "50% off" });
    expect(seen[0]).not.toHaveProperty("data");
  });

  it.each([
    ["application/json; charset=utf-8", '{"a":1}', { a: 1 }],
    ["application/vnd.shop+json", "[1]", [1]],
    ["text/plain", "hello", "hello"],
    ["application/octet-stream", "hi", new TextEncoder().encode("hi")],
  ])("reads data of the type %s", async (type, body, data) => {
    const { receive, seen } = scene();
    await receive.handle(binary({ "content-type": type }, body));
    expect(seen[0]).toMatchObject({ datacontenttype: type });
    expect(seen[0]?.data).toEqual(data);
  });

  it("refuses data that does not match its content type", async () => {
    const { receive } = scene();
    expect((await receive.handle(binary({ "content-type": "application/json" }, "{"))).status).toBe(400);
  });
});

describe("a batch", () => {
  it("is processed event by event, and accepted when all are done", async () => {
    const { receive, seen } = scene();
    const answer = await receive.handle(batched(EVENT, { ...EVENT, id: "2" }, EVENT));
    expect(answer.status).toBe(204);
    expect(seen.map(({ id }) => id)).toEqual(["1", "2"]);
    expect((await receive.handle(batched())).status).toBe(204);
    expect((await receive.handle(batched(EVENT, { ...EVENT, id: "" }))).status).toBe(400);
  });

  it("must be sent again while one event must: events that are done are skipped", async () => {
    let fails = true;
    const done: string[] = [];
    const { receive } = scene({
      work: ({ id }) => {
        if (id === "2" && fails) throw new Error("no");
        done.push(id);
      },
    });
    const batch = batched({ ...EVENT, id: "" }, EVENT, { ...EVENT, id: "2" }, { ...EVENT, id: "3" });
    expect(await receive.handle(batch)).toMatchObject({ status: 500, headers: { "retry-after": "1" } });
    fails = false;
    expect((await receive.handle(batch)).status, "what is left is the one that is none").toBe(400);
    expect(done).toEqual(["1", "3", "2"]);
  });
});

describe("the receiver", () => {
  it("is a function from Request to Response", async () => {
    const { receive, seen } = scene();
    const call = () =>
      receive(
        new Request("http://x/", { method: "POST", ...binary({ "content-type": "text/plain" }, "hi") }),
      );
    expect((await call()).status).toBe(204);
    expect((await call()).status).toBe(204);
    expect(seen).toMatchObject([{ data: "hi" }]);
  });

  it("calls verify before the store is read", async () => {
    const { receive, store, events } = scene({ verify: ({ header }) => header("authorization") === "ours" });
    expect((await receive.handle(structured(EVENT))).status).toBe(401);
    expect(store.calls.claim).toBe(0);
    expect(events).toMatchObject([{ kind: "refused", error: { code: "signature-invalid" } }]);
    const ours = { ...structured(EVENT), headers: { ...structured(EVENT).headers, authorization: "ours" } };
    expect((await receive.handle(ours)).status).toBe(204);
  });

  it("passes the event to scope and fingerprint too", async () => {
    const { receive, events } = scene({
      scope: ({ subject }) => String(subject),
      fingerprint: ({ data }) => data,
    });
    await receive.handleEvent({ ...EVENT, subject: "a", data: 1 });
    expect((await receive.handleEvent({ ...EVENT, subject: "b", data: 2 })).status).toBe("done");
    expect(await receive.handleEvent({ ...EVENT, subject: "a", data: 2 })).toMatchObject({
      status: "conflict",
      verdict: "acknowledge",
    });
    expect(events.map(({ kind }) => kind)).toEqual(["done", "done", "alarm"]);
  });

  it("limits the body and refuses bad options", async () => {
    const { receive } = scene({ maxBodyBytes: 5 });
    expect((await receive.handle(structured(EVENT))).status).toBe(413);
    expect(() => scene({ verify: true as never })).toThrow("verify");
    expect(() => scene({ key: () => "x" } as never)).toThrow("key");
    expect(() => scene({ scope: "a" as never })).toThrow("scope");
    expect(() => scene({ nonsense: 1 } as never)).toThrow("nonsense");
    expect(() => scene({ work: undefined } as never)).toThrow("work is missing");
  });
});
